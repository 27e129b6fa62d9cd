"""`GET /health`: the state of the gateway and of everything it depends on."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import SkipValidation
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.health import check, health_routes
from ragstore_client import RagstoreError
from ragstore_gateway import __version__
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.errors import StoreUnavailable
from ragstore_gateway.keys import READER
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store

DatabaseDependency = SkipValidation[NamedDependency[Database]]
StoreDependency = SkipValidation[NamedDependency[Store]]
EmbedderDependency = SkipValidation[NamedDependency[Embedder]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]


class StoreHealth(Struct, frozen=True, omit_defaults=True):
    """The state of the store."""

    kind: Annotated[Literal["in-process", "remote"], Meta(description="Whether the store runs in this process.")]
    ok: Annotated[bool, Meta(description="Whether the store responds.")]
    error: Annotated[str | UnsetType, Meta(description="Why it does not.")] = UNSET


class DatabaseHealth(Struct, frozen=True, omit_defaults=True):
    """The state of the database."""

    kind: Annotated[Literal["sqlite", "postgresql"], Meta(description="Kind of database.")]
    ok: Annotated[bool, Meta(description="Whether the database responds.")]
    error: Annotated[str | UnsetType, Meta(description="Why it does not.")] = UNSET


class UpstreamHealth(Struct, frozen=True):
    """The state of the upstream."""

    configured: Annotated[bool, Meta(description="Whether there is an upstream, and so chat.")]


class GatewayHealth(Struct, frozen=True):
    """The health of the gateway."""

    ok: Annotated[bool, Meta(description="Whether the gateway can work.")]
    model: Annotated[str, Meta(description="The embedding model.")]
    version: Annotated[str, Meta(description="The gateway's version.")]
    store: StoreHealth
    database: DatabaseHealth
    upstream: UpstreamHealth


@get(
    "/health",
    opt=READER,
    operation_id="getHealth",
    summary="Health",
    tags=["service"],
    responses={
        503: ResponseSpec(
            GatewayHealth, description="The store or the database does not respond.", generate_examples=False
        )
    },
)
async def health(
    store: StoreDependency, database: DatabaseDependency, embedder: EmbedderDependency, settings: SettingsDependency
) -> Response[GatewayHealth]:
    """Health of the gateway and of all that it uses: 200 if the gateway can work, 503 if it cannot."""
    (_, store_error), (_, database_error) = await asyncio.gather(
        check(_usable(store), "The store did not respond in time"),
        check(database.ping(), "The database did not respond in time"),
    )
    ok = not store_error and not database_error
    body = GatewayHealth(
        ok=ok,
        model=embedder.name,
        version=__version__,
        store=StoreHealth("in-process" if store.in_process else "remote", not store_error, store_error or UNSET),
        database=DatabaseHealth(
            "postgresql" if database.is_postgresql else "sqlite", not database_error, database_error or UNSET
        ),
        upstream=UpstreamHealth(bool(settings.upstream_url)),
    )
    return Response(body, status_code=200 if ok else 503)


def probe_routes(store: Store, database: Database) -> list[HTTPRouteHandler]:
    """The routes of liveness and readiness of a worker, which needs both."""

    async def probe() -> None:
        await asyncio.gather(probe_store(store), database.ping())

    return health_routes(probe, backend="the store and the database", tags=["service"])


async def _usable(store: Store) -> None:
    """Check that the store responds, and that knowledge bases may use it."""
    await probe_store(store)
    if store.problem:
        raise StoreUnavailable(store.problem)


async def probe_store(store: Store) -> None:
    """Check that the store responds.

    Raises:
        StoreUnavailable: it does not.
    """
    try:
        await store.client.ready()
    except RagstoreError as error:
        raise StoreUnavailable(f"The store cannot be used: {type(error).__name__}") from error
