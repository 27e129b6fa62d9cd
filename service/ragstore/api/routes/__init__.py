"""The HTTP routes: each decodes, calls the store, and encodes."""
