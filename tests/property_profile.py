"""A pytest plug-in: how Hypothesis runs here. No test depends on how fast the machine happens to be.

``--hypothesis-profile=quick`` (what `make check` uses) tries a quarter of the usual examples.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("remembrancer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("remembrancer"), max_examples=25)
settings.load_profile("remembrancer")
