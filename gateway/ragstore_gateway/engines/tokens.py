"""Metadata values as tokens, for engines that compare texts: two values have the same token only if they are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from ragstore_gateway.engines.engine_collection import MetadataValue
from ragstore_gateway.engines.names import field_name

MAX_TOKEN_LENGTH: Final = 1024
"""Maximum number of characters of a token. A longer one is replaced by its digest. Lucene's terms have at most 32,766
bytes, and Atlas cuts strings off after 8,191 characters."""


def token(value: MetadataValue) -> str:
    """The token of a value. 3 and 3.0 have the same one; 3, "3" and true have different ones."""
    return _bounded(_token(value))


def key_token(key: str, value: MetadataValue) -> str:
    """The token of a value of a key, for engines that have one list of tokens for all keys.

    Args:
        key: the metadata key.
    """
    return _bounded(f"{field_name(key)}={_token(value)}")


def key_tokens(key: str, values: Sequence[MetadataValue]) -> list[str]:
    """The tokens of some values of a key, each once.

    Args:
        key: the metadata key.
    """
    return list(dict.fromkeys(key_token(key, value) for value in values))


def metadata_tokens(metadata: Mapping[str, MetadataValue]) -> list[str]:
    """The tokens of metadata."""
    return [key_token(key, value) for key, value in metadata.items()]


def _token(value: MetadataValue) -> str:
    if isinstance(value, str):
        return f"s:{value}"
    if isinstance(value, bool):
        return "b:true" if value else "b:false"
    if isinstance(value, int) or value.is_integer():
        return f"n:{int(value)}"
    return f"n:{value!r}"


def _bounded(text: str) -> str:
    if len(text) <= MAX_TOKEN_LENGTH:
        return text
    return f"h:{hashlib.sha256(text.encode()).hexdigest()}"
