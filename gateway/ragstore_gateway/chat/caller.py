"""`caller_of`: where a chat comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from litestar.types import Scope
from msgspec import Raw

from ragstore.kit.context import current_request
from ragstore_gateway.api.request_variables import read_session
from ragstore_gateway.chat.names import read_names
from ragstore_gateway.chat.rag_models import Caller
from ragstore_gateway.conversations.conversation_id import read_id
from ragstore_gateway.keys import key_name_of, visible_bases
from ragstore_gateway.settings import Settings

_HOST: Final = re.compile(r"[A-Za-z0-9.\-_]+(?::[0-9]+)?|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?")


def caller_of(scope: Scope, fields: Mapping[str, Raw], settings: Settings) -> Caller:
    """Where a request comes from.

    Args:
        fields: the fields of its body.

    Raises:
        InvalidRequest: the id of its conversation or of its session is not valid.
    """
    key_name, request = key_name_of(scope), current_request()
    user, session = read_names(fields)
    return Caller(
        key_name,
        "" if request is None else request.request_id,
        read_id(scope["headers"], fields.get("metadata")),
        visible_bases(scope),
        origin_of(scope, settings),
        read_session(scope["headers"], key_name, settings.session_from, session),
        user,
    )


def origin_of(scope: Scope, settings: Settings) -> str:
    """Scheme and host of the gateway, as the sender of a request reaches it.

    Args:
        scope: the request.

    Returns:
        Both; empty if the request has no host, or one that no address has.
    """
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
    return f"{scope['scheme']}://{host}" if _HOST.fullmatch(host) else ""
