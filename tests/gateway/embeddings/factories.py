"""Makes embedders in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences, SecretSource


def references(sources: Mapping[str, SecretSource] | None = None, *, literals: bool = False) -> SecretReferences:
    """References to the environment, and to further sources."""
    return SecretReferences({"env": EnvironmentSource(), **(sources or {})}, allow_literals=literals)


@asynccontextmanager
async def embeddings(
    *,
    concurrency: int = 4,
    timeout_seconds: float = 20.0,
    cache_bytes: int = 1 << 20,
    secrets: SecretReferences | None = None,
) -> AsyncIterator[Embeddings]:
    """A factory of embedders, with its connections."""
    limits = EmbeddingLimits(concurrency, timeout_seconds, cache_bytes)
    made = Embeddings(secrets or references(), Connections(), limits)
    async with made.running():
        yield made
