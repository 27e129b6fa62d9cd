"""Writes and deletes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from chromadb.api import ClientAPI
from chromadb.errors import ChromaError, InvalidArgumentError

from tests.chroma_quirks.bare import get_collection, new_collection, new_name
from tests.chroma_quirks.quirk import Quirk, shows


@shows(
    Quirk(
        name="add-skips-taken-ids",
        summary=(
            "`add` with an id that is taken reports success and does not store the document, nor say which it skipped."
        ),
        workaround=(
            "409 that names the ids. Ids are looked up before an add of several; an add writes a token into `uris` "
            "and reads it back to learn which documents it wrote."
        ),
        works_around=(
            "ragstore.chroma.adding:add",
            "ragstore.chroma.adding:_existing",
            "ragstore.chroma.http.backend:_add_records",
        ),
        upstream="#1062: ValueError is not raised when adding a document with an existing id (closed)",
    )
)
def test_an_add_skips_ids_that_are_taken_without_an_error(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.add(ids=["a"], embeddings=[[1.0, 0.0]], documents=["first"])
    collection.add(ids=["a", "b"], embeddings=[[0.0, 1.0], [1.0, 1.0]], documents=["second", "other"])
    found = collection.get()
    assert found["ids"] == ["a", "b"]
    assert found["documents"] == ["first", "other"]


@shows(
    Quirk(
        name="upsert-merges-metadata",
        summary=(
            "`upsert` merges metadata: keys that the new document does not have stay, unless they are named as null."
        ),
        workaround="The stored metadata is read first, and the keys to remove are named as null. The process of "
        "embedded Chroma reads and writes up to 64 new documents with one call.",
        works_around=("ragstore.chroma.merging:upsert_metadata", "ragstore.chroma.upserting:upsert"),
        upstream="#699: Fix empty metadata, partial updates (merged pull request: merging is intended)",
    )
)
def test_an_upsert_keeps_metadata_of_the_document_that_it_replaces(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"old": 1, "both": 1}])
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"both": 2}])
    assert collection.get()["metadatas"] == [{"old": 1, "both": 2}]


@shows(
    Quirk(
        name="delete-counts-absent-ids",
        summary="`delete` by ids reports the number of ids it was given, whether or not they exist.",
        workaround="The ids that exist are looked up first; they alone are deleted and counted.",
        works_around=("ragstore.chroma.chroma_store:delete",),
        upstream="#7772: delete(ids=...) returns the number of IDs passed, not the number actually deleted",
    )
)
def test_a_delete_counts_ids_that_do_not_exist(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.add(ids=["a"], embeddings=[[1.0, 0.0]])
    assert collection.delete(ids=["a", "absent", "absent too"]) == {"deleted": 3}


@shows(
    Quirk(
        name="last-of-duplicate-ids-wins",
        summary="The server accepts a write that has an id twice, and stores the last document of that id.",
        workaround="400 that names the id and its path.",
        works_around=("ragstore.api.decode_documents",),
        stores=("server",),
    )
)
def test_of_two_documents_with_one_id_in_one_write_the_last_is_stored(client: ClientAPI, http: httpx.Client) -> None:
    collection = new_collection(client)
    written = http.post(
        f"/collections/{collection.id}/upsert", json={"ids": ["a", "a"], "embeddings": [[1, 0], [0, 1]]}
    )
    assert written.status_code == 200
    found = collection.get(include=["embeddings"])["embeddings"]
    assert found is not None
    assert [list(row) for row in found] == [[0.0, 1.0]]


@shows(
    Quirk(
        name="largest-write",
        summary="A write takes 5,461 records at most: SQLite's 32,766 variables, 6 for each record.",
        workaround="A larger request is 400, since one write is one transaction; merged writes stay below.",
        works_around=("ragstore.chroma.validation", "ragstore.chroma.chroma_store:_write"),
        upstream="#1049: Cannot submit more than 41,666 embeddings at once",
    )
)
def test_a_write_takes_5461_records_and_no_more(client: ClientAPI) -> None:
    assert client.get_max_batch_size() == 5461
    collection = new_collection(client)
    with pytest.raises((ChromaError, ValueError), match=r"max(imum)? batch size"):
        collection.upsert(ids=[str(number) for number in range(5462)], embeddings=[[1.0, 0.0]] * 5462)
    assert collection.count() == 0


@shows(
    Quirk(
        name="unusable-numbers-without-a-path",
        summary=(
            "An embedding with NaN, infinity or a number beyond float32 is rejected for the whole batch, by a "
            "message that does not name the document."
        ),
        workaround="Numbers are checked while they are decoded; the error names `$.documents[3].embedding[7]`.",
        works_around=("ragstore.model.vectors", "ragstore.api.decode_documents"),
    )
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1e39])
def test_an_unusable_number_is_refused_without_the_name_of_its_document(client: ClientAPI, number: float) -> None:
    collection = new_collection(client)
    with pytest.raises(InvalidArgumentError) as refused:
        collection.upsert(ids=["good", "fourth"], embeddings=[[1.0, 0.0], [0.0, number]])
    assert "NaN or Infinity" in str(refused.value) or "Non-finite float value" in str(refused.value)
    assert "fourth" not in str(refused.value)
    assert collection.count() == 0


@shows(
    Quirk(
        name="largest-body",
        summary="The server rejects bodies above 40 MiB with 413.",
        workaround="None yet: batches of large embeddings that are within ragstore's own limit fail.",
        works_around=(),
        upstream='#5192: 413 "Payload too large" at Chroma docker (closed)',
        stores=("server",),
    )
)
def test_a_body_above_40_mib_is_refused(client: ClientAPI, http: httpx.Client) -> None:
    collection = new_collection(client)
    below = http.post(f"/collections/{collection.id}/get", json={"ids": ["x" * 40_000_000]})
    above = http.post(f"/collections/{collection.id}/get", json={"ids": ["x" * 42_000_000]})
    assert (below.status_code, above.status_code) == (200, 413)


RACES = 300


@shows(
    Quirk(
        name="two-first-dimensions",
        summary=(
            "Of two concurrent first writes with embeddings of different dimensions the server accepts both, and "
            "cuts or pads the embeddings of one."
        ),
        workaround="Within one replica, writes to a collection are serialised. Across replicas there is no workaround.",
        works_around=(),
        stores=("server",),
    )
)
def test_two_concurrent_first_writes_of_different_dimensions_are_both_accepted(client: ClientAPI) -> None:
    def write(name: str, embedding: list[float]) -> bool:
        try:
            get_collection(client, name).upsert(ids=[str(len(embedding))], embeddings=[embedding])
        except InvalidArgumentError:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        for _ in range(RACES):
            name = new_name()
            new_collection(client, name=name)
            if all(threads.map(write, [name, name], [[2.0, 2.0], [3.0, 3.0, 3.0]])):
                return
    pytest.fail(f"In {RACES} races never were both accepted")
