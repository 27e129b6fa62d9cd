"""The lengths of the names in a request, such as the name of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS
from ragstore_gateway.chat.body import UNREADABLE, read_name

NAMES: Final = ("user", "session_id")
"""Fields of a request with names, beside its model. `metadata` has further ones, and the id of the conversation."""

METADATA_NAMES: Final = ("user_id", "session_id")
"""The same for `metadata`."""

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def check_name(name: str, path: str) -> None:
    """Check the length of a name.

    Args:
        path: its path, for the error.

    Raises:
        InvalidRequest: it is too long.
    """
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidRequest.at(path, f"Must have at most {MAX_NAME_CHARACTERS} characters")


def check_names(fields: Mapping[str, Raw]) -> None:
    """Check the lengths of the names of a user and of a session. Other values than texts are the upstream's to judge.

    Args:
        fields: the fields of the request.

    Raises:
        InvalidRequest: a name is too long.
    """
    _check(fields, NAMES, "$")
    _check(_metadata(fields), METADATA_NAMES, "$.metadata")


def read_names(fields: Mapping[str, Raw]) -> tuple[str, str]:
    """The user and the session that a request names: in its own fields, or else in `metadata`; empty for none.

    Args:
        fields: the fields of the request, whose names have been checked.
    """
    metadata = _metadata(fields)
    user = _name(fields, "user") or _name(metadata, "user_id")
    return user, _name(fields, "session_id") or _name(metadata, "session_id")


def _metadata(fields: Mapping[str, Raw]) -> Mapping[str, Raw]:
    try:
        return _FIELDS.decode(fields.get("metadata", b"{}"))
    except UNREADABLE:
        return {}


def _name(fields: Mapping[str, Raw], name: str) -> str:
    return read_name(fields[name]) if name in fields else ""


def _check(fields: Mapping[str, Raw], names: tuple[str, ...], path: str) -> None:
    for name in names:
        if name in fields:
            check_name(read_name(fields[name]), f"{path}.{name}")
