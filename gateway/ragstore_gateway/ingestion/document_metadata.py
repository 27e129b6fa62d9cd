"""The metadata of documents that callers give: what it may contain, and what chunks have of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from ragstore.filters.values import MAX_INT, MIN_INT, is_reserved
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.configurations.where_template import check_variable, variable_in
from ragstore_gateway.engines.engine_collection import (
    DOCUMENT_KEY,
    DOCUMENT_NAME_KEY,
    OWNER_KEY,
    REVISION_KEY,
    MetadataValue,
)

MAX_PAIRS: Final = 16
MAX_KEY: Final = 64
MAX_VALUE: Final = 512
"""The maxima of OpenAI's attributes."""

MAX_CHARACTERS: Final = 16_384
"""Maximum length of the metadata in a query."""

OWN_KEYS: Final = frozenset(
    {
        DOCUMENT_KEY,
        DOCUMENT_NAME_KEY,
        OWNER_KEY,
        REVISION_KEY,
        "char_end",
        "char_start",
        "chunk_index",
        "chunk_ix",
        "content_hash",
        "doc_type",
        "ingested_at",
        "layer",
        "page_end",
        "page_number",
        "section_heading",
        "section_id",
        "source",
        "text",
        "token_count",
        "ts",
    }
)
"""Keys of chunks whose values the gateway sets."""

DocumentMetadata: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=MAX_KEY)],
        Annotated[str, Meta(max_length=MAX_VALUE)] | bool | int | float,
    ],
    Meta(
        max_length=MAX_PAIRS,
        description="Metadata of its chunks, by which searches can filter. A value may be `{session_id}`, "
        "`{conversation_id}` or `{key}`, of the request.",
    ),
]

_decode: Final = msgspec.json.Decoder(DocumentMetadata).decode


def read_metadata(text: str) -> dict[str, Any]:
    """Read metadata from a parameter or a field of a form.

    Args:
        text: a JSON object; empty for none.

    Raises:
        InvalidRequest: it is none, or too large.
    """
    if not text:
        return {}
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        raise InvalidRequest.at("$.metadata", str(error).partition(" - ")[0]) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidRequest.at("$.metadata", "Must be a JSON object") from None


def filled_metadata(given: Mapping[str, Any], variables: RequestVariables, path: str = "$.metadata") -> dict[str, Any]:
    """Metadata with the values of the variables.

    Args:
        given: the metadata of a document.
        path: its JSON path.

    Raises:
        InvalidRequest: the gateway sets a key itself, a value cannot be stored, or the request lacks a variable.
    """
    for key, value in given.items():
        own = f"{path}.{key}"
        if key in OWN_KEYS or is_reserved(key):
            raise InvalidRequest.at(own, "The gateway sets this key itself, or engines reserve it")
        if not _is_storable(key, value):
            raise InvalidRequest.at(own, "Must be a text without NUL, a finite number of 64 bits, or a boolean")
        if isinstance(value, str):
            check_variable(value, own)
    return filled_attributes(given, variables, path)


def filled_attributes(
    given: Mapping[str, Any], variables: RequestVariables, path: str = "$.attributes"
) -> dict[str, Any]:
    """Attributes with the values of the variables. Other values with braces are texts.

    Args:
        given: the attributes of a file.
        path: their JSON path.

    Raises:
        InvalidRequest: the request lacks a variable.
    """
    filled = dict(given)
    for key, value in given.items():
        name = variable_in(value)
        if name is None:
            continue
        filled[key] = variables.value(name)
        if not filled[key]:
            # No filter would ever match the document.
            raise InvalidRequest.at(f"{path}.{key}", f"The request has no {name}")
    return filled


def metadata_of_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that the chunks of a file have as metadata: all but values that no engine can store.

    Args:
        attributes: the attributes, which searches of vector stores read from the database.
    """
    return {
        key: value
        for key, value in attributes.items()
        if key not in OWN_KEYS and not is_reserved(key) and _is_storable(key, value)
    }


def _is_storable(key: str, value: MetadataValue) -> bool:
    if isinstance(value, str):
        return "\0" not in key + value
    if isinstance(value, bool):
        return "\0" not in key
    return "\0" not in key and math.isfinite(value) and (isinstance(value, float) or MIN_INT <= value <= MAX_INT)
