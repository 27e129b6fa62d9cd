"""Ingestion: from texts to embedded chunks in the store."""
