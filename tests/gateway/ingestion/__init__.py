"""Ingestion into knowledge bases, over real processes."""
