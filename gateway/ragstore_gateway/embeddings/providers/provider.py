"""`Provider`: a provider's wire format, without the sending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol, TypeAlias
from urllib.parse import quote

from msgspec import Meta, Struct

from ragstore_gateway.embeddings.embedder import Kind

Embedding: TypeAlias = list[float] | str
"""A vector as a provider returns it: numbers, or little-endian float32 in base64."""

MAX_DIMENSIONS: Final = 16_384
"""Maximum number of components of a vector."""

Dimensions = Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]
Prefix = Annotated[str, Meta(max_length=2000)]

MAX_TOKENS_BYTES: Final = 250_000
"""Maximum size of a batch where a provider limits tokens to about 300,000 a request: a token has at least one byte."""


class Parameters(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parameters of a provider."""


class GarbledResponse(Exception):
    """A response that is not what the provider's documentation says."""


@dataclass(frozen=True)
class ProviderRequest:
    """A request to a provider.

    Attributes:
        url: its URL, with the path encoded.
        body: the body, JSON.
        headers: the headers that need no secret.
    """

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Provider(Protocol):
    """A provider with its parameters.

    Attributes:
        provider: its name in configurations.
        model: the model.
        dimensions: the dimension that was configured; None for the model's own.
        max_texts: maximum number of texts in a request.
        max_bytes: maximum size of the texts of a request, as UTF-8.
    """

    provider: str
    model: str
    dimensions: int | None
    max_texts: int
    max_bytes: int

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""

    async def authorization(self, request: ProviderRequest) -> Mapping[str, str]:
        """The headers that authorize a request.

        Raises:
            SecretUnavailable: a secret cannot be read.
            ModelUnavailable: an extra is not installed, or there are no credentials.
            EmbeddingUnavailable: the server of credentials does not respond.
        """

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response, in the order of the texts.

        Raises:
            GarbledResponse: the response has no vectors.
            msgspec.MsgspecError: it is not JSON, or has other fields.
        """


def joined(base: str, path: str) -> str:
    """The URL of a path below a base URL."""
    return base.rstrip("/") + path


def segment(text: str) -> str:
    """A text as one segment of a URL's path."""
    return quote(text, safe="")
