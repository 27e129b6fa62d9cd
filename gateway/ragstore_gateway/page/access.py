"""`GET /access`: the gateway, its limits, and the rights of the caller's key. The page begins with it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.auth.roles import KEY_OPTIONAL
from ragstore_gateway import __version__
from ragstore_gateway.extraction.formats import DECLARATIONS
from ragstore_gateway.keys import Role, key_of
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store


class GatewayRights(Struct, frozen=True, omit_defaults=True):
    """The rights of a key in the gateway."""

    role: Annotated[Role, Meta(description="Each role includes those before it.")]
    bases: Annotated[
        list[str] | UnsetType, Meta(description="Patterns of the knowledge bases that exist for it; all when absent.")
    ] = UNSET


class StoreRights(Struct, frozen=True, omit_defaults=True):
    """The rights of a key in the store of this process."""

    role: Annotated[Role, Meta(description="Each role includes those before it.")]
    collections: Annotated[
        list[str] | UnsetType, Meta(description="Patterns of the collections that exist for it; all when absent.")
    ] = UNSET


class KeyAccess(Struct, frozen=True, omit_defaults=True):
    """The key of a request."""

    name: Annotated[str, Meta(description="Its name in the file of keys.")]
    gateway: Annotated[GatewayRights | UnsetType, Meta(description="Absent if it has no rights in the gateway.")] = (
        UNSET
    )
    store: Annotated[
        StoreRights | UnsetType, Meta(description="Absent if it has no rights in a store of this process.")
    ] = UNSET


class AccessLimits(Struct, frozen=True, rename="camel"):
    """Limits of requests."""

    max_body_bytes: Annotated[int, Meta(description="The largest body.")]
    max_small_body_bytes: Annotated[int, Meta(description="The largest body of a request that stores nothing.")]
    max_document_bytes: Annotated[int, Meta(description="The largest file of a knowledge base.")]


class Access(Struct, frozen=True, rename="camel"):
    """The gateway, its limits, and the rights of the request's key."""

    service: Literal["ragstore-gateway"]
    version: Annotated[str, Meta(description="The gateway's version.")]
    keys_required: Annotated[bool, Meta(description="Whether requests need a key.")]
    key: Annotated[KeyAccess | None, Meta(description="The request's key; null if it has none, or needs none.")]
    chat: Annotated[bool, Meta(description="Whether there is an upstream, and so chat.")]
    store: Annotated[
        Literal["in-process", "remote"],
        Meta(description="Whether the store's contract is at this address, or the store is elsewhere."),
    ]
    contexts_kept: Annotated[bool, Meta(description="Whether contexts of chats are kept.")]
    formats: Annotated[list[str], Meta(description="Extensions of files that can be ingested.")]
    limits: AccessLimits


@get(
    "/access",
    opt=KEY_OPTIONAL,
    operation_id="getAccess",
    summary="Access",
    tags=["service"],
    sync_to_thread=False,
)
def access(
    request: Request[Any, Any, Any],
    settings: SkipValidation[NamedDependency[Settings]],
    store: SkipValidation[NamedDependency[Store]],
) -> Access:
    """The gateway, its limits, and the rights of the request's key. A key that is not valid is 401."""
    return Access(
        service="ragstore-gateway",
        version=__version__,
        keys_required=bool(settings.keys_file),
        key=_key_access(request, store),
        chat=bool(settings.upstream_url),
        store="in-process" if store.in_process else "remote",
        contexts_kept=settings.keep_contexts,
        formats=_extensions(),
        limits=AccessLimits(settings.max_body_bytes, settings.max_small_body_bytes, settings.max_document_bytes),
    )


def _key_access(request: Request[Any, Any, Any], store: Store) -> KeyAccess | None:
    key = key_of(request.scope)
    if key is None:
        return None
    own = key.scope
    in_store = store.rights_of(key.name)
    return KeyAccess(
        key.name,
        UNSET if own is None else GatewayRights(own.role, UNSET if own.bases is None else [*own.bases]),
        UNSET if in_store is None else StoreRights(in_store.role, in_store.collections),
    )


@cache
def _extensions() -> list[str]:
    """The extensions of the formats whose parsers are installed."""
    return [
        extension
        for each in DECLARATIONS.values()
        if not each.package or find_spec(each.package) is not None
        for extension in each.extensions
    ]
