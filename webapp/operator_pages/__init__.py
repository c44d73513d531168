"""The operator's pages as views: counts, sizes, states and configuration. Nothing here knows a remembered word."""
