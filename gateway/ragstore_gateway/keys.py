"""The gateway's keys, the roles of its routes, and the knowledge bases that exist for a key."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from ragstore.kit.auth.keys import Key, KeyFormat, KeyScope
from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.auth.roles import requires

if TYPE_CHECKING:
    # Commands need the format of keys, and not the framework.
    from litestar.types import Scope

Role: TypeAlias = Literal["reader", "writer", "admin"]
"""A reader chats and searches, a writer also ingests, an admin also configures."""


TENANT_LENGTH: Final = 64
TENANT_PATTERN: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{TENANT_LENGTH - 1}}}$(?!\n)"


class GatewayScope(KeyScope, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The scope of a key in the gateway.

    Attributes:
        role: what it may do.
        bases: patterns such as `team_*`; only knowledge bases with matching names exist for the key. All when None.
        tenant: label of the keys of one tenant, whose limits they share; none when empty.
    """

    role: Role
    bases: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(
            description=(
                "Knowledge bases that exist for it, such as 'team_*'; give the option several times. All when absent."
            ),
            extra={"metavar": "PATTERN"},
        ),
    ] = None
    tenant: Annotated[
        str,
        Meta(
            pattern=TENANT_PATTERN,
            description="Tenant whose limits it shares with other keys.",
            extra={"metavar": "NAME"},
        ),
    ] = ""


GatewayKey: TypeAlias = Key[GatewayScope]
"""A key of a request."""

GATEWAY_KEYS: Final = KeyFormat("gateway", GatewayScope)

READER: Final = requires("reader")
WRITER: Final = requires("writer")
ADMIN: Final = requires("admin")


@lru_cache(maxsize=256)
def _patterns(patterns: tuple[str, ...]) -> NamePatterns:
    return NamePatterns(patterns)


def key_of(scope: Scope) -> GatewayKey | None:
    """The key of a request; None without keys.

    Args:
        scope: the request.
    """
    key: GatewayKey | None = scope.get("user")
    return key


def key_name_of(scope: Scope) -> str:
    """Name of the key of a request; empty without keys.

    Args:
        scope: the request.
    """
    key = key_of(scope)
    return "" if key is None else key.name


def tenant_of(scope: Scope) -> str:
    """The tenant of a request; empty for none.

    Args:
        scope: the request.
    """
    key = key_of(scope)
    return "" if key is None or key.scope is None else key.scope.tenant


def visible_bases(scope: Scope) -> NamePatterns:
    """The names of the knowledge bases that exist for a request; all names if its key is not limited to some.

    Args:
        scope: the request.
    """
    key = key_of(scope)
    if key is None or key.scope is None or key.scope.bases is None:
        return ALL_NAMES
    return _patterns(key.scope.bases)


def may_write(scope: Scope) -> bool:
    """Whether a request may write documents: its key is a writer's, or there are no keys.

    Args:
        scope: the request.
    """
    key = key_of(scope)
    return key is None or (key.scope is not None and key.scope.role != "reader")


def is_admin(scope: Scope) -> bool:
    """Whether a request may configure: its key is an admin's, or there are no keys.

    Args:
        scope: the request.
    """
    key = key_of(scope)
    return key is None or (key.scope is not None and key.scope.role == "admin")
