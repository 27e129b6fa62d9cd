"""The rights of a key in the store: its role, collections, tenant and database."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from ragstore.kit.auth.keys import KeyFormat, KeyScope

Role: TypeAlias = Literal["reader", "writer", "admin"]
"""Each may do what those before it may."""

ADMIN: Final = "admin"
"""The highest role. It reads collections of reserved prefixes, too."""

_NAME: Final = r"^(?:[^\s/]{3,512})?\Z"
"""A Chroma tenant or database, or nothing."""


class StoreScope(KeyScope, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The scope of a key in the store.

    Attributes:
        role: what it may do.
        collections: patterns such as `repo_*`; only matching collections exist for the key. All when None.
        tenant: Chroma tenant of its own; the service's when empty.
        database: Chroma database of its own; the service's when empty.
        max_collections: maximum number of collections that match `collections`, for creating another one.
    """

    role: Role
    collections: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(
            description=(
                "Collections that exist for it, such as 'repo_*'; give the option several times. All when absent."
            ),
            extra={"metavar": "PATTERN"},
        ),
    ] = None
    tenant: Annotated[str, Meta(pattern=_NAME, description="Chroma tenant of its own.")] = ""
    database: Annotated[str, Meta(pattern=_NAME, description="Chroma database of its own.")] = ""
    max_collections: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Maximum number of collections that exist for it when it creates one.",
            extra={"metavar": "NUMBER"},
        ),
    ] = None


STORE_KEYS: Final = KeyFormat("store", StoreScope, owns_flat_form=True)
"""The store's keys. Keys without `scopes` are the store's, too."""


def embedded_objection(scope: StoreScope) -> str:
    """Why a scope cannot be used with embedded Chroma, which is one process for one tenant and one database."""
    if scope.tenant or scope.database:
        return "has a tenant or database of its own, which needs RAGSTORE_CHROMA_URL"
    return ""
