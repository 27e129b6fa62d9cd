"""Traces: a span a request, a span a call to Chroma. Nothing but `wanted` is imported while nobody wants them."""
