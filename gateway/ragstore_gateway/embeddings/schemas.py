"""The bodies of the routes for embeddings."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ragstore.kit.misfits import described
from ragstore.kit.schema_marks import EXACTLY
from ragstore_gateway.embeddings.embedder import Kind

NOT_BLANK: Final = described("[^\\s\\x1c-\\x1f\\x85\\ufeff]", "Must not be blank")
"""A character that is not whitespace, as a pattern. Python, ECMAScript and Unicode differ about the listed ones."""

_TEXT: Final = {"type": "string", "pattern": NOT_BLANK}
_TEXTS: Final = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 2048}


class EmbedRequest(Struct, frozen=True):
    """The body of `POST /embed`."""

    inputs: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": _TEXT["pattern"]})]],
        Meta(min_length=1, description="The texts. None is empty."),
    ]
    normalize: Annotated[bool, Meta(description="Whether to scale the vectors to length 1.")] = True
    kind: Annotated[
        Kind, Meta(description="Kind of the texts; some models embed questions and passages differently.")
    ] = "document"


class EmbedResponse(Struct, frozen=True):
    """The vectors of `POST /embed`."""

    vectors: Annotated[list[list[float]], Meta(description="A vector for each text, in order.")]
    normalize: Annotated[bool, Meta(description="Whether they have length 1.")]
    dim: Annotated[int, Meta(description="The number of components of each vector.")]


class EmbeddingsRequest(Struct, frozen=True):
    """The body of `POST /v1/embeddings`, as OpenAI's."""

    input: Annotated[
        str | list[str | int | list[int]],
        Meta(
            description="A text, or a list of texts. Arrays of tokens are rejected: send texts.",
            extra_json_schema={
                EXACTLY: {
                    "description": "A text, or a list of texts. Arrays of tokens are rejected: send texts.",
                    "anyOf": [_TEXT, _TEXTS],
                }
            },
        ),
    ]
    model: Annotated[str, Meta(description="The model; empty for the gateway's own.")] = ""
    encoding_format: Annotated[
        Literal["float", "base64"], Meta(description="Numbers, or little-endian float32 in base64.")
    ] = "float"
    dimensions: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The dimension, where the model has a choice of them.")
    ] = None
    input_type: Annotated[
        Literal["query", "document", "passage"] | None,
        Meta(description="Not in OpenAI's API: kind of the texts. Without it they are documents."),
    ] = None


class EmbeddingsData(Struct, frozen=True):
    """A vector in OpenAI's format."""

    object: Literal["embedding"]
    index: Annotated[int, Meta(description="The index of its text.")]
    embedding: Annotated[
        list[float] | str, Meta(description="The vector: numbers, or little-endian float32 in base64.")
    ]


class EmbeddingsUsage(Struct, frozen=True):
    """The number of tokens, estimated."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(Struct, frozen=True):
    """The vectors of `POST /v1/embeddings`."""

    object: Literal["list"]
    data: list[EmbeddingsData]
    model: Annotated[str, Meta(description="The model, as the request names it.")]
    usage: EmbeddingsUsage
