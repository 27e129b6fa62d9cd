"""The number of statements that a job takes, on both databases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from tests.support.ingesting_process import IngestingProcess
from tests.support.knowledge import Knowledge
from tests.support.statements import statements

pytestmark = pytest.mark.process

OF_A_JOB = 12
OF_A_DOCUMENT = 2


@dataclass
class Counting:
    """A base whose jobs are counted."""

    base_id: str
    documents: Documents
    process: IngestingProcess
    database: Database

    async def statements(self, count: int, content: bytes) -> int:
        """The number of statements of a job that ingests documents.

        Args:
            count: number of documents.
            content: of each of them.
        """
        for number in range(count):
            await self.documents.accept(self.base_id, NewContent(f"doc {number}", "text/plain", content, ""))
        with statements(self.database) as found:
            claimed = await self.process.claim(self.base_id)
            await self.process.pipeline.run(claimed)
        assert len(claimed) == count
        for each in claimed:
            assert (await self.documents.ingestion(self.base_id, each.id)).state == "completed"
        return len(found)


@pytest.fixture
async def counting(knowledge: Knowledge) -> Counting:
    """A base with a collection, which its first document has created."""
    base = await knowledge.base("counted", storeType="in-memory")
    documents = Documents(knowledge.database, Acceptance(100, 1_000_000))
    process = IngestingProcess(knowledge)
    await documents.accept(base.id, NewContent("first", "text/plain", b"tea", ""))
    await process.pipeline.run(await process.claim(base.id))
    return Counting(base.id, documents, process, knowledge.database)


@pytest.mark.parametrize("count", [1, 32])
async def test_a_job_takes_twelve_statements_and_two_for_each_document(counting: Counting, count: int) -> None:
    assert await counting.statements(count, b"tea and water") <= OF_A_JOB + OF_A_DOCUMENT * count


async def test_a_job_that_replaces_documents_takes_no_more_with_the_removals_of_their_chunks(
    counting: Counting,
) -> None:
    await counting.statements(32, b"tea and water")
    assert await counting.statements(32, b"tea and milk") <= OF_A_JOB + OF_A_DOCUMENT * 32


async def test_texts_of_several_documents_are_embedded_with_one_request(knowledge: Knowledge) -> None:
    base = await knowledge.base("together", storeType="in-memory")
    documents = Documents(knowledge.database, Acceptance(100, 1_000_000))
    process = IngestingProcess(knowledge)
    for number in range(20):
        await documents.accept(base.id, NewContent(f"doc {number}", "text/plain", b"tea %d" % number, ""))
    claimed = await process.claim(base.id)
    embedder = knowledge.collections.embedder(claimed[0].targets[0])
    requests: list[int] = []
    embed = embedder.embed

    async def count(texts: Any, kind: Any) -> Any:
        requests.append(len(texts))
        return await embed(texts, kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(embedder), "embed", lambda _, texts, kind: count(texts, kind))
        await process.pipeline.run(claimed)
    assert requests == [20]
