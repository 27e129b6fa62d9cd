"""Schemas of `GET /access`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.store.key_scope import Role, StoreScope


class StoreRights(Struct, frozen=True, omit_defaults=True):
    """The rights of a key in the store."""

    role: Annotated[Role, Meta(description="Each role includes those before it.")]
    collections: Annotated[
        list[str] | UnsetType, Meta(description="Patterns of the collections that exist for it; all when absent.")
    ] = UNSET

    @classmethod
    def of(cls, scope: StoreScope) -> StoreRights:
        """The rights that a scope gives."""
        return cls(scope.role, UNSET if scope.collections is None else [*scope.collections])


class KeyAccess(Struct, frozen=True, omit_defaults=True):
    """The key of a request."""

    name: Annotated[str, Meta(description="Its name in the file of keys.")]
    store: Annotated[StoreRights | UnsetType, Meta(description="Absent if it has no rights in the store.")] = UNSET


class AccessLimits(Struct, frozen=True, rename="camel"):
    """Limits of requests."""

    max_body_bytes: Annotated[int, Meta(description="The largest body with documents.")]
    max_small_body_bytes: Annotated[int, Meta(description="The largest body of another request.")]
    max_batch_size: Annotated[int, Meta(description="Maximum number of documents in one write.")]


class Access(Struct, frozen=True, rename="camel"):
    """The service, its limits, and the rights of the request's key."""

    service: Literal["ragstore"]
    version: Annotated[str, Meta(description="The service's version.")]
    keys_required: Annotated[bool, Meta(description="Whether requests need a key.")]
    key: Annotated[KeyAccess | None, Meta(description="The request's key; null if it has none, or needs none.")]
    chat: Annotated[Literal[False], Meta(description="Whether there is a chat; the store has none.")]
    store: Annotated[Literal["in-process"], Meta(description="The store's contract is at this address.")]
    contexts_kept: Annotated[Literal[False], Meta(description="Whether contexts of chats are kept.")]
    formats: Annotated[list[str], Meta(description="Extensions of files that can be ingested; the store has none.")]
    limits: AccessLimits
