"""The progress of the ingestions of a base."""

from __future__ import annotations

import httpx
import pytest

from tests.support.ingestion import Base, EmbeddingServer, until

pytestmark = pytest.mark.process

ROUNDING = 0.06
"""The estimate is rounded to tenths of a second."""


async def test_a_base_without_documents_has_nothing_to_do(base: Base) -> None:
    assert await base.progress() == {
        "waiting": 0,
        "processing": 0,
        "waitingFor": {},
        "documentsPerSecond": 0.0,
        "ingestions": [],
    }


async def test_states_are_in_the_order_of_the_query(base: Base) -> None:
    ids = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(3)]
    for each in ids:
        await base.ended(each)
    progress = await base.progress(ids[::-1])
    assert [each["ingestionId"] for each in progress["ingestions"]] == ids[::-1]
    assert {(each["status"], each["attempt"]) for each in progress["ingestions"]} == {("completed", 1)}
    assert all("waitingFor" not in each for each in progress["ingestions"])


async def test_the_rest_is_estimated_by_the_rate_of_the_last_minute(base: Base, server: EmbeddingServer) -> None:
    await base.ended(await base.ingest("done", "tea"))
    server.held = "held"
    try:
        held = await base.ingest("doc", "held")
        await until(lambda: server.waiting > 0)
        progress = await base.progress([held])
        assert progress["processing"] == 1
        assert progress["documentsPerSecond"] > 0
        assert progress["estimatedSeconds"] == pytest.approx(1 / progress["documentsPerSecond"], abs=ROUNDING)
        assert progress["ingestions"][0]["status"] == "processing"
    finally:
        server.held = "\0"
    await base.ended(held)
    assert (await base.progress())["estimatedSeconds"] == 0.0


async def test_an_ingestion_of_another_base_is_not_found(base: Base) -> None:
    for unknown in ("nothing", "\0"):
        response = await base.client.get(f"{base.path}/ingestions", params={"ingestionId": unknown})
        assert (response.status_code, response.json()["code"]) == (404, "ingestion_not_found")
    response = await base.client.get("/ragstore/rags/absent/ingestions")
    assert (response.status_code, response.json()["code"]) == (404, "configuration_not_found")


async def test_states_of_more_than_100_ingestions_are_a_bad_request(base: Base) -> None:
    response = await base.client.get(f"{base.path}/ingestions", params={"ingestionId": ["x"] * 101})
    assert response.status_code == 400
    assert "ingestionId" in response.text


async def test_the_sizes_of_jobs_are_counted(base: Base, client: httpx.AsyncClient) -> None:
    await base.ended(await base.ingest("doc", "tea"))
    metrics = (await client.get("/metrics")).text
    assert 'ragstore_gateway_ingestion_job_documents_bucket{le="1.0"}' in metrics
    assert 'ragstore_gateway_ingestion_job_documents_bucket{le="32.0"}' in metrics
