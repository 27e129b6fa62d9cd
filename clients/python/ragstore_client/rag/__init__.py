"""The retriever of an agent runtime: configuration, query embedding, search over archives, formatting, providers."""
