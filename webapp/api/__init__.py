"""The HTTP API below /v1: its one table of routes, its models, who may call, and how it is described."""
