"""Moves collections: into files, out of files, between two services. It is a client of the HTTP contract."""
