"""`Conversations`: steps, contexts and the audit ledger, assembled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import structlog

from ragstore.kit.background import in_background
from ragstore_gateway.conversations import metrics
from ragstore_gateway.conversations.chain import ChainCheck, Head
from ragstore_gateway.conversations.ledger import Ledger
from ragstore_gateway.conversations.recorder import Recorder
from ragstore_gateway.conversations.repository import ConversationRepository
from ragstore_gateway.conversations.step import Step
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.errors import TooManyVerifications, VerificationTimeout
from ragstore_gateway.settings import Settings

UPKEEP_SECONDS: Final = 600.0
"""Time between two purges of old contexts, and between two log lines with the head of the ledger."""

VERIFY_SECONDS: Final = 300.0
"""Maximum time of a verification of the ledger by a request. `ragstore-gateway audit verify` has none."""

_log = structlog.get_logger(__name__)


class Conversations:
    """Steps, contexts and the audit ledger. It works while the block of `running` runs.

    Attributes:
        ledger: the audit ledger.
        repository: steps and contexts.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self.ledger = Ledger(database)
        self.repository = ConversationRepository(
            database,
            self.ledger,
            keep_contexts=settings.keep_contexts,
            retention=timedelta(days=settings.retention_days),
        )
        self._recorder = Recorder(self.repository, required=settings.audit_required)
        self._logged = ""
        self._verifying = asyncio.Lock()

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Write steps, and purge old contexts, in the background."""
        upkeep = forever(self._upkeep, UPKEEP_SECONDS, "conversations not purged")
        async with self._recorder.running(), in_background(upkeep):
            yield

    async def record(self, step: Step) -> None:
        """Record a step; see `Recorder.record`."""
        await self._recorder.record(step)

    async def flush(self) -> None:
        """Wait until the steps that were recorded here are written, or cannot be."""
        await self._recorder.flush()

    async def verify(self, expected: Head | None) -> ChainCheck:
        """Check the chain of the ledger. It reads all entries, so one check runs at a time.

        Args:
            expected: a head that was recorded elsewhere.

        Raises:
            TooManyVerifications: a check is in progress.
            VerificationTimeout: the ledger is too long for a request.
        """
        if self._verifying.locked():
            raise TooManyVerifications("A verification of the audit ledger is in progress; try again later")
        async with self._verifying:
            await self.flush()
            try:
                async with asyncio.timeout(VERIFY_SECONDS):
                    return await self.ledger.verify(expected)
            except TimeoutError:
                raise VerificationTimeout(
                    f"The ledger was not verified within {VERIFY_SECONDS:g} s: use `ragstore-gateway audit verify`"
                ) from None

    async def _upkeep(self) -> None:
        purged = await self.repository.purge()
        metrics.PURGED_CONTEXTS.inc(purged)
        if purged:
            _log.info("contexts purged", count=purged)
        await self._log_head()

    async def _log_head(self) -> None:
        """Log the head of the ledger, if it has changed.

        A log that is stored elsewhere shows later whether the ledger has lost its end, or was rewritten.
        """
        head = await self.ledger.head()
        if head is None:
            _log.error("audit ledger without head")
        elif str(head) != self._logged:
            self._logged = str(head)
            metrics.LEDGER_ENTRIES.set(head.count)
            _log.info("audit ledger", head=self._logged)
