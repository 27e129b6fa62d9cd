"""The providers of embeddings: for each one its parameters, its request and its response."""
