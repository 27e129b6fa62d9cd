"""`GET /health/ready` of a gateway: readiness by feature."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal, TypeAlias

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.auth.roles import PUBLIC
from ragstore.kit.health import READY_PATH, check, live_route
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import (
    AuditUnavailable,
    DatabaseUnavailable,
    NotConfigured,
    RetrievalFailed,
    StoreUnavailable,
)
from ragstore_gateway.health.routes import probe_store
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store

Feature: TypeAlias = Literal["assistants", "chat", "embeddings", "knowledge_bases"]
"""A part of the gateway that can be ready while others are not.

`chat` passes through to the upstream. `assistants` are all `rag/` models that the gateway knows.
"""

READY: Final = "ready"
TAGS: Final = ["service"]


class GatewayReadiness(Struct, frozen=True, omit_defaults=True):
    """The readiness of a gateway."""

    status: Literal["ready", "unready"]
    features: Annotated[
        dict[Feature, str],
        Meta(description="Each feature: `ready`, or the code of the error that its requests get at the moment."),
    ]
    error: Annotated[str | UnsetType, Meta(description="Why a feature is not ready.")] = UNSET


class Readiness:
    """Finds out which features can work.

    Until store and database have responded once, nothing is ready: a rollout of a gateway that cannot reach one of them
    stops. Later, an outage leaves what needs neither.

    Args:
        settings: the gateway's settings.
    """

    def __init__(self, settings: Settings, store: Store, database: Database) -> None:
        self._settings = settings
        self._store = store
        self._database = database
        self._was_complete = False

    async def check(self, feature: Feature | None) -> GatewayReadiness:
        """The readiness of all features.

        Args:
            feature: the feature that decides on the status; None for a gateway that has been complete once.
        """
        (_, store_error), (_, database_error) = await asyncio.gather(
            check(probe_store(self._store), "The store did not respond in time"),
            check(self._database.ping(), "The database did not respond in time"),
        )
        error = database_error or store_error
        self._was_complete |= not error
        features = self._features(bool(store_error), bool(database_error))
        is_ready = self._was_complete and (feature is None or features[feature] == READY)
        return GatewayReadiness(READY if is_ready else "unready", features, error or UNSET)

    def _features(self, store_away: bool, database_away: bool) -> dict[Feature, str]:
        settings = self._settings
        chat = READY if settings.upstream_url else NotConfigured.code
        assistants = chat
        if chat == READY and database_away and settings.audit_required:
            assistants = AuditUnavailable.code
        elif chat == READY and (database_away or store_away) and settings.on_retrieval_failure == "fail":
            assistants = RetrievalFailed.code
        bases = DatabaseUnavailable.code if database_away else StoreUnavailable.code if store_away else READY
        return {"assistants": assistants, "chat": chat, "embeddings": READY, "knowledge_bases": bases}


def readiness_routes(settings: Settings, store: Store, database: Database) -> list[HTTPRouteHandler]:
    """The routes of liveness and readiness."""
    readiness = Readiness(settings, store, database)

    @get(
        READY_PATH,
        opt=PUBLIC,
        operation_id="getReadiness",
        summary="Readiness",
        tags=TAGS,
        responses={
            503: ResponseSpec(
                GatewayReadiness,
                description="The feature is not ready, or the gateway has not started completely.",
                generate_examples=False,
            )
        },
    )
    async def ready(
        feature: Annotated[Feature | None, QueryParameter(description="Feature that must be ready.")] = None,
    ) -> Response[GatewayReadiness]:
        """Readiness probe: 200 once store and database have responded, also if one of them is unavailable later.

        `features` has the state of each feature. With `feature`, the status is the status of that feature.
        """
        found = await readiness.check(feature)
        is_ready = found.status == READY
        return Response(found, status_code=200 if is_ready else 503, headers={} if is_ready else {"Retry-After": "1"})

    return [live_route(TAGS), ready]
