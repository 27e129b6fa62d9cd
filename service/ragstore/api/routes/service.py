"""Routes on the service itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

from litestar import Request, Response, get
from litestar.di import NamedDependency
from msgspec import UNSET

from ragstore import __version__
from ragstore.api.openapi.document import document
from ragstore.api.parameters import StoreDependency
from ragstore.api.roles import READER
from ragstore.api.schemas import Health, HealthDetails, ServiceInfo
from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.health import Probe, check, readiness
from ragstore.model.collections import StoreStatus
from ragstore.store.protocol import Store

LINKS: Final = {
    "documentation": "/docs",
    "openapi": "/openapi.json",
    "health": "/health",
    "metrics": "/metrics",
    "collections": "/collections",
}


@get("/", opt=PUBLIC, operation_id="describeService", summary="What this is", tags=["service"], sync_to_thread=False)
def describe() -> ServiceInfo:
    """Tell name and version, and where to look."""
    return ServiceInfo("ragstore", __version__, LINKS)


@get("/health", opt=READER, operation_id="getHealth", summary="How the service is", tags=["service"])
async def health(
    store: StoreDependency, store_kind: NamedDependency[Literal["embedded", "remote"]]
) -> Response[Health]:
    """Tell whether the service can do its work: 200 when it can, 503 when Chroma does not answer."""
    status, error = await _status(store)
    return Response(
        Health(
            status="healthy" if status else "unhealthy",
            timestamp=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            version=__version__,
            collections_count=status.collections_count if status else None,
            details=HealthDetails(
                store=store_kind,
                chroma_version=status.chroma_version if status else None,
                storage_bytes=status.storage_bytes if status else None,
            ),
            error=error or UNSET,
        ),
        status_code=200 if status else 503,
    )


@get(
    "/health/live",
    opt=PUBLIC,
    operation_id="getLiveness",
    summary="Whether it runs",
    tags=["service"],
    sync_to_thread=False,
)
def live() -> Probe:
    """Answer, which is all that a liveness probe wants to know."""
    return Probe("alive")


@get("/health/ready", opt=PUBLIC, operation_id="getReadiness", summary="Whether it can serve", tags=["service"])
async def ready(store: StoreDependency) -> Response[Probe]:
    """Tell whether requests can be served: 200 when Chroma answers, 503 when it does not."""
    return readiness((await _status(store))[1])


async def _status(store: Store) -> tuple[StoreStatus | None, str]:
    """Chroma's status, or why there is none."""
    return await check(store.status(), "Chroma did not answer in time")


@get("/openapi.json", opt=PUBLIC, include_in_schema=False, media_type="application/json", sync_to_thread=False)
def openapi_document(request: Request[Any, Any, Any]) -> bytes:
    """The OpenAPI document."""
    return document(request.app).encode()
