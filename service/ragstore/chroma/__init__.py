"""The contract over Chroma: a store made of Chroma's operations, and the layers around those operations."""
