"""Reading and counting documents, over every store."""

from __future__ import annotations

import pytest

from ragstore.model.documents import EVERYTHING, Selection
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, batch_of, of_ids, of_text, of_where, upsert_documents

pytestmark = pytest.mark.process

SHELVES: list[Metadata] = [{"shelf": index % 3, "n": index} for index in range(9)]
TEXTS = ["red apple", "green pear", "red pear"] * 3

SELECTIONS: list[tuple[Selection, list[str]]] = [
    (EVERYTHING, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]),
    (of_ids("7", "2", "none", "2"), ["2", "7"]),
    (of_ids("none"), []),
    (of_ids(), []),
    (of_where({"shelf": 1}), ["1", "4", "7"]),
    (of_where({"shelf": 5}), []),
    (of_where({}), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]),
    (of_text({"$contains": "red"}), ["0", "2", "3", "5", "6", "8"]),
    (Selection(("1", "2", "4"), Condition.parse({"shelf": 1})), ["1", "4"]),
    (Selection((), Condition.parse({"shelf": 1})), []),
    (
        Selection(("0", "1", "2", "5"), Condition.parse({"n": {"$gt": 0}}, {"$contains": "red"})),
        ["2", "5"],
    ),
]


@pytest.mark.parametrize(("selection", "ids"), SELECTIONS)
async def test_a_selection_selects_in_insertion_order(
    store: Store, store_collection: str, selection: Selection, ids: list[str]
) -> None:
    await add_documents(store, store_collection, batch_of(SHELVES, TEXTS))
    found = await store.get(store_collection, selection)
    assert found.ids == ids
    assert found.texts == [TEXTS[int(index)] for index in ids]
    assert found.metadatas == [SHELVES[int(index)] for index in ids]
    assert found.embeddings is None
    assert await store.count(store_collection, selection) == len(ids)


@pytest.mark.parametrize(("selection", "ids"), SELECTIONS)
async def test_pages_put_together_are_the_whole(
    store: Store, store_collection: str, selection: Selection, ids: list[str]
) -> None:
    await add_documents(store, store_collection, batch_of(SHELVES, TEXTS))
    pages = [
        await store.get(store_collection, selection, limit=2, offset=offset) for offset in range(0, len(ids) + 2, 2)
    ]
    assert [name for page in pages for name in page.ids] == ids
    assert all(len(page.ids) == 2 for page in pages[: len(ids) // 2])
    assert [metadata for page in pages for metadata in page.metadatas] == [SHELVES[int(index)] for index in ids]


async def test_insertion_order_outlives_replacing_and_deleting(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("z", "y", "x"))
    await add_documents(store, store_collection, batch("b", "a"))
    await upsert_documents(store, store_collection, batch("a", "c", "y", text="again"))
    await store.delete(store_collection, of_ids("x"))
    assert (await store.get(store_collection, EVERYTHING)).ids == ["z", "y", "b", "a", "c"]


@pytest.mark.parametrize("selection", [EVERYTHING, of_ids("a"), of_where({"a": 1}), of_text({"$contains": "a"})])
async def test_an_empty_collection_has_nothing_to_read(
    store: Store, store_collection: str, selection: Selection
) -> None:
    found = await store.get(store_collection, selection, with_embeddings=True)
    assert (found.ids, found.texts, found.metadatas) == ([], [], [])
    assert found.embeddings is not None
    assert len(found.embeddings) == 0
    assert await store.count(store_collection, selection) == 0
    assert await store.get_metadata_values(store_collection, "a") == set()


async def test_an_offset_beyond_the_end_finds_nothing(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b"))
    assert (await store.get(store_collection, EVERYTHING, limit=5, offset=2)).ids == []
    assert (await store.get(store_collection, EVERYTHING, limit=5, offset=2**31 - 1)).ids == []


async def test_an_offset_works_without_a_limit(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b", "c"))
    assert (await store.get(store_collection, EVERYTHING, offset=1)).ids == ["b", "c"]


async def test_embeddings_stand_beside_their_ids(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("a", "b", "c"))
    found = await store.get(store_collection, of_ids("c", "a"), with_embeddings=True)
    assert found.ids == ["a", "c"]
    assert found.embeddings is not None
    assert found.embeddings.tolist() == [[1.0, 1.0], [3.0, 1.0]]


async def test_as_many_ids_as_a_request_may_name_are_read(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch("5", "7777", "none"))
    assert (await store.get(store_collection, of_ids(*(str(index) for index in range(10_000))))).ids == ["5", "7777"]


async def test_collections_do_not_see_each_other(store: Store, store_collection: str, name: str) -> None:
    await store.create_collection(name, {}, "l2")
    await add_documents(store, store_collection, batch("a", metadata={"n": 1}))
    await add_documents(store, name, batch("a", dimension=3, metadata={"n": 2}))
    assert (await store.get(store_collection, EVERYTHING)).metadatas == [{"n": 1}]
    assert await store.delete(name, EVERYTHING) == 1
    assert await store.count(store_collection) == 1
