"""Plain collections of the store: written by `ingest`, searched by `rag/` models without an assistant."""
