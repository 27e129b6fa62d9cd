"""The list of documents of a base: a part of a name, a state, the number of documents in each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.ingestion import Base, EmbeddingServer, text_of, until
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process


async def listed(base: Base, **params: Any) -> Mapping[str, Any]:
    """A page of the list."""
    response = await base.client.get(base.path + "/documents", params=params)
    assert response.status_code == 200, response.text
    found: Mapping[str, Any] = response.json()
    return found


def names(page: Mapping[str, Any]) -> list[str]:
    """The names of the documents of a page."""
    return [each["name"] for each in page["documents"]]


def counts(page: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of documents that wait, are in progress, are complete, have failed."""
    return tuple(page["states"][state] for state in ("pending", "processing", "completed", "failed"))


async def test_an_empty_base_has_no_document_in_any_state(base: Base) -> None:
    page = await listed(base)
    assert page == {
        "documents": [],
        "total": 0,
        "states": {"pending": 0, "processing": 0, "completed": 0, "failed": 0},
    }


async def test_a_filter_is_a_part_of_a_name_in_any_case(base: Base) -> None:
    for name in ("Manuals/kettle.txt", "Manuals/pot.txt", "100%_tea.txt", "STRASSE.txt"):
        await base.completed(name, name)
    assert names(await listed(base, filter="manuals/")) == ["Manuals/kettle.txt", "Manuals/pot.txt"]
    assert names(await listed(base, filter="0%_T")) == ["100%_tea.txt"]
    assert names(await listed(base, filter="%")) == ["100%_tea.txt"]
    page = await listed(base, filter="manuals", limit=1, index=1)
    assert (names(page), page["total"], counts(page)) == (["Manuals/pot.txt"], 2, (0, 0, 2, 0))


async def test_a_filter_that_no_name_can_have_finds_nothing(base: Base) -> None:
    await base.completed("a", "tea")
    page = await listed(base, filter="a\0")
    assert (page["documents"], page["total"], counts(page)) == ([], 0, (0, 0, 0, 0))


async def test_the_list_is_restricted_to_some_ids(base: Base) -> None:
    for name in ("a", "b", "c"):
        await base.completed(name, name)
    ids = {each["name"]: each["id"] for each in (await listed(base))["documents"]}
    page = await listed(base, documentId=[ids["c"], ids["a"], "absent", "\0"])
    assert (names(page), page["total"], counts(page)) == (["a", "c"], 2, (0, 0, 2, 0))
    assert names(await listed(base, documentId=ids["b"], filter="B")) == ["b"]
    assert names(await listed(base, documentId=ids["b"], filter="a")) == []
    page = await listed(base, documentId="\0")
    assert (page["documents"], page["total"]) == ([], 0)
    too_many = await base.client.get(base.path + "/documents", params={"documentId": ["a"] * 101})
    assert_problem(too_many, 400, "invalid_request")


async def test_a_status_lists_the_documents_in_that_state_and_counts_those_in_all(
    base: Base, server: EmbeddingServer
) -> None:
    await base.completed("good", "tea")
    server.rejected = "bad tea"
    try:
        await base.ended(await base.ingest("bad", "bad tea"))
    finally:
        server.rejected = "\0"
    failed = await listed(base, status="failed")
    assert (names(failed), failed["total"], counts(failed)) == (["bad"], 1, (0, 0, 1, 1))
    assert names(await listed(base, status="completed")) == ["good"]
    assert names(await listed(base, status="pending")) == []


async def test_a_document_in_progress_has_its_share_of_embedded_chunks(base: Base, server: EmbeddingServer) -> None:
    server.held = "slow 60 "
    try:
        ingestion = await base.ingest("slow", text_of("slow", 64))
        await until(lambda: server.waiting > 0)
        page = await listed(base, status="processing")
        (entry,) = page["documents"]
        assert (entry["name"], counts(page)) == ("slow", (0, 1, 0, 0))
        assert 0 <= entry["progress"] < 1
        assert not entry["searchable"]
    finally:
        server.held = "\0"
    await base.ended(ingestion)
    assert [each["progress"] for each in (await listed(base))["documents"]] == [1.0]


async def test_a_document_that_waits_for_its_provider_names_the_error(base: Base, server: EmbeddingServer) -> None:
    server.is_loading = True
    try:
        ingestion = await base.ingest("waiting", "tea")
        while "waitingFor" not in (found := (await listed(base))["documents"][0]) or found["waitingFor"] == "queue":
            assert found["status"] in ("pending", "processing"), found
    finally:
        server.is_loading = False
    assert found["waitingFor"].startswith("embedding_")
    await base.ended(ingestion)
    assert "waitingFor" not in (await listed(base))["documents"][0]


async def test_a_cancelled_document_counts_as_failed(base: Base, server: EmbeddingServer) -> None:
    server.held = "held tea"
    try:
        ingestion = await base.ingest("held", "held tea")
        await base.embedding(ingestion, server)
        (await base.client.delete(f"{base.path}/ingestion/{ingestion}")).raise_for_status()
    finally:
        server.held = "\0"
    failed = await listed(base, status="failed")
    assert [each["status"] for each in failed["documents"]] == ["failed: The ingestion was cancelled"]


@pytest.mark.parametrize(
    ("params", "path"),
    [({"status": "cancelled"}, "$.status"), ({"status": ""}, "$.status"), ({"filter": "x" * 513}, "$.filter")],
)
async def test_a_state_that_does_not_exist_and_a_filter_that_is_too_long_are_400(
    base: Base, params: dict[str, str], path: str
) -> None:
    response = await base.client.get(base.path + "/documents", params=params)
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == [path]
