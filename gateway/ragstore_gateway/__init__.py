"""ragstore-gateway: embeddings, and OpenAI-compatible chat with retrieval, on top of ragstore."""

__all__ = ("__version__",)

__version__ = "0.2.0"
