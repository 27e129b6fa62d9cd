"""Collection names."""

from __future__ import annotations

import re
from typing import Final

from ragstore.errors import CollectionNotFound, InvalidName
from ragstore.kit.errors import FieldError

NAME_RULES: Final = (
    "A collection name has 3 to 512 characters from [a-zA-Z0-9._-], begins and ends with a letter or digit, "
    "holds no '..' and is no IPv4 address"
)

NAME_PATTERN: Final = r"^(?!.*\.\.)(?!\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$)[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]$"
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)


def is_name(text: str) -> bool:
    """Whether Chroma accepts a collection name."""
    # Not `match`: `$` also matches before a line break at the end.
    return _NAME.fullmatch(text) is not None


def validate_new_name(text: str) -> str:
    """The name of a new collection, validated.

    Raises:
        InvalidName: Chroma does not accept it; the message states the rules.
    """
    if not is_name(text):
        raise InvalidName(NAME_RULES, [FieldError("$.name", NAME_RULES)])
    return text


def validate_name(text: str) -> str:
    """The name of an existing collection, validated.

    Raises:
        CollectionNotFound: no collection can have this name.
    """
    if not is_name(text):
        raise CollectionNotFound(text)
    return text
