"""Fixtures for every test. Each family lives in a plug-in of its own; this list is where a new one is added."""

pytest_plugins = ["tests.database_fixtures"]
