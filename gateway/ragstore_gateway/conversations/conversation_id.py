"""The conversation that a request names: `X-Conversation-Id`, or OpenAI's `metadata.conversation_id`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ragstore.kit.errors import InvalidRequest

HEADER: Final = "X-Conversation-Id"
MAX_LENGTH: Final = 200

PATTERN: Final = r"^[A-Za-z0-9_:@=+~-][A-Za-z0-9._:@=+~-]*$"
"""Pattern of an id. It does not begin with a dot, because programs change paths with such segments."""

_VALID: Final = re.compile(PATTERN.removesuffix("$") + r"\Z")
_MESSAGE: Final = f"Must be 1 to {MAX_LENGTH} letters, digits or ._:@=+~-, and not begin with a dot"


class _Metadata(Struct, frozen=True):
    conversation_id: str = ""


_METADATA: Final = msgspec.json.Decoder(_Metadata)


def check_id(text: str, path: str) -> str:
    """Check the id of a conversation.

    Args:
        text: the id.
        path: its path, for the error.

    Raises:
        InvalidRequest: it has another form.
    """
    if len(text) > MAX_LENGTH or not _VALID.match(text):
        raise InvalidRequest.at(path, _MESSAGE)
    return text


def read_id(headers: Iterable[tuple[bytes, bytes]], metadata: Raw | None) -> str:
    """The conversation that a request names.

    Args:
        headers: the headers of the request, with names in lower case.
        metadata: the field `metadata` of its body, if it has one.

    Returns:
        The id; the header's id if both name one, and an empty text if none does.

    Raises:
        InvalidRequest: the id has another form.
    """
    name = HEADER.lower().encode()
    given = [value.decode("latin-1") for own, value in headers if own == name]
    if given and given[0]:
        return check_id(given[0], HEADER)
    try:
        found = _METADATA.decode(metadata or b"{}").conversation_id
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # The upstream judges metadata that are not OpenAI's.
        return ""
    return check_id(found, "$.metadata.conversation_id") if found else ""
