"""OpenAI's Responses API for `rag/` models and the tool `file_search`, over the upstream's Chat Completions."""
