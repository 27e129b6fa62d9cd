"""The `Store` protocol, and the layers that wrap a store."""
