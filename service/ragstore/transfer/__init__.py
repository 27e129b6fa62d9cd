"""Moves collections: into files, out of files, between two services. It speaks the HTTP contract and knows no store."""
