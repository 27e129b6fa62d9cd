"""Metadata of documents."""

from __future__ import annotations

import random

import pytest
from chromadb.api import ClientAPI
from chromadb.errors import ChromaError, InternalError, InvalidArgumentError

from tests.chroma_quirks.bare import get_collection, new_collection, new_name
from tests.chroma_quirks.quirk import Quirk, shows


@shows(
    Quirk(
        name="no-null-in-an-add",
        summary="A null in the metadata of an `add` is rejected with a message that does not mention nulls.",
        workaround="A null means absent, and is removed before the write.",
        works_around=("ragstore.model.metadata:validate_document_metadata",),
        upstream="#5260: Problem with nullable metadata fields",
    )
)
def test_a_null_in_the_metadata_of_an_add_is_refused(client: ClientAPI) -> None:
    collection = new_collection(client)
    with pytest.raises((ChromaError, TypeError), match="MetadataValue"):
        collection.add(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"none": None}])
    assert collection.count() == 0


@shows(
    Quirk(
        name="empty-metadata-is-none",
        summary="The Python client rejects an empty metadata; a document without any comes back with null.",
        workaround="An empty metadata is sent as null, and null comes back as `{}`.",
        works_around=("ragstore.chroma.merging:upsert_metadata", "ragstore.chroma.records:to_metadatas"),
        upstream="#699: Fix empty metadata, partial updates (merged pull request: intended)",
    )
)
def test_empty_metadata_is_refused_and_comes_back_as_none(client: ClientAPI) -> None:
    collection = new_collection(client)
    with pytest.raises(ValueError, match="non-empty dict"):
        collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{}])
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]])
    assert collection.get()["metadatas"] == [None]


@shows(
    Quirk(
        name="numbers-that-are-not-finite-vanish",
        summary="Embedded Chroma accepts infinity and NaN as metadata values and drops them silently.",
        workaround="400 that names the path.",
        works_around=("ragstore.model.metadata:_check_scalar",),
        upstream="#7751: Non-finite float metadata (inf/nan) is silently accepted and then dropped",
        stores=("embedded",),
    )
)
@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_a_metadata_number_that_is_not_finite_vanishes(client: ClientAPI, number: float) -> None:
    collection = new_collection(client)
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"number": number, "other": 1}])
    assert collection.get()["metadatas"] == [{"other": 1}]


@shows(
    Quirk(
        name="large-integers-become-floats",
        summary="An integer beyond 64 bits is stored as a float without an error.",
        workaround="400 that names the path.",
        works_around=("ragstore.model.metadata:_check_scalar",),
    )
)
def test_an_integer_beyond_64_bits_becomes_a_float(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"number": 2**63}])
    (metadata,) = collection.get()["metadatas"] or [None]
    assert metadata is not None
    assert isinstance(metadata["number"], float)


@shows(
    Quirk(
        name="floats-of-many-digits-change",
        summary=(
            "Of metadata floats of 16 or 17 digits, one in ten comes back with its last bit changed. Floats of 15 "
            "digits come back as they were."
        ),
        workaround="A filter that has such a float is left to Chroma, so that it means the same for all documents.",
        works_around=("ragstore.store.filter_planning:_is_exact",),
        upstream="#7755: Preserve float metadata precision (merged pull request, not in 1.5.9)",
    )
)
def test_one_metadata_float_in_ten_comes_back_changed(client: ClientAPI) -> None:
    drawn = random.Random(1)
    many = {str(number): drawn.random() for number in range(1000)}
    few = {str(number): round(drawn.random(), 15) for number in range(1000, 2000)}
    collection = new_collection(client)
    collection.upsert(
        ids=[*many, *few],
        embeddings=[[1.0, 0.0]] * 2000,
        metadatas=[{"number": one} for one in [*many.values(), *few.values()]],
    )
    found = collection.get()
    stored = {
        key: (metadata or {}).get("number")
        for key, metadata in zip(found["ids"], found["metadatas"] or [], strict=True)
    }
    assert 50 <= sum(stored[key] != number for key, number in many.items()) <= 200
    assert all(stored[key] == number for key, number in few.items())


@shows(
    Quirk(
        name="lists-of-one-type",
        summary="A metadata list must not be empty, and integers and floats must not be mixed in one list.",
        workaround="An empty list is 400; a list of integers and floats is stored as floats.",
        works_around=("ragstore.model.metadata:_validated_list",),
        upstream="#6501: Allow empty arrays in metadata (closed)",
    )
)
@pytest.mark.parametrize("values", [[], [1, 2.5]])
def test_a_list_that_is_empty_or_has_two_kinds_of_numbers_is_refused(client: ClientAPI, values: list[float]) -> None:
    with pytest.raises(ValueError, match="Expected metadata list value"):
        new_collection(client).upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"numbers": values}])


@shows(
    Quirk(
        name="reserved-keys",
        summary=(
            "Metadata keys that are empty or begin with `#` or `$` are rejected by a message that does not name "
            "them; keys that begin with `chroma:` are accepted, and do not come back."
        ),
        workaround="400 that names the key.",
        works_around=("ragstore.filters.values:is_reserved",),
        upstream="#1717: `chroma:document` as metadata key",
    )
)
def test_reserved_keys_are_refused_or_lost(client: ClientAPI) -> None:
    collection = new_collection(client)
    for key in ("", "#key", "$key"):
        with pytest.raises(InvalidArgumentError, match="Invalid metadata at index 0"):
            collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{key: 1}])
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]], metadatas=[{"chroma:key": 1}])
    assert collection.get()["metadatas"] == [{}]
    assert collection.get(where={"chroma:key": 1})["ids"] == ["a"]


@shows(
    Quirk(
        name="too-many-metadata-values",
        summary=(
            "A document with more than 5,461 metadata values, with each item of a list counted, fails its write "
            "and every later read and write of that collection. Only deleting the collection helps."
        ),
        workaround=(
            "A document has at most 5,000 metadata values. The error of a damaged collection names the remedy, and "
            "chroma-repair removes what cannot be applied."
        ),
        works_around=("ragstore.model.metadata:validate_document_metadata",),
        upstream=(
            "#5366: Error in compaction: Failed to apply logs to the metadata segment (the same error; its cause is "
            "not known there)"
        ),
    )
)
@pytest.mark.parametrize("kind", ["a list", "keys"])
def test_a_document_with_too_many_metadata_values_makes_its_collection_unusable(client: ClientAPI, kind: str) -> None:
    def write(name: str, count: int) -> None:
        values = (
            {"list": [str(one) for one in range(count)]}
            if kind == "a list"
            else dict.fromkeys(map(str, range(count)), 1)
        )
        get_collection(client, name).upsert(ids=[f"of {count}"], embeddings=[[1.0, 0.0]], metadatas=[values])

    name = new_name()
    collection = new_collection(client, name=name)
    write(name, 5400)
    with pytest.raises(InternalError, match="Failed to apply logs to the metadata segment"):
        write(name, 5500)
    with pytest.raises(InternalError):
        collection.upsert(ids=["innocent"], embeddings=[[1.0, 0.0]])
    with pytest.raises(InternalError):
        collection.get(limit=1)
    with pytest.raises(InternalError):
        collection.delete(ids=["of 5500"])
    client.delete_collection(name)


@shows(
    Quirk(
        name="lists-outlive-their-collection",
        summary=(
            "Deleting a collection leaves the list metadata of its documents behind. Later documents, of any "
            "collection, have it."
        ),
        workaround="Documents whose metadata has lists are deleted before their collection.",
        works_around=("ragstore.chroma.chroma_store:_delete_lists",),
        upstream=(
            "#7594: `delete_collection` leaves list-valued metadata behind, which reappears on records written to "
            "the next collection"
        ),
    )
)
def test_lists_of_a_deleted_collection_appear_in_later_documents(client: ClientAPI) -> None:
    ids = [str(number) for number in range(5)]
    deleted = new_collection(client)
    deleted.add(ids=ids, embeddings=[[1.0, 0.0]] * 5, metadatas=[{"secret": [key]} for key in ids])
    client.delete_collection(deleted.name)
    collection = new_collection(client)
    collection.add(ids=ids, embeddings=[[1.0, 0.0]] * 5, metadatas=[{"own": 1}] * 5)
    metadatas = collection.get()["metadatas"] or []
    # Deleting the documents deletes what they took over, so that no other test finds it.
    collection.delete(ids=ids)
    assert any("secret" in (metadata or {}) for metadata in metadatas)


@shows(
    Quirk(
        name="lone-surrogates",
        summary=(
            "In embedded Chroma a text with a lone surrogate raises `UnicodeEncodeError`, which is no `ChromaError`."
        ),
        workaround="Such text is 400; every exception of embedded Chroma is converted to an error of ragstore.",
        works_around=("ragstore.chroma.embedded.process:_translates_errors",),
        stores=("embedded",),
    )
)
def test_a_lone_surrogate_is_no_error_of_chromas(client: ClientAPI) -> None:
    with pytest.raises(UnicodeEncodeError):
        new_collection(client).upsert(ids=["a"], embeddings=[[1.0, 0.0]], documents=["\ud800"])


@shows(
    Quirk(
        name="no-text-is-none",
        summary="A document that was written without a text comes back with null, where others have a string.",
        workaround="Null comes back as the empty text.",
        works_around=("ragstore.chroma.records:to_texts",),
    )
)
def test_a_document_without_text_comes_back_with_none(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.upsert(ids=["a"], embeddings=[[1.0, 0.0]])
    assert collection.get()["documents"] == [None]
