"""The registry with the built-in providers. Add others with `registry.register`."""

from __future__ import annotations

from ragstore_client.rag._providers import ProviderRegistry
from ragstore_client.rag._ragstore_provider import RagstoreProvider
from ragstore_client.rag.chroma._provider import ChromaProvider

registry = ProviderRegistry()
"""The default registry."""

registry.register(RagstoreProvider)
registry.register(ChromaProvider)
