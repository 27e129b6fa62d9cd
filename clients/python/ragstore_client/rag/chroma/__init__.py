"""Retrieval from plain Chroma servers. The retriever loads it for the first archive that is in one."""
