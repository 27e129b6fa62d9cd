"""Names of collections."""

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
    """Whether a collection can have this name, by Chroma's rules."""
    # `$` would let a line break pass at the end.
    return _NAME.fullmatch(text) is not None


def checked_new_name(text: str) -> str:
    """A name for a new collection.

    Args:
        text: the name.

    Returns:
        The same.

    Raises:
        InvalidName: it breaks Chroma's rules; they are said in full.
    """
    if not is_name(text):
        raise InvalidName(NAME_RULES, [FieldError("$.name", NAME_RULES)])
    return text


def checked_name(text: str) -> str:
    """A name that may be a collection's.

    Args:
        text: the name.

    Returns:
        The same.

    Raises:
        CollectionNotFound: no collection can have it.
    """
    if not is_name(text):
        raise CollectionNotFound(text)
    return text
