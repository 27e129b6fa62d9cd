"""ragstore: stores documents with pre-computed embeddings in ChromaDB and finds them again."""

__all__ = ("__version__",)

__version__ = "0.2.0"
