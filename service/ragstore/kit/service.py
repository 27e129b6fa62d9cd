"""Assembles a service: Litestar with problem documents, keys and health, and the middleware around it."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from litestar import Litestar, Request
from litestar.config.app import AppConfig
from litestar.config.cors import CORSConfig
from litestar.types import ASGIApp, ControllerRouterHandler
from prometheus_client import disable_created_metrics

from ragstore.kit.auth.keys import KeyFormat, KeyRing, KeyScope
from ragstore.kit.auth.middleware import AuthMiddleware
from ragstore.kit.byte_budget import ByteBudget
from ragstore.kit.container_memory import usable_memory_bytes
from ragstore.kit.dependencies import resolve_in_turn
from ragstore.kit.errors import Overloaded, ServiceError
from ragstore.kit.health import health_routes
from ragstore.kit.logging import configure
from ragstore.kit.metrics import rejections, request_metrics
from ragstore.kit.metrics_route import metrics_route
from ragstore.kit.middleware.allow_header import AllowHeaderMiddleware
from ragstore.kit.middleware.bodies import BodiesMiddleware
from ragstore.kit.middleware.limits import LimitsMiddleware
from ragstore.kit.middleware.metrics import MetricsMiddleware
from ragstore.kit.middleware.request_context import RequestContextMiddleware
from ragstore.kit.problems import EXCEPTION_HANDLERS
from ragstore.kit.settings import ServerSettings, SettingsError
from ragstore.kit.tracing.configured import is_configured

if TYPE_CHECKING:
    from ragstore.kit.tracing.tracing import Tracing

S = TypeVar("S", bound=KeyScope)

MEMORY_SHARE: Final = 4
"""The memory is this many times the bytes in flight: until it is stored, a body takes up to 3.9 times its bytes."""


class WholeBodyRequest(Request[Any, Any, Any]):
    """A request whose body is not copied if it comes as one chunk, as from `BodiesMiddleware`."""

    _whole: bytes | None = None

    async def body(self) -> bytes:
        """The body."""
        if self._whole is None:
            chunks = [chunk async for chunk in self.stream() if chunk]
            self._whole = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return self._whole

    def forget_body(self) -> None:
        """Drop the body, which is otherwise kept until the response was sent."""
        self._whole = b""


class UntracedLitestar(Litestar):
    """Litestar without its OpenTelemetry plugin, whose import it would try, and which loads OpenTelemetry."""

    @staticmethod
    def _patch_opentelemetry_middleware(config: AppConfig) -> AppConfig:
        """Skip the search for the plugin's middleware."""
        return config


@dataclass(frozen=True)
class Service:
    """The identity of a service.

    Attributes:
        name: prefix of its metrics, its `service.name` in traces, and its realm.
        variables: prefix of its environment variables.
        backend: name of the backend whose time is measured in each request.
        resource: name of the field that holds the resource in an audit record.
        budget_share: the memory divided by the budget of bytes, by default. It is larger than `MEMORY_SHARE` where
            child processes need memory, too.
        idle_bytes: memory of the process without bodies. The default budget is at most 1 / `MEMORY_SHARE` of the rest,
            but not less than half of its share of the memory.
        audits_changes: whether each request that may change something has an audit record, unless its route declares
            `READS`. Otherwise, a route records its writes itself.
    """

    name: str
    version: str
    variables: str
    backend: str = "backend"
    resource: str = "resource"
    budget_share: int = MEMORY_SHARE
    idle_bytes: int = 0
    audits_changes: bool = False

    def check_access(self, settings: ServerSettings) -> None:
        """Check that a service which other machines reach has keys, or is open by intention.

        Raises:
            SettingsError: it is neither.
        """
        if not (settings.is_loopback or settings.keys_file or settings.allow_open):
            raise SettingsError(
                f"{self.variables}HOST={settings.host} lets other machines in, and there are no keys: set "
                f"{self.variables}KEYS_FILE, or {self.variables}ALLOW_OPEN=true if everyone who reaches the service "
                "may read and delete everything"
            )

    def budget_bytes(self, settings: ServerSettings) -> int:
        """Maximum size of all bodies in flight, and of the responses that are made or sent."""
        return settings.max_bytes_in_flight or self._default_budget(usable_memory_bytes())

    def _default_budget(self, memory: int) -> int:
        share = memory // self.budget_share
        rest = (memory - self.idle_bytes) // MEMORY_SHARE
        return max(min(share, rest), share // 2)

    def tracing(self) -> Tracing | None:
        """Traces, if OpenTelemetry's variables set a destination. Only then is OpenTelemetry loaded."""
        if not is_configured(os.environ):
            return None
        from ragstore.kit.tracing.tracing import Tracing

        return Tracing(self.name, self.version)

    def litestar(
        self,
        handlers: Sequence[ControllerRouterHandler],
        settings: ServerSettings,
        roles: tuple[str, ...],
        *,
        keys: KeyRing[Any] | None = None,
        middleware: Sequence[Callable[[ASGIApp], ASGIApp]] = (),
        tracing: Tracing | None = None,
        on_shutdown: Sequence[Callable[[], Awaitable[None]]] = (),
        lifespan: Sequence[Callable[[Litestar], AbstractAsyncContextManager[None]]] = (),
        **options: Any,
    ) -> Litestar:
        """The Litestar application, with `/metrics`.

        Args:
            handlers: the service's routes. Each declares its role.
            settings: the service's settings.
            roles: its roles, each of which includes those before it. The first one may read the metrics.
            keys: the keys in force; None without keys.
            middleware: further middleware, which runs after authentication, the first one outermost.
            tracing: makes traces; None for none.
            on_shutdown: called when the application stops.
            lifespan: context managers that are open while the application runs.
            options: further arguments of Litestar.

        Returns:
            The application.
        """
        local = keys is None and not settings.allow_open
        auth = AuthMiddleware(
            keys,
            roles,
            rate=settings.rate_limit,
            local=local,
            origins=settings.origins,
            realm=self.name,
            variables=self.variables,
        )
        admission: list[Any] = [auth] if local or keys is not None or settings.rate_limit else []
        own = [*admission, *middleware]

        kind = UntracedLitestar if tracing is None else Litestar
        app = kind(
            route_handlers=[*handlers, metrics_route(roles[0])],
            on_shutdown=[*on_shutdown] if tracing is None else [*on_shutdown, tracing.close],
            lifespan=[*lifespan] if keys is None else [*lifespan, keys.watched],
            exception_handlers=EXCEPTION_HANDLERS,
            middleware=own if tracing is None else [tracing.middleware(), *own],
            cors_config=_cors(settings.origins) if settings.origins else None,
            request_max_body_size=settings.max_body_bytes,
            request_class=WholeBodyRequest,
            logging_config=None,
            **options,
        )
        resolve_in_turn(app)
        return app

    def wrapped(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        stopping: threading.Event,
        timeout_error: ServiceError | None = None,
    ) -> ASGIApp:
        """The application within the middleware of request context, metrics, limits and bodies.

        Args:
            app: the application.
            settings: the service's settings.
            stopping: set when the service shuts down.
            timeout_error: the response to a request that exceeds its time.

        Returns:
            The service as an ASGI application.
        """
        # The creation time of each series would double the number of series.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves it untyped
        budget = ByteBudget(
            self.budget_bytes(settings),
            settings.request_timeout_seconds,
            rejections(self.name),
        )
        bounded = BodiesMiddleware(
            app,
            budget,
            max_body_bytes=settings.max_body_bytes,
            max_small_body_bytes=settings.max_small_body_bytes,
        )
        limited = LimitsMiddleware(
            bounded,
            max_requests=settings.max_requests,
            timeout_seconds=settings.request_timeout_seconds,
            stopping=stopping,
            timeout_error=timeout_error or Overloaded("The request took too long"),
            rejections=rejections(self.name),
        )
        counted = MetricsMiddleware(limited, request_metrics(self.name), settings.max_requests)
        return RequestContextMiddleware(
            counted, backend=self.backend, resource=self.resource, audits_changes=self.audits_changes
        )

    def run(
        self,
        handlers: Sequence[ControllerRouterHandler],
        settings: ServerSettings,
        keys: KeyFormat[S],
        probe: Callable[[], Awaitable[Any]] | None = None,
        **options: Any,
    ) -> NoReturn:
        """Serve until a signal stops the process: for a service without a composition root of its own.

        Args:
            handlers: the service's routes.
            probe: raises a `ServiceError` while the service is not ready.
            options: further arguments of Litestar.

        Raises:
            SettingsError: the settings do not fit together.
            KeysError: the file of keys cannot be used.
        """
        from ragstore.kit.server.runner import run

        self.check_access(settings)
        configure(settings.log_level, settings.log_format, self.name)
        ring = KeyRing(settings.keys_file, keys) if settings.keys_file else None
        routes = [*handlers, *health_routes(probe)]

        def create_app(stopping: threading.Event) -> ASGIApp:
            app = self.litestar(routes, settings, keys.roles, keys=ring, tracing=self.tracing(), **options)
            return self.wrapped(AllowHeaderMiddleware(app), settings, stopping)

        run(create_app, settings, request_metrics(self.name), facts={"version": self.version})


def _cors(origins: list[str]) -> CORSConfig:
    """The rules for web pages of other origins. Keys are sent in headers; cookies are never used."""
    return CORSConfig(
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
        expose_headers=["Location", "Retry-After", "Server-Timing", "X-Request-ID"],
    )
