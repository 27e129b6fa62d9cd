"""OpenAI, Azure OpenAI and Mistral AI: one request format.

platform.openai.com/docs/api-reference/embeddings/create,
learn.microsoft.com/azure/ai-services/openai/reference#embeddings, docs.mistral.ai/api/#tag/embeddings
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.embeddings.prefixes import prefixes_of
from ragstore_gateway.embeddings.providers.provider import (
    MAX_TOKENS_BYTES,
    Dimensions,
    Embedding,
    GarbledResponse,
    KeyedProvider,
    Parameters,
    Prefix,
    ProviderDeclaration,
    ProviderRequest,
    joined,
    segment,
)
from ragstore_gateway.secrets.parameters import SecretReference, Token, Url
from ragstore_gateway.secrets.secret_references import SecretReferences


class OpenAIParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `openai`. With `baseUrl` it is any server with OpenAI's API."""

    model: str = "text-embedding-3-small"
    api_key: SecretReference
    base_url: Url = "https://api.openai.com/v1"
    dimensions: Dimensions | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None


class AzureParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `azure-openai`. The deployment determines the model; `model` is only its name."""

    endpoint: Url
    api_key: SecretReference
    deployment_name: str
    model: str = "text-embedding-3-small"
    api_version: Token = "2024-10-21"
    dimensions: Dimensions | None = None


class MistralParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `mistral`."""

    model: str = "mistral-embed"
    api_key: SecretReference
    base_url: Url = "https://api.mistral.ai/v1"
    dimensions: Dimensions | None = None


class _Body(Struct, omit_defaults=True):
    input: list[str]
    model: str | UnsetType = UNSET
    encoding_format: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    output_dimension: int | UnsetType = UNSET


class _Item(Struct):
    embedding: Embedding
    index: int | None = None


class _Items(Struct):
    data: list[_Item]


_decoder = msgspec.json.Decoder(_Items)


def decode_items(content: bytes) -> list[Embedding]:
    """The vectors of a response in OpenAI's format, ordered by their index where they have one."""
    data = _decoder.decode(content).data
    if data and all(item.index is not None for item in data):
        data = sorted(data, key=lambda item: item.index or 0)
        if [item.index for item in data] != list(range(len(data))):
            raise GarbledResponse("The indexes of the vectors are not 0, 1, 2, …")
    return [item.embedding for item in data]


class _OpenAIFormat(KeyedProvider):
    """A provider with OpenAI's format of responses."""

    max_texts = 2048
    max_bytes = MAX_TOKENS_BYTES

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return decode_items(content)


class OpenAIProvider(_OpenAIFormat):
    """`openai`.

    Args:
        secrets: resolves the key.
    """

    def __init__(self, parameters: OpenAIParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, joined(parameters.base_url, "/embeddings"))
        self._prefixes = prefixes_of(parameters.model, parameters.query_prefix, parameters.document_prefix)

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""
        body = _Body(self._prefixes.applied(list(texts), kind), self.model, "base64", self.dimensions or UNSET)
        return self._request(body)


OPENAI: Final = ProviderDeclaration("openai", OpenAIParameters, OpenAIProvider)


class AzureProvider(_OpenAIFormat):
    """`azure-openai`.

    Args:
        secrets: resolves the key.
    """

    key_header = "api-key"
    key_prefix = ""

    def __init__(self, parameters: AzureParameters, secrets: SecretReferences) -> None:
        path = f"/openai/deployments/{segment(parameters.deployment_name)}/embeddings"
        super().__init__(
            parameters, secrets, joined(parameters.endpoint, f"{path}?api-version={parameters.api_version}")
        )

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""
        body = _Body(list(texts), encoding_format="base64", dimensions=self.dimensions or UNSET)
        return self._request(body)


AZURE: Final = ProviderDeclaration("azure-openai", AzureParameters, AzureProvider)


class MistralProvider(_OpenAIFormat):
    """`mistral`.

    Args:
        secrets: resolves the key.
    """

    max_texts = 512
    # A request may have 16,384 tokens. A text of the usual size has about four bytes a token.
    max_bytes = 48_000

    def __init__(self, parameters: MistralParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, joined(parameters.base_url, "/embeddings"))

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""
        body = _Body(list(texts), self.model, output_dimension=self.dimensions or UNSET)
        return self._request(body)


MISTRAL: Final = ProviderDeclaration("mistral", MistralParameters, MistralProvider)
