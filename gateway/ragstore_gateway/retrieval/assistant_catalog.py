"""`Assistants`: the assistants as models with retrieval, `rag/NAME` in OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec
import structlog

from ragstore.kit.background import in_background
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.retrieval.assistant import AssistantModel, AssistantServices, unsaved

T = TypeVar("T")

LOOKUP_SECONDS: Final = 2.0
"""Maximum time for looking an assistant up. After it, its last known version is used."""

LOAD_SECONDS: Final = 10.0
"""Maximum time for loading all assistants."""

LOAD_AGAIN_SECONDS: Final = 60.0
"""Time between two loads."""

RETRY_SECONDS: Final = 2.0
"""Time between a load that failed and the next one."""

LOAD_BATCH: Final = 50
"""Number of assistants that one query loads. Other requests are served between two queries."""

MAX_KNOWN: Final = 1000
"""Maximum number of assistants whose last known versions are kept."""

_log = structlog.get_logger(__name__)


class Assistants:
    """The assistants, by name. It works while the block of `running` runs.

    Each request looks the current version up, so that a change is effective from the next request on, on every replica.
    While the database is unavailable, the last known versions are used, so that chats continue. A replica loads all
    assistants when it starts, and every minute, so that it also knows assistants that it has not served yet. A name
    that it does not know may be an assistant of another replica, so nothing is served under it until the database is
    back.

    Args:
        configurations: the assistants.
        services: what they use.
    """

    def __init__(self, configurations: Configurations[Assistant], services: AssistantServices) -> None:
        self._configurations = configurations
        self._services = services
        self._known: dict[str, AssistantModel] = {}
        self._models: Mapping[str, str] | None = None

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Load all assistants, and again every minute. If the database is unavailable, the start does not fail."""
        loaded = await self._load()
        async with in_background(self._load_forever(loaded=loaded)):
            yield

    async def upstream_models(self) -> Mapping[str, str]:
        """The upstream's model of each assistant, by its name; see `RagModels`."""
        try:
            self._models = await _bounded(self._read_models())
        except DatabaseUnavailable:
            _log.warning("assistants not listed", known=self._models is not None)
            if self._models is None:
                raise
        return self._models

    async def find(self, name: str) -> AssistantModel | None:
        """Look an assistant up.

        Returns:
            The assistant in its current version, or in its last known one if the database is unavailable; None if there
            is none.

        Raises:
            DatabaseUnavailable: the database is unavailable, and no assistant of this name is known.
        """
        try:
            found = await _bounded(self._configurations.find_by_name(name))
        except DatabaseUnavailable:
            known = self._known.get(name)
            _log.warning("assistant not looked up", known=known is not None)
            if known is None:
                raise
            return known
        known = self._known.pop(name, None)
        if found is None:
            return None
        if known is None or not known.is_of(found):
            known = AssistantModel(found, self._services)
        self._keep(name, known)
        return known

    def unsaved(self, body: Assistant) -> AssistantModel:
        """The model of an assistant that is not stored."""
        return AssistantModel(unsaved(body), self._services)

    def _keep(self, name: str, model: AssistantModel) -> None:
        """Keep a model; a new one as the most recently used one."""
        if name not in self._known:
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
        self._known[name] = model

    async def _load_forever(self, *, loaded: bool) -> None:
        while True:
            await asyncio.sleep(LOAD_AGAIN_SECONDS if loaded else RETRY_SECONDS)
            loaded = await self._load()

    async def _load(self) -> bool:
        """Replace the known versions by the current ones; whether it succeeded."""
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await self._load_all()
        except Exception as error:  # noqa: BLE001 - without this loop, a replica would know only what it has served
            _log.warning("assistants not loaded", error=type(error).__name__)
            return False
        return True

    async def _load_all(self) -> None:
        before = dict(self._known)
        models = await self._read_models()
        # Known assistants stay known if there are more than the maximum.
        names = sorted(models, key=lambda name: name not in before)[:MAX_KNOWN]
        current: list[Configuration[Assistant]] = []
        for start in range(0, len(names), LOAD_BATCH):
            current += await self._read(names[start : start + LOAD_BATCH])
        self._models = models
        # A request has looked these up during the load, so their versions are newer.
        changed = {name for name in before.keys() | self._known.keys() if before.get(name) is not self._known.get(name)}
        for name in before.keys() - models.keys() - changed:
            del self._known[name]
        for configuration in current:
            name = configuration.body.name
            if name in changed:
                continue
            known = before.get(name)
            if known is None or not known.is_of(configuration):
                known = AssistantModel(configuration, self._services)
            self._keep(name, known)

    async def _read(self, names: Sequence[str]) -> Sequence[Configuration[Assistant]]:
        """The current versions of assistants. One that cannot be read does not affect the others."""
        try:
            return list((await self._configurations.find_all_by_name(names)).values())
        except msgspec.ValidationError:
            if len(names) == 1:
                _log.error("assistant not readable")
                return []
            return [one for name in names for one in await self._read([name])]

    async def _read_models(self) -> Mapping[str, str]:
        """The upstream's model of each assistant, by its name."""
        found = await self._configurations.field("model")
        return {name: model or self._services.settings.model for name, model in found.items()}


async def _bounded(work: Awaitable[T]) -> T:
    """The result of a lookup.

    Raises:
        DatabaseUnavailable: the database is unavailable, or does not respond in time.
    """
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await work
    except TimeoutError:
        raise DatabaseUnavailable("The database did not respond in time").because("lookup timed out") from None
