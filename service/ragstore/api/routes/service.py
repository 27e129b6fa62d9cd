"""Routes on the service itself."""

from __future__ import annotations

from typing import Any, Literal

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import SkipValidation
from msgspec import UNSET

from ragstore import __version__
from ragstore.api.openapi.document import document
from ragstore.api.parameters import StoreDependency
from ragstore.api.roles import READER
from ragstore.api.schemas import Health, HealthDetails, ServiceInfo
from ragstore.kit.auth.keys import Key
from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.health import failure
from ragstore.kit.page.routes import PAGE_RESPONSE, at_root, links_of
from ragstore.kit.served_document import served_document
from ragstore.kit.timestamps import utc_now
from ragstore.store.key_scope import StoreScope


@get(
    "/",
    opt=PUBLIC,
    operation_id="describeService",
    summary="Service info",
    tags=["service"],
    responses={303: PAGE_RESPONSE},
    sync_to_thread=False,
)
def describe(request: Request[Any, Any, Any], has_page: NamedDependency[bool]) -> Response[ServiceInfo]:
    """Name, version and links. A browser is redirected to the page, if the service has one."""
    info = ServiceInfo("ragstore", __version__, links_of(has_page=has_page, collections="/collections"))
    return at_root(request, info, has_page=has_page)


@get(
    "/health",
    opt=READER,
    operation_id="getHealth",
    summary="Health",
    tags=["service"],
    responses={503: ResponseSpec(Health, description="Chroma does not respond.", generate_examples=False)},
)
async def health(
    store: StoreDependency,
    store_kind: NamedDependency[Literal["embedded", "remote"]],
    writable_prefixes: SkipValidation[NamedDependency[dict[str, bool]]],
    request: Request[Any, Any, Any],
) -> Response[Health]:
    """Health of the service and of Chroma: 200 if healthy, 503 if Chroma does not respond."""
    status, error = await failure(store.status(), "Chroma did not respond in time")
    return Response(
        Health(
            status="healthy" if status else "unhealthy",
            timestamp=utc_now(),
            version=__version__,
            collections_count=status.collections_count if status else None,
            details=HealthDetails(
                store=store_kind,
                chroma_version=status.chroma_version if status else None,
                storage_bytes=status.storage_bytes if status else None,
                reserved_prefixes=writable_prefixes,
            ),
            error=UNSET if error is None else error.detail,
            cause=error.cause if error is not None and error.cause and _may_see_causes(request) else UNSET,
        ),
        status_code=200 if status else 503,
    )


def _may_see_causes(request: Request[Any, Any, Any]) -> bool:
    """Whether a response may name hosts and processes: a service without keys, or an admin of all collections."""
    key: Key[StoreScope] | None = request.scope.get("user")
    if key is None:
        return True
    return key.scope is not None and key.scope.role == "admin" and key.scope.collections is None


@get("/openapi.json", opt=PUBLIC, include_in_schema=False, media_type="application/json")
async def openapi_document(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The OpenAPI document."""
    return await served_document(request, document)
