"""Liveness and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeVar

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
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


def health_routes(probe: Callable[[], Awaitable[Any]] | None = None) -> list[HTTPRouteHandler]:
    """The routes of liveness and readiness, for a service without routes of its own for them.

    Args:
        probe: raises a `ServiceError` when the service cannot work. Without it, a running service is ready.

    Returns:
        The routes.
    """

    @get(LIVE_PATH, opt=PUBLIC, operation_id="getLiveness", summary="Liveness", sync_to_thread=False)
    def live() -> Probe:
        """Respond, which is all that a liveness probe needs."""
        return Probe("alive")

    @get(READY_PATH, opt=PUBLIC, operation_id="getReadiness", summary="Readiness")
    async def ready() -> Response[Probe]:
        """Respond with 200 when the service can work, else with 503."""
        error = "" if probe is None else (await check(probe(), "The probe took too long"))[1]
        return readiness(error)

    return [live, ready]
