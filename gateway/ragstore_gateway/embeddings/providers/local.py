"""Models in the gateway's process: the built-in ones, and models of sentence-transformers."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from ragstore_gateway.embeddings import builtin
from ragstore_gateway.embeddings.providers.provider import Parameters, Prefix, ProviderDeclaration


class LocalParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `local`. The prefixes are for models other than the built-in ones."""

    model: str = builtin.DEFAULT
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None


LOCAL: Final = ProviderDeclaration("local", LocalParameters, None)
