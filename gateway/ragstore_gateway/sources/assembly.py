"""`Sources`: starts, schedules and cancels runs of sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.background import in_background
from ragstore_gateway.claims.execution import Executions
from ragstore_gateway.claims.runs import CANCELLED
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.source import Source, SourceType
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.sources.copied_pages import copy_pages
from ragstore_gateway.sources.errors import SourceDisabled, SourceNotFound
from ragstore_gateway.sources.execution import SourceExecution
from ragstore_gateway.sources.previews import Previews
from ragstore_gateway.sources.runs import SOURCE_REMOVED, SourceRuns
from ragstore_gateway.sources.schedules import Schedules
from ragstore_gateway.sources.schemas import Preview
from ragstore_gateway.sources.source_documents import SourceDocuments
from ragstore_gateway.sources.source_kind import SourceKind
from ragstore_gateway.sources.tables import SourceRunRow

POLL_SECONDS: Final = 2.0
"""How often the database is read for runs that are due."""

MAX_SCHEDULED: Final = 4
"""Maximum number of runs of this process at which it begins a scheduled one."""

_log = structlog.get_logger(__name__)


class Sources:
    """Keeps knowledge bases in step with their sources.

    Args:
        bases: the knowledge bases.
        ingestion: ingests documents.
        runs: the runs of all sources.
        kinds: the types of sources.
        begins_scheduled: whether this process begins the runs that are scheduled.

    Attributes:
        documents: the documents of sources.
    """

    def __init__(
        self,
        database: Database,
        bases: Configurations[KnowledgeBase],
        ingestion: Ingestion,
        runs: SourceRuns,
        kinds: Mapping[SourceType, SourceKind],
        *,
        begins_scheduled: bool = True,
    ) -> None:
        self.runs = runs
        self.documents = SourceDocuments(database, ingestion, self.runs)
        self._bases = bases
        self._ingestion = ingestion
        self._kinds = kinds
        self._begins_scheduled = begins_scheduled
        self._previews = Previews(self.documents)
        self._woken = asyncio.Event()
        self._schedules = Schedules(database, self.runs, self._woken.set)
        self._executions = Executions(runs)
        bases.add_listener(self._schedules)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Begin runs when they are due. At the end, the runs of this process end as interrupted."""
        try:
            async with in_background(
                forever(self._run_due, POLL_SECONDS, "scheduled source runs not begun", self._woken)
            ):
                yield
        finally:
            await self._executions.stop()

    async def copy_documents(self, session: AsyncSession, base_id: str, copy: Configuration[KnowledgeBase]) -> None:
        """Accept the documents of a base for a new one, whose sources own the copies of their pages."""
        await self._ingestion.copy_documents(session, base_id, copy)
        await copy_pages(session, base_id, copy)

    async def run(self, base_id: str, name: str) -> SourceRunRow:
        """Begin a run of a source.

        Args:
            base_id: the knowledge base.
            name: name of the source.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
            SourceDisabled: the source is not enabled.
            SourceNotFound: the base has no such source.
            SourceRunning: another run of it has not ended.
        """
        while True:
            base, source = await self._find(base_id, name)
            if not source.enabled:
                raise SourceDisabled(f"The source {name} is not enabled")
            run = await self.runs.claim(base_id, base.version, name)
            # Otherwise another version has been written since.
            if run is not None:
                self._start(run, base.body, source, self._kinds[source.type])
                return run

    async def cancel(self, base_id: str, name: str, run_id: str) -> None:
        """Cancel a run; see `Runs.cancel`."""
        await self.runs.cancel(base_id, name, run_id=run_id)
        self._executions.lose(run_id)

    async def preview(self, base_id: str, name: str) -> Preview:
        """The effect that a run of a source would have; see `Previews.preview`.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            SourceNotFound: the base has no such source.
        """
        _, source = await self._find(base_id, name)
        return await self._previews.preview(base_id, source, self._kinds[source.type])

    async def purge(self, base_id: str, name: str) -> int:
        """Delete the documents of a source; see `SourceDocuments.purge`. The base need not have the source any more.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            SourceNotFound: the base has, and had, no such source.
        """
        await self.check(base_id, name)
        return await self.documents.purge(base_id, name)

    async def check(self, base_id: str, name: str) -> None:
        """Check that a knowledge base has a source, or that there are runs or documents of a former one.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            SourceNotFound: there is nothing of this name.
        """
        try:
            await self._find(base_id, name)
        except SourceNotFound:
            if not await self.documents.has_any(base_id, name):
                raise

    async def find(self, base_id: str, name: str) -> Source:
        """A source of the current version of a knowledge base.

        Args:
            base_id: the knowledge base.
            name: name of the source.

        Raises:
            ConfigurationNotFound: there is no such knowledge base.
            DatabaseUnavailable: the database cannot be used.
            SourceNotFound: the base has no such source.
        """
        return (await self._find(base_id, name))[1]

    async def _find(self, base_id: str, name: str) -> tuple[Configuration[KnowledgeBase], Source]:
        base = await self._bases.read(base_id)
        for source in base.body.sources:
            if source.name == name:
                return base, source
        raise SourceNotFound(f"The knowledge base {base_id} has no source {name[:100]!r}")

    def _start(self, run: SourceRunRow, base: KnowledgeBase, source: Source, kind: SourceKind) -> None:
        self._executions.start(SourceExecution(run, base, source, kind, self.runs, self.documents))
        _log.info("source run begins", run=run.id, base=run.base_id, source=run.source, trigger=run.trigger)

    async def _run_due(self) -> None:
        if not self._begins_scheduled:
            return
        async for run in self._schedules.claim_due(max(0, MAX_SCHEDULED - len(self._executions))):
            try:
                base, source = await self._find(run.base_id, run.source)
            except (ConfigurationNotFound, SourceNotFound, DatabaseUnavailable) as error:
                # A run that is not ended here is given back, and due again.
                self.runs.claimed.discard(run.id)
                if not isinstance(error, DatabaseUnavailable):
                    await self.runs.end(run.id, CANCELLED, SOURCE_REMOVED, {})
            else:
                self._start(run, base.body, source, self._kinds[source.type])
