"""Embeddings: providers, and the model that is installed with the gateway."""
