"""Ingestion of a stream of documents."""
