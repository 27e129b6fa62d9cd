"""Calls to Chroma are values, which both backends execute and layers pass on."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TypeVar
from uuid import UUID

import pytest

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.layered_backend import BackendLayer, LayeredBackend, NextCall
from ragstore.chroma.operations import (
    OPERATIONS,
    AddRecords,
    CountCollections,
    CountEach,
    CountRecords,
    CreateCollection,
    DeleteCollection,
    DeleteRecords,
    GetCollection,
    GetMaxBatchSize,
    GetRecords,
    GetStatus,
    GetWriteTokens,
    ListCollections,
    Operation,
    QueryRecords,
    ReplaceMetadata,
    UndoAdd,
    UpsertRecords,
)
from ragstore.chroma.records import RecordBatch
from tests.support.factories import matrix
from tests.support.stores import StoreLocation, embedded_backend, http_backend

T = TypeVar("T")

NAMES: Final = [
    "status",
    "max_batch_size",
    "create_collection",
    "get_collection",
    "list_collections",
    "count_collections",
    "count_each",
    "replace_metadata",
    "exchange_names",
    "restore_names",
    "delete_collection",
    "add",
    "marks",
    "withdraw",
    "upsert",
    "update",
    "get",
    "count",
    "delete",
    "query",
]
"""Label values of metrics, which are public."""


def _records(*ids: str) -> RecordBatch:
    return RecordBatch(list(ids), matrix(*([1.0, 2.0] for _ in ids)), list(ids), [{"n": 1} for _ in ids])


ON_RECORDS: Final[dict[type[Operation[object]], tuple[Callable[[str], Operation[object]], object]]] = {
    AddRecords: (lambda key: AddRecords(key, _records("b", "c"), ["token", "token"]), None),
    GetWriteTokens: (lambda key: GetWriteTokens(key, ["a", "b", "x"]), {"a": None, "b": "token"}),
    UndoAdd: (lambda key: UndoAdd(key, ["c"], "token"), None),
    CountRecords: (CountRecords, 2),
    DeleteRecords: (lambda key: DeleteRecords(key, ["b", "x"]), None),
    ReplaceMetadata: (lambda key: ReplaceMetadata(key, {"a": 2}), None),
}
"""Operations on a collection that holds the record `a`, in an order that gives each the result beside it."""


def _subclasses(kind: type[Operation[object]]) -> Iterator[type[Operation[object]]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def test_every_operation_has_its_public_name() -> None:
    assert [kind.name for kind in OPERATIONS] == NAMES


def test_no_operation_is_missing_from_the_list_that_chains_are_built_of() -> None:
    assert {kind for kind in _subclasses(Operation) if "name" in vars(kind)} == set(OPERATIONS)


def test_an_operation_crosses_to_another_process_as_it_is() -> None:
    query = QueryRecords("id", matrix([1.0, 2.0]), 3, where={"n": 1}, columns=("documents",))
    copy = pickle.loads(pickle.dumps(query))
    assert (copy.collection_id, copy.embeddings.tolist(), copy.n_results) == ("id", [[1.0, 2.0]], 3)
    assert (copy.where, copy.where_document, copy.columns) == ({"n": 1}, None, ("documents",))


def test_an_operation_states_its_collection_and_its_size() -> None:
    named, by_id = GetCollection("notes"), GetRecords("an id", ["a", "b"])
    assert (named.collection, named.collection_name, named.size) == ("notes", "notes", None)
    assert (by_id.collection, by_id.collection_name, by_id.size) == ("an id", "", 2)
    assert (ListCollections().collection, GetRecords("an id").size) == ("", None)


@pytest.fixture(params=["embedded", "remote"])
async def backend(request: pytest.FixtureRequest, location: StoreLocation) -> AsyncIterator[Backend]:
    """Chroma without any layer."""
    folder = location.folder / "operations"
    made: Backend = (
        embedded_backend(folder) if request.param == "embedded" else http_backend(location.chroma_url, "operations")
    )
    await made.start()
    yield made
    await made.close()


async def test_both_backends_execute_every_operation(backend: Backend, name: str) -> None:
    assert await backend.call(GetMaxBatchSize()) > 100
    created = await backend.call(CreateCollection(name, {"a": 1}, "ip"))
    assert (created.name, created.metadata, created.dimension, created.distance) == (name, {"a": 1}, None, "ip")
    await backend.call(UpsertRecords(created.id, _records("a")))
    for make, expected in ON_RECORDS.values():
        assert await backend.call(make(created.id)) == expected
    assert await backend.call(CountEach([created.id, str(UUID(int=1))], 5.0)) == {created.id: 1}
    found = await backend.call(GetRecords(created.id, columns=("documents", "metadatas")))
    assert (found.ids, found.texts, found.metadatas, found.embeddings) == (["a"], ["a"], [{"n": 1}], None)
    (nearest,) = await backend.call(QueryRecords(created.id, matrix([1.0, 2.0]), 5))
    assert (nearest.ids, nearest.texts, len(nearest.distances)) == (["a"], None, 1)
    looked_up = await backend.call(GetCollection(name))
    assert (looked_up.id, looked_up.metadata, looked_up.dimension) == (created.id, {"a": 2}, 2)
    assert name in [collection.name for collection in await backend.call(ListCollections())]
    count = await backend.call(CountCollections())
    assert (await backend.call(GetStatus())).collections_count == count
    await backend.call(DeleteCollection(name))
    assert await backend.call(CountCollections()) == count - 1


class Recorder(BackendLayer):
    """Records the operations that pass, and concerns only some.

    Args:
        kinds: the operations that it concerns.
    """

    def __init__(self, *kinds: type[Operation[object]]) -> None:
        self.kinds = kinds
        self.passed: list[str] = []
        self.closed = False

    def concerns(self, kind: type[Operation[object]]) -> bool:
        return kind in self.kinds

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        self.passed.append(operation.name)
        return await next_call(operation)

    def close(self) -> None:
        self.closed = True


async def test_a_layer_is_skipped_for_operations_that_it_does_not_concern(backend: Backend) -> None:
    outer, inner = Recorder(CountCollections, GetStatus), Recorder(ListCollections, GetStatus)
    layered = LayeredBackend(backend, [outer, inner])
    for operation in (CountCollections(), ListCollections(), GetStatus(), GetMaxBatchSize()):
        await layered.call(operation)
    assert outer.passed == ["count_collections", "status"]
    assert inner.passed == ["list_collections", "status"]


async def test_layers_are_closed_with_their_backend(location: StoreLocation) -> None:
    layer = Recorder()
    await LayeredBackend(http_backend(location.chroma_url, "operations"), [layer]).close()
    assert layer.closed
