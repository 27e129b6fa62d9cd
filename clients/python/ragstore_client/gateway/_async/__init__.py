"""The asynchronous client of the gateway."""
