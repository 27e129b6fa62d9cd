"""Collections, documents, queries and filters. No HTTP, no Chroma."""
