"""Chroma as a server, over HTTP."""
