"""From a question to what a model receives, and back to what the model cited."""

from ragstore_client.context._passages import ContextPassage, MetadataValue, Passage, Vector

__all__ = ["ContextPassage", "MetadataValue", "Passage", "Vector"]
