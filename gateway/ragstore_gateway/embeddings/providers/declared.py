"""The providers. A provider is in its module and in this list; everything else is derived from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ragstore_gateway.embeddings.providers.bedrock import BEDROCK
from ragstore_gateway.embeddings.providers.cohere import COHERE
from ragstore_gateway.embeddings.providers.google import GEMINI, VERTEX
from ragstore_gateway.embeddings.providers.local import LOCAL
from ragstore_gateway.embeddings.providers.openai import AZURE, MISTRAL, OPENAI
from ragstore_gateway.embeddings.providers.provider import ProviderDeclaration
from ragstore_gateway.embeddings.providers.self_hosted import OLLAMA, RAGPROXY, TEI

_DECLARED: Final[tuple[ProviderDeclaration[Any], ...]] = (
    OPENAI,
    AZURE,
    OLLAMA,
    MISTRAL,
    BEDROCK,
    COHERE,
    VERTEX,
    GEMINI,
    LOCAL,
    TEI,
    RAGPROXY,
)

PROVIDERS: Final = {each.name: each for each in _DECLARED}
"""The providers by name, in the order of messages and of JSON Schema."""

if TYPE_CHECKING:
    EmbeddingProvider: TypeAlias = str
else:
    # Decoding and JSON Schema need the names themselves. mypy accepts no names that are computed.
    EmbeddingProvider = Literal[tuple(PROVIDERS)]
