"""What may be remembered, how it changes and where it lives. Knows no model and no web."""
