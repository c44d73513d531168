"""A pytest plug-in: how Hypothesis runs here. No test depends on how fast the machine happens to be."""

from hypothesis import HealthCheck, settings

settings.register_profile("remembrancer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("remembrancer")
