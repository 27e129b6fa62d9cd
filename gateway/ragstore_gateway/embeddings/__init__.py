"""Embeddings: providers, and models in the gateway's process."""
