"""Engines: adapters behind one protocol, with one meaning of relevance."""
