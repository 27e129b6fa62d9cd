"""Comparisons with Chroma itself: `make bench`."""
