"""Splitting: from an extracted text to chunks, which are spans of it."""
