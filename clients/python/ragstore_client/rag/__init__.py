"""The retriever for agents: configuration, query embedding, search over archives, formatting, providers."""
