"""`Provider`: a provider's wire format, without the sending. `ProviderDeclaration`: what the gateway knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from ragstore.kit.extras import require_extra
from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.secrets.parameters import SecretReference
from ragstore_gateway.secrets.secret_references import SecretReferences

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


P = TypeVar("P", bound=Parameters)


class KeyedParameters(Protocol):
    """The parameters that all providers with a key have."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def api_key(self) -> SecretReference | None:
        """The reference to the key."""

    @property
    def dimensions(self) -> int | None:
        """The dimension; None for the model's own."""


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
        dimensions: the dimension that was configured; None for the model's own.
        max_texts: maximum number of texts in a request.
        max_bytes: maximum size of the texts of a request, as UTF-8.
    """

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


class KeyedProvider:
    """Base of a provider with a key.

    Args:
        secrets: resolves the key.
        url: URL of its requests.
    """

    key_header: ClassVar[str] = "Authorization"
    key_prefix: ClassVar[str] = "Bearer "

    def __init__(self, parameters: KeyedParameters, secrets: SecretReferences, url: str) -> None:
        self.model = parameters.model
        self.dimensions = parameters.dimensions
        self._url = url
        self._key = parameters.api_key
        self._secrets = secrets

    def _request(self, body: Struct) -> ProviderRequest:
        return ProviderRequest(self._url, msgspec.json.encode(body))

    async def authorization(self, request: ProviderRequest) -> Mapping[str, str]:
        """The header with the key, if there is one."""
        return {} if self._key is None else {self.key_header: self.key_prefix + await self._secrets.header(self._key)}


@dataclass(frozen=True)
class ProviderDeclaration(Generic[P]):
    """A provider, as configurations select it. `declared.PROVIDERS` lists all of them.

    Attributes:
        name: its name in configurations.
        parameters: the struct of its parameters.
        create: makes the provider; None if it computes in the gateway's process.
        extra: the extra of the gateway that installs `modules`.
        modules: the optional modules that it imports when it is used.
    """

    name: str
    parameters: type[P]
    create: Callable[[P, SecretReferences], Provider] | None
    extra: str = ""
    modules: tuple[str, ...] = ()

    def require_extra(self) -> None:
        """Check that its modules are installed, without importing them.

        Raises:
            MissingExtra: one is not installed.
        """
        require_extra(f"ragstore-gateway[{self.extra}]", f"The provider {self.name}", *self.modules)


def joined(base: str, path: str) -> str:
    """The URL of a path below a base URL."""
    return base.rstrip("/") + path


def segment(text: str) -> str:
    """A text as one segment of a URL's path."""
    return quote(text, safe="")
