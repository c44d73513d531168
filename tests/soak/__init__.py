"""Long runs: kills, crowds, two processes, shutdowns, a line that breaks. `make soak` runs them whole; a small one of
each, seeded anew every time, is part of the ordinary tests. `SOAK_SEED=… python -m pytest tests/soak/…` repeats a run.
"""
