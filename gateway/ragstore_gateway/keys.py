"""The gateway's keys, and the roles of its routes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from ragstore.kit.auth.keys import KeyFormat, KeyScope
from ragstore.kit.auth.roles import requires

Role: TypeAlias = Literal["reader", "writer", "admin"]
"""A reader chats and searches, a writer also ingests, an admin also configures."""


class GatewayScope(KeyScope, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The scope of a key in the gateway.

    Attributes:
        role: what it may do.
    """

    role: Role


GATEWAY_KEYS: Final = KeyFormat("gateway", GatewayScope)

READER: Final = requires("reader")
WRITER: Final = requires("writer")
ADMIN: Final = requires("admin")
