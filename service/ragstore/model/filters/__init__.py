"""Filters of the store: `where` for Chroma, and `where_document`, the language over text."""
