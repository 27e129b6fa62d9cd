"""The synchronous client of the gateway."""
