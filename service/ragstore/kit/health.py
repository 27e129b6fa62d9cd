"""Liveness and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.errors import ServiceError

T = TypeVar("T")

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
UNLIMITED_PATHS: Final = frozenset({"/health", LIVE_PATH, READY_PATH, "/metrics"})
"""Health and metrics bypass the concurrency limit, and have no spans."""

PROBE_SECONDS: Final = 2.0
"""Maximum wait for the backend of a probe: an orchestrator probes often and must not wait."""


class Probe(Struct, frozen=True, omit_defaults=True):
    """The response to a probe."""

    status: Literal["alive", "ready", "unready"]
    error: Annotated[str | UnsetType, Meta(description="Why the service is not ready.")] = UNSET


async def failure(probe: Awaitable[T], timeout_text: str) -> tuple[T | None, ServiceError | None]:
    """Wait for a backend's status, but not for long.

    Args:
        probe: the status.
        timeout_text: the reason to return when it takes too long.

    Returns:
        The status, or None and the error why there is none.
    """
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await probe, None
    except TimeoutError:
        return None, ServiceError(timeout_text)
    except ServiceError as error:
        return None, error


async def check(probe: Awaitable[T], timeout_text: str) -> tuple[T | None, str]:
    """Wait for a backend's status, but not for long.

    Args:
        probe: the status.
        timeout_text: the reason to return when it takes too long.

    Returns:
        The status, and an empty reason; or None and the reason why there is none.
    """
    status, error = await failure(probe, timeout_text)
    return status, "" if error is None else error.detail


def readiness(error: str) -> Response[Probe]:
    """The response to a readiness probe.

    Args:
        error: why the service is not ready; empty when it is.
    """
    return Response(
        Probe("unready" if error else "ready", error or UNSET),
        status_code=503 if error else 200,
        headers={"Retry-After": "1"} if error else {},
    )


def live_route(tags: Sequence[str] = ()) -> HTTPRouteHandler:
    """The route of liveness.

    Args:
        tags: its tags in the OpenAPI document.
    """

    @get(
        LIVE_PATH,
        opt=PUBLIC,
        operation_id="getLiveness",
        summary="Liveness",
        description="Liveness probe: always 200 while the process responds.",
        tags=tags,
        sync_to_thread=False,
    )
    def live() -> Probe:
        return Probe("alive")

    return live


def health_routes(
    probe: Callable[[], Awaitable[Any]] | None = None, *, backend: str = "the backend", tags: Sequence[str] = ()
) -> list[HTTPRouteHandler]:
    """The routes of liveness and readiness.

    Args:
        probe: raises a `ServiceError` when the service cannot work. Without it, a running service is ready.
        backend: what the probe calls, for messages and for the OpenAPI document.
        tags: tags of the routes in the OpenAPI document.

    Returns:
        The routes.
    """
    subject = backend[:1].upper() + backend[1:]

    @get(
        READY_PATH,
        opt=PUBLIC,
        operation_id="getReadiness",
        summary="Readiness",
        description=f"Readiness probe: 200 if {backend} responds, 503 if it does not.",
        tags=tags,
        responses={503: ResponseSpec(Probe, description=f"{subject} does not respond.", generate_examples=False)},
    )
    async def ready() -> Response[Probe]:
        error = "" if probe is None else (await check(probe(), f"{subject} did not respond in time"))[1]
        return readiness(error)

    return [live_route(tags), ready]
