"""Slow calls of embedded Chroma, which executes one call at a time, leave room for other callers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import numpy as np
import pytest

from ragstore.chroma.embedded.backend import MAX_CALLS
from ragstore.chroma.operations import GetRecords, UpsertRecords
from ragstore.chroma.steps import MAX_REPLACED
from ragstore.model.documents import EVERYTHING, Batch
from tests.support.factories import add_documents, batch, upsert_documents
from tests.support.problems import problem_of
from tests.support.spies import SpyBackend
from tests.support.stores import TENANT, exact

EXPENSIVE = r"(?:\w{1,8}\s){20}\d"


@pytest.mark.parametrize("operator", ["$regex", "$not_regex"])
def test_a_regular_expression_that_takes_long_for_each_character_is_rejected(
    http: httpx.Client, collection: str, operator: str
) -> None:
    for path in ("documents/filter", "query"):
        body = {"where_document": {operator: EXPENSIVE}, "query_embedding": [1, 0]}
        problem = problem_of(http.post(f"/collections/{collection}/{path}", json=body), 400)
        assert problem["code"] == "invalid_filter"
        assert "too large" in problem["detail"]


async def test_text_filters_take_turns_and_other_calls_do_not_wait_for_all_of_them(tmp_path: Path, name: str) -> None:
    backend = SpyBackend(str(tmp_path), TENANT, "hostile", 30.0)
    store = exact(backend)
    await store.start()
    await store.create_collection(name, {}, "l2")
    await add_documents(store, name, batch("a"))
    collection = await store.get_collection(name)
    finished: list[str] = []

    async def run(kind: str) -> None:
        where_document: dict[str, object] | None = {"$regex": "t.xt"} if kind == "filter" else None
        await backend.call(GetRecords(collection.id, where_document=where_document))
        finished.append(kind)

    filters = [run("filter") for _ in range(10 * MAX_CALLS)]
    await asyncio.gather(*filters, run("other"))
    assert finished.index("other") <= MAX_CALLS
    await store.close()


async def test_embedded_chroma_replaces_many_documents_in_several_calls(tmp_path: Path, name: str) -> None:
    backend = SpyBackend(str(tmp_path), TENANT, "hostile", 30.0)
    store = exact(backend)
    await store.start()
    await store.create_collection(name, {}, "l2")
    count = 1000
    await upsert_documents(store, name, batch(*(str(number) for number in range(count))))
    changed = batch(*(str(number) for number in range(count)), text="changed", metadata={"a": 1})
    changed = Batch(changed.ids, changed.texts, changed.metadatas, changed.embeddings[::-1].copy())
    await upsert_documents(store, name, changed)
    sizes = [len(each.records.ids) for each in backend.operations if isinstance(each, UpsertRecords)]
    assert sizes == [count, MAX_REPLACED, MAX_REPLACED]
    found = await store.get(name, EVERYTHING, with_embeddings=True)
    assert (found.ids, set(found.texts)) == (changed.ids, {"changed"})
    assert all(metadata == {"a": 1} for metadata in found.metadatas)
    assert found.embeddings is not None
    assert np.array_equal(found.embeddings, changed.embeddings[:])
    await store.close()
