"""API keys, roles and access."""
