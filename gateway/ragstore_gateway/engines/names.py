"""Names of collections and of metadata keys, as engines accept them."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote, unquote

_DIGEST_LENGTH: Final = 32
_PLAIN: Final = re.compile(r"[a-z0-9_-]*")


def physical_name(prefix: str, collection: str, max_length: int = 63) -> str:
    """The name of a collection in an engine: the prefix and the collection, or a digest of it.

    Args:
        prefix: the configured name.
        collection: name of the collection in the gateway.
        max_length: maximum number of characters.
    """
    name = f"{prefix}_{collection}"
    if len(name) <= max_length and _PLAIN.fullmatch(collection):
        return name
    # PostgreSQL cuts longer names off.
    length = min(_DIGEST_LENGTH, max_length - len(prefix) - 1)
    return f"{prefix}_{hashlib.sha256(collection.encode()).hexdigest()[:length]}"


def field_name(key: str) -> str:
    """A metadata key as the name of a field: letters, digits, `_`, `-`, and `%` with two digits for other bytes.

    Engines treat dots, quotes and dollars in the names of fields as syntax.
    """
    return quote(key, safe="").replace(".", "%2E").replace("~", "%7E")


def metadata_key(name: str) -> str:
    """The metadata key of the name of a field.

    Args:
        name: the name, as `field_name` returns it.
    """
    return unquote(name)
