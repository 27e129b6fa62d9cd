"""Layers around Chroma's operations: circuit breaker, retries, consistent reads, metrics, tracing."""
