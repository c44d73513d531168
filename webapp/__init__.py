"""Pages, API and sign-in: the only layer that knows HTTP. It builds on `agent` and `memory_core`; neither knows it."""
