"""The agent's runtime: turns, prompt, tools and models. Knows memory_core; knows no web."""
