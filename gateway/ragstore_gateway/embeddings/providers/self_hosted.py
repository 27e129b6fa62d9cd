"""Servers that people run themselves: Ollama, Text Embeddings Inference, and the embedder service of a ragproxy.

github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings,
huggingface.github.io/text-embeddings-inference/#/Text%20Embeddings%20Inference/embed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.embeddings.prefixes import prefixes_of
from ragstore_gateway.embeddings.providers.provider import (
    Dimensions,
    Embedding,
    KeyedProvider,
    Parameters,
    Prefix,
    ProviderDeclaration,
    ProviderRequest,
    joined,
)
from ragstore_gateway.secrets.parameters import SecretReference, Url
from ragstore_gateway.secrets.secret_references import SecretReferences


class OllamaParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `ollama`."""

    model: str = "nomic-embed-text"
    base_url: Url = "http://localhost:11434"
    api_key: SecretReference | None = None
    dimensions: Dimensions | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None


class TeiParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `tei`. The server determines the model; `model` is its name, and chooses the prefixes."""

    base_url: Url = "http://localhost:8080"
    model: str = "default"
    api_key: SecretReference | None = None
    dimensions: Dimensions | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None


class RagproxyParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `ragproxy`. The server determines the model; `model` is its name, and chooses the prefixes."""

    base_url: Url = "http://embedder:8082"
    model: str = "default"
    api_key: SecretReference | None = None
    dimensions: Dimensions | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None


class _OllamaBody(Struct, omit_defaults=True):
    model: str
    input: list[str]
    truncate: bool
    dimensions: int | UnsetType = UNSET


class _OllamaResponse(Struct):
    embeddings: list[list[float]]


class _TeiBody(Struct):
    inputs: list[str]
    normalize: bool
    truncate: bool


class _RagproxyBody(Struct):
    inputs: list[str]
    normalize: bool


class _RagproxyResponse(Struct):
    vectors: list[list[float]]


_ollama_decoder = msgspec.json.Decoder(_OllamaResponse)
_tei_decoder = msgspec.json.Decoder(list[list[float]])
_ragproxy_decoder = msgspec.json.Decoder(_RagproxyResponse)


class _SelfHosted(KeyedProvider):
    """A server with an optional key.

    Args:
        secrets: resolves the key.
        path: the path below its base URL.
    """

    max_texts = 32
    max_bytes = 1_000_000

    def __init__(
        self, parameters: OllamaParameters | TeiParameters | RagproxyParameters, secrets: SecretReferences, path: str
    ) -> None:
        super().__init__(parameters, secrets, joined(parameters.base_url, path))
        self._prefixes = prefixes_of(parameters.model, parameters.query_prefix, parameters.document_prefix)


class OllamaProvider(_SelfHosted):
    """`ollama`.

    Args:
        secrets: resolves the key.
    """

    max_texts = 128

    def __init__(self, parameters: OllamaParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, "/api/embed")

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts. A text that is too long is an error, not truncated."""
        body = _OllamaBody(self.model, self._prefixes.applied(list(texts), kind), False, self.dimensions or UNSET)
        return self._request(body)

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return _ollama_decoder.decode(content).embeddings


OLLAMA: Final = ProviderDeclaration("ollama", OllamaParameters, OllamaProvider)


class TeiProvider(_SelfHosted):
    """`tei`.

    Args:
        secrets: resolves the key.
    """

    def __init__(self, parameters: TeiParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, "/embed")

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts. A text that is too long is an error, not truncated."""
        body = _TeiBody(self._prefixes.applied(list(texts), kind), False, False)
        return self._request(body)

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return _tei_decoder.decode(content)


TEI: Final = ProviderDeclaration("tei", TeiParameters, TeiProvider)


class RagproxyProvider(_SelfHosted):
    """`ragproxy`: a service with the `POST /embed` that this gateway has, too.

    Args:
        secrets: resolves the key.
    """

    def __init__(self, parameters: RagproxyParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, "/embed")

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""
        body = _RagproxyBody(self._prefixes.applied(list(texts), kind), False)
        return self._request(body)

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return _ragproxy_decoder.decode(content).vectors


RAGPROXY: Final = ProviderDeclaration("ragproxy", RagproxyParameters, RagproxyProvider)
