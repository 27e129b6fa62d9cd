"""OpenAI's chat API: pass-through, and `rag/` models with retrieval."""
