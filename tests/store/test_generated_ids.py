"""Adds of documents whose ids are random UUIDs of the service: only ids of callers are looked up and read back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeVar

import msgspec
import pytest

from ragstore.api.decode_documents import DocumentsBody, DocumentsDecoder
from ragstore.chroma.http.backend import HttpBackend
from ragstore.chroma.operations import AddRecords, GetWriteTokens, Operation
from ragstore.errors import DocumentsExist
from ragstore.kit.decoding import JSON, MSGPACK
from ragstore.model.documents import EVERYTHING, Batch
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch
from tests.support.stores import TENANT, StoreLocation, exact

T = TypeVar("T")


class SpyServer(HttpBackend):
    """A Chroma server whose calls are recorded.

    Attributes:
        operations: the operations on documents so far.
        before_add: another store that adds a document of this id right before the next add, if both are set.
    """

    operations: list[Operation[object]]
    before_add: tuple[Store, str, str] | None = None

    async def call(self, operation: Operation[T]) -> T:
        if isinstance(operation, AddRecords | GetWriteTokens):
            self.operations.append(operation)
        if isinstance(operation, AddRecords) and self.before_add is not None:
            (other, name, document_id), self.before_add = self.before_add, None
            await add_documents(other, name, batch(document_id, text="of the other"))
        return await super().call(operation)


@pytest.fixture(scope="module")
async def spy(location: StoreLocation) -> AsyncIterator[SpyServer]:
    """A Chroma server whose calls are recorded."""
    backend = SpyServer(location.chroma_url, TENANT, location.database, headers={}, timeout=30.0, connections=4)
    backend.operations = []
    await backend.start()
    yield backend
    await backend.close()


@pytest.fixture
async def collection(spy: SpyServer, name: str) -> AsyncIterator[str]:
    """A collection with one document."""
    await exact(spy).create_collection(name, {}, "l2")
    await add_documents(exact(spy), name, batch("first"))
    spy.operations.clear()
    yield name
    await exact(spy).delete_collection(name)


def _generated(documents: Batch, *ids: str) -> Batch:
    return replace(documents, unique_ids=frozenset(ids))


@pytest.mark.parametrize("ids", [["a"], ["a", "b", "c"]], ids=["one", "several"])
async def test_documents_with_generated_ids_are_added_by_one_call(
    spy: SpyServer, collection: str, ids: list[str]
) -> None:
    await add_documents(exact(spy), collection, _generated(batch(*ids), *ids))
    assert [type(operation) for operation in spy.operations] == [AddRecords]
    assert (await exact(spy).get(collection, EVERYTHING)).ids == ["first", *ids]


async def test_only_ids_of_the_caller_are_looked_up_and_read_back(spy: SpyServer, collection: str) -> None:
    await add_documents(exact(spy), collection, _generated(batch("a", "b", "c"), "b"))
    assert [operation.ids for operation in spy.operations if isinstance(operation, GetWriteTokens)] == [["a", "c"]] * 2


async def test_an_add_that_loses_its_id_to_another_replica_leaves_no_document_with_a_generated_id(
    spy: SpyServer, collection: str
) -> None:
    spy.before_add = exact(spy), collection, "a"
    with pytest.raises(DocumentsExist) as rejected:
        await add_documents(exact(spy), collection, _generated(batch("b", "a"), "b"))
    assert rejected.value.ids == ("a",)
    found = await exact(spy).get(collection, EVERYTHING)
    assert (found.ids, found.texts[1]) == (["first", "a"], "of the other")


@pytest.mark.parametrize("format_", [JSON, MSGPACK])
async def test_a_document_without_an_id_gets_a_unique_one(format_: str) -> None:
    encode = msgspec.json.encode if format_ == JSON else msgspec.msgpack.encode
    documents = [{"text": "", "embedding": [1.0], **given} for given in ({}, {"id": "a"}, {"id": None})]
    decoder = DocumentsDecoder(10)
    decoded = (await decoder.decode_body(DocumentsBody(encode({"documents": documents}), format_))).batch()
    assert decoded.ids[1] == "a"
    assert decoded.unique_ids == {decoded.ids[0], decoded.ids[2]}


async def test_a_numbered_id_of_a_stream_is_not_unique() -> None:
    """A caller that has seen one can send the next one itself."""
    line = msgspec.json.encode({"text": "", "embedding": [1.0]})
    decoded = (await DocumentsDecoder(10).decode_lines([line], lambda index: f"stream-{index}")).batch()
    assert (decoded.ids, decoded.unique_ids) == (["stream-0"], frozenset())
