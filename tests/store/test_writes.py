"""Adding, replacing and deleting documents, over every store."""

from __future__ import annotations

import asyncio
from typing import Literal

import numpy as np
import pytest

from ragstore.errors import DimensionMismatch, DocumentsExist, InvalidDocuments
from ragstore.filters.values import MetadataValue
from ragstore.model.documents import EVERYTHING, Batch, Selection, Write
from ragstore.model.metadata import Metadata
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store
from tests.support.factories import (
    add_documents,
    batch,
    batch_of,
    matrix,
    of_ids,
    of_text,
    of_where,
    rows,
    upsert_documents,
)
from tests.support.stores import MAX_BATCH_SIZE

pytestmark = pytest.mark.process

METADATA: Metadata = {
    "text": "é\x00\U0001f600'\"\\",
    "empty": "",
    "int": 2**63 - 1,
    "low": -(2**63),
    "zero": 0,
    "float": 0.1 + 0.2,
    "whole": 1.0,
    "huge": 1e300,
    "tiny": 5e-324,
    "yes": True,
    "no": False,
    "texts": ["b", "a", "b", ""],
    "ints": [3, -1, 2**63 - 1],
    "floats": [1.0, 2.5],
    "booleans": [True, False],
    "é key with spaces": "x",
    "where.$ne": "x",
}


def _typed(value: MetadataValue) -> object:
    """With the types, as 1, 1.0 and True are equal."""
    return [_typed(member) for member in value] if isinstance(value, list) else (type(value), value)


async def test_metadata_of_every_type_comes_back_as_it_was(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", metadata=METADATA))
    found = (await store.get(store_collection, EVERYTHING)).metadatas[0]
    assert {key: _typed(value) for key, value in found.items()} == {
        key: _typed(value) for key, value in METADATA.items()
    }


@pytest.mark.parametrize("text", ["", "é\U0001f600", "a\x00b", "line\nbreak\r\n\t", " ", "x" * 100_000, "\ufeff\u2028"])
async def test_texts_come_back_as_they_were(store: Store, store_collection: str, text: str) -> None:
    await add_documents(store, store_collection, batch_of([{}], [text]))
    assert (await store.get(store_collection, EVERYTHING)).texts == [text]


@pytest.mark.parametrize(
    "name", ["a", "a:b/c", "é\U0001f600", "../..", "a b", "'\"\\", "%2F?#", "x" * 2000, "\x00", "1"]
)
async def test_ids_may_be_any_text(store: Store, store_collection: str, name: str) -> None:
    await add_documents(store, store_collection, batch(name))
    assert (await store.get(store_collection, of_ids(name))).ids == [name]
    assert await store.delete(store_collection, of_ids(name)) == 1


async def test_embeddings_come_back_to_the_last_bit(store: Store, store_collection: str) -> None:
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**32, size=(200, 8), dtype=np.uint32).view(np.float32)
    special = [0.0, 1e-45, -1e-45, 1.1754944e-38, 3.0e38, -3.0e38, 16777217.0, 0.1]
    embeddings = np.vstack([np.where(np.isfinite(bits), bits, np.float32(1)), matrix(special)])
    ids = [str(index) for index in range(len(embeddings))]
    await add_documents(store, store_collection, Batch(ids, ids, [{} for _ in ids], embeddings))
    found = await store.get(store_collection, EVERYTHING, with_embeddings=True)
    assert found.embeddings is not None
    assert found.embeddings.dtype == np.float32
    assert found.embeddings.tobytes() == embeddings.tobytes()


async def test_an_add_with_a_taken_id_is_refused_whole(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b"))
    with pytest.raises(DocumentsExist) as refused:
        await add_documents(store, store_collection, batch("new", "b", "a", "other", text="changed"))
    assert refused.value.ids == ("b", "a")
    assert rows(await store.get(store_collection, EVERYTHING)) == [("a", "text of a", {}), ("b", "text of b", {})]


async def test_of_concurrent_adds_of_one_id_exactly_one_wins(store: Store, store_collection: str) -> None:
    adds = [
        add_documents(store, store_collection, batch("a", f"only{index}", text=f"by {index}")) for index in range(20)
    ]
    answers = await asyncio.gather(*adds, return_exceptions=True)
    winners = [index for index, answer in enumerate(answers) if answer is None]
    assert len(winners) == 1
    assert all(isinstance(answer, DocumentsExist) for answer in answers if answer is not None)
    found = await store.get(store_collection, EVERYTHING)
    assert found.ids == ["a", f"only{winners[0]}"]
    assert found.texts[0] == f"by {winners[0]}"


async def test_concurrent_adds_of_different_ids_all_stay(store: Store, store_collection: str) -> None:
    await asyncio.gather(
        *(add_documents(store, store_collection, batch(f"a{index}", f"b{index}")) for index in range(20))
    )
    assert sorted((await store.get(store_collection, EVERYTHING)).ids) == sorted(
        f"{letter}{index}" for letter in "ab" for index in range(20)
    )


async def test_concurrent_first_adds_of_different_dimensions_leave_one_dimension(
    store: Store, store_collection: str
) -> None:
    adds = [add_documents(store, store_collection, batch(f"a{index}", dimension=2 + index % 2)) for index in range(8)]
    answers = await asyncio.gather(*adds, return_exceptions=True)
    refused = [index for index, answer in enumerate(answers) if isinstance(answer, DimensionMismatch)]
    assert len(refused) == 4
    assert len({index % 2 for index in refused}) == 1
    assert await store.count(store_collection) == 4


async def test_an_upsert_adds_and_replaces(store: Store, store_collection: str) -> None:
    await upsert_documents(store, store_collection, batch("a", "b", metadata={"n": 1}))
    await upsert_documents(store, store_collection, batch("b", "c", text="second", metadata={"n": 2}))
    assert rows(await store.get(store_collection, EVERYTHING)) == [
        ("a", "text of a", {"n": 1}),
        ("b", "second", {"n": 2}),
        ("c", "second", {"n": 2}),
    ]


BEFORE_AND_AFTER: list[tuple[Metadata, Metadata]] = [
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": 1}, {}),
    ({}, {"a": 1}),
    ({"a": ["x", "y"]}, {"a": "x"}),
    ({"a": "x"}, {"a": ["x", "y"]}),
    ({"a": ["x", "y"]}, {"a": ["z"]}),
    ({"a": [1, 2]}, {"a": [1.5]}),
    ({"a": ["x"], "b": [True]}, {"b": [False]}),
    ({"a": [1]}, {}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": 1}, {"a": True}),
    ({"a": "1"}, {"a": 1}),
    ({"a": True}, {"b": "x"}),
]


@pytest.mark.parametrize(("before", "after"), BEFORE_AND_AFTER, ids=str)
async def test_an_upsert_replaces_metadata_whole(
    store: Store, store_collection: str, before: Metadata, after: Metadata
) -> None:
    await add_documents(store, store_collection, batch("a", "other", metadata=before))
    await upsert_documents(store, store_collection, batch("a", metadata=after))
    found = (await store.get(store_collection, EVERYTHING)).metadatas
    assert {key: _typed(value) for key, value in found[0].items()} == {
        key: _typed(value) for key, value in after.items()
    }
    assert found[1] == before


async def test_a_replaced_document_is_found_by_what_it_is_and_not_by_what_it_was(
    store: Store, store_collection: str
) -> None:
    await add_documents(
        store, store_collection, batch("a", text="old words", metadata={"n": 1, "gone": "x", "list": ["p"]})
    )
    await upsert_documents(store, store_collection, batch("a", text="new words", metadata={"n": 2, "list": ["q"]}))
    for given in ({"n": 1}, {"gone": "x"}, {"list": {"$contains": "p"}}):
        assert await store.count(store_collection, of_where(given)) == 0
    assert (
        await store.count(store_collection, of_where({"n": 2, "list": {"$contains": "q"}, "gone": {"$ne": "x"}})) == 1
    )
    assert await store.count(store_collection, of_text({"$contains": "old"})) == 0
    assert await store.count(store_collection, of_text({"$contains": "new"})) == 1


async def test_a_replaced_embedding_is_the_new_one(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b"))
    await upsert_documents(store, store_collection, Batch(["a"], ["t"], [{}], matrix([7.0, -8.0])))
    found = await store.get(store_collection, EVERYTHING, with_embeddings=True)
    assert found.embeddings is not None
    assert found.embeddings.tolist() == [[7.0, -8.0], [2.0, 1.0]]


async def test_concurrent_upserts_of_one_id_leave_one_of_them_whole(store: Store, store_collection: str) -> None:
    upserts = [
        upsert_documents(store, store_collection, batch("a", text=f"by {index}", metadata={f"key{index}": index}))
        for index in range(20)
    ]
    await asyncio.gather(*upserts)
    [(_, text, metadata)] = rows(await store.get(store_collection, EVERYTHING))
    index = int(text.removeprefix("by "))
    assert metadata == {f"key{index}": index}


async def test_concurrent_upserts_of_different_ids_all_stay(store: Store, store_collection: str) -> None:
    await asyncio.gather(
        *(upsert_documents(store, store_collection, batch(f"a{index}", metadata={"n": index})) for index in range(30)),
    )
    found = await store.get(store_collection, EVERYTHING)
    assert dict(zip(found.ids, found.metadatas, strict=True)) == {f"a{index}": {"n": index} for index in range(30)}


@pytest.mark.parametrize("operation", ["add", "upsert"])
async def test_another_dimension_is_refused_and_nothing_is_written(
    store: Store, store_collection: str, operation: Literal["add", "upsert"]
) -> None:
    await add_documents(store, store_collection, batch("a", dimension=2))
    with pytest.raises(DimensionMismatch, match="dimension 3 does not match the collection's dimension 2"):
        await write_batch(
            store, store_collection, Write(operation, batch("a" if operation == "upsert" else "b", dimension=3))
        )
    assert rows(await store.get(store_collection, EVERYTHING)) == [("a", "text of a", {})]


@pytest.mark.parametrize("operation", ["add", "upsert"])
async def test_a_batch_of_the_largest_size_is_written(
    store: Store, store_collection: str, operation: Literal["add", "upsert"]
) -> None:
    await write_batch(
        store, store_collection, Write(operation, batch(*(str(index) for index in range(MAX_BATCH_SIZE))))
    )
    assert await store.count(store_collection) == MAX_BATCH_SIZE


@pytest.mark.parametrize("operation", ["add", "upsert"])
async def test_a_larger_batch_is_refused_and_nothing_is_written(
    store: Store, store_collection: str, operation: Literal["add", "upsert"]
) -> None:
    with pytest.raises(InvalidDocuments, match=rf"At most {MAX_BATCH_SIZE} .* has {MAX_BATCH_SIZE + 1}"):
        await write_batch(
            store, store_collection, Write(operation, batch(*(str(index) for index in range(MAX_BATCH_SIZE + 1))))
        )
    assert await store.count(store_collection) == 0


async def test_a_delete_counts_what_was_there(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b", "c"))
    assert await store.delete(store_collection, of_ids("a", "never", "c")) == 2
    assert await store.delete(store_collection, of_ids("a", "never")) == 0
    assert (await store.get(store_collection, EVERYTHING)).ids == ["b"]


async def test_a_delete_of_no_ids_deletes_nothing(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a"))
    assert await store.delete(store_collection, of_ids()) == 0
    assert await store.count(store_collection) == 1


async def test_a_delete_takes_ids_and_filters_together(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch_of([{"n": 1}, {"n": 2}, {"n": 1}], ["red", "red", "green"]))
    assert await store.delete(store_collection, Selection(("0", "1"), of_where({"n": 1}).condition)) == 1
    assert await store.delete(store_collection, of_text({"$contains": "green"})) == 1
    assert await store.delete(store_collection, of_where({"n": 3})) == 0
    assert (await store.get(store_collection, EVERYTHING)).ids == ["1"]


async def test_concurrent_deletes_count_each_document_once(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch(*(str(index) for index in range(30))))
    assert sum(await asyncio.gather(*(store.delete(store_collection, EVERYTHING) for _ in range(5)))) == 30


async def test_deleting_everything_keeps_the_collection_and_its_rules(store: Store, name: str) -> None:
    await store.create_collection(name, {"a": 1}, "ip")
    await add_documents(store, name, batch("a", "b", dimension=3))
    before = await store.get_collection(name)
    assert await store.delete(name, EVERYTHING) == 2
    assert await store.delete(name, EVERYTHING) == 0
    assert await store.get_collection(name) == before
    assert await store.count(name) == 0
    with pytest.raises(DimensionMismatch):
        await add_documents(store, name, batch("a", dimension=2))
    await add_documents(store, name, batch("a", dimension=3))
    assert await store.count(name) == 1


async def test_a_deleted_id_is_free_again(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", metadata={"old": 1, "list": ["x"]}))
    await store.delete(store_collection, of_ids("a"))
    await add_documents(store, store_collection, batch("a", text="again"))
    assert rows(await store.get(store_collection, EVERYTHING)) == [("a", "again", {})]


async def test_more_documents_than_one_write_takes_are_deleted(store: Store, store_collection: str) -> None:
    for start in range(0, 6000, MAX_BATCH_SIZE):
        await add_documents(store, store_collection, batch(*(str(start + index) for index in range(MAX_BATCH_SIZE))))
    assert await store.delete(store_collection, EVERYTHING) == 6000
    assert await store.count(store_collection) == 0
