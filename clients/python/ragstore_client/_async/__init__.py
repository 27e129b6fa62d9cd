"""The asynchronous client. `_sync` is generated from this package by `scripts/generate_sync_client.py`."""
