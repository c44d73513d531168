"""Stand-ins for what lies outside this program. A fake passes the same contract tests as the real thing."""
