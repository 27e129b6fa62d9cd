"""`GET /access`: the service, its limits, and the rights of the caller's key. The page begins with it."""

from __future__ import annotations

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import UNSET

from ragstore import __version__
from ragstore.api.access import Access, AccessLimits, KeyAccess, StoreRights
from ragstore.kit.auth.keys import Key, KeyRing
from ragstore.kit.auth.roles import KEY_OPTIONAL
from ragstore.store.key_scope import StoreScope


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
    key_ring: SkipValidation[NamedDependency[KeyRing[StoreScope] | None]],
    limits: SkipValidation[NamedDependency[AccessLimits]],
) -> Access:
    """The service, its limits, and the rights of the request's key. A key that is not valid is 401."""
    return Access(
        service="ragstore",
        version=__version__,
        keys_required=key_ring is not None,
        key=_of_key(request.scope.get("user")),
        chat=False,
        store="in-process",
        contexts_kept=False,
        formats=[],
        limits=limits,
    )


def _of_key(key: Key[StoreScope] | None) -> KeyAccess | None:
    if key is None:
        return None
    return KeyAccess(key.name, UNSET if key.scope is None else StoreRights.of(key.scope))
