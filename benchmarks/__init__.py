"""Benchmarks: comparisons with Chroma (`make bench`), sizes, limits and streams."""
