"""A search finds complete documents while a large one of the same base is written to the store."""

from __future__ import annotations

import pytest

from tests.support.ingestion import Base, client_of
from tests.support.servers import Served

pytestmark = pytest.mark.process

QUESTION = "How long is the warranty of the kettle?"
CHUNKS = 600


async def test_a_document_is_found_all_the_time_while_a_large_one_that_is_nearer_is_ingested(gateway: Served) -> None:
    near = "\n".join(f"{QUESTION} Part {number}. ".ljust(99, "-") for number in range(CHUNKS))
    async with client_of(gateway.url) as client:
        base = await Base.create(client, name="during-writes")
        await base.completed("good.txt", "Trains leave at noon.")
        ingestion = await base.ingest("large.txt", near)
        status, searches = "pending", 0
        while status in ("pending", "processing"):
            found = await base.query(QUESTION, maxResults=3)
            status = (await base.status(ingestion))["status"]
            names = {each["metadata"]["document_name"] for each in found}
            assert names == ({"good.txt"} if status != "completed" else names & {"good.txt", "large.txt"})
            assert found
            searches += 1
        assert (status, searches > 5) == ("completed", True)
        assert {each["metadata"]["document_name"] for each in await base.query(QUESTION, maxResults=3)} == {"large.txt"}
