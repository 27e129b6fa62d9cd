"""The rules for metadata and for collections' names."""

from __future__ import annotations

import pytest

from ragstore.errors import CollectionNotFound, InvalidMetadata, InvalidName
from ragstore.filters.values import Scalar, is_reserved
from ragstore.model.metadata import (
    NewMetadataValue,
    validate_collection_metadata,
    validate_document_metadata,
    without_nulls,
)
from ragstore.model.names import NAME_RULES, is_name, validate_name, validate_new_name

SCALARS: list[Scalar] = ["", "é\x00", 0, 2**63 - 1, -(2**63), 0.0, -1.5, 1e300, True, False]
NOT_STORABLE: list[tuple[NewMetadataValue, str]] = [
    (2**63, "A metadata integer must fit in 64 bits"),
    (-(2**63) - 1, "A metadata integer must fit in 64 bits"),
    (10**400, "A metadata integer must fit in 64 bits"),
    (float("nan"), "A metadata number must be finite"),
    (float("inf"), "A metadata number must be finite"),
    (float("-inf"), "A metadata number must be finite"),
]


@pytest.mark.parametrize("value", SCALARS)
def test_scalars_are_stored_as_they_are(value: Scalar) -> None:
    stored = validate_document_metadata({"a": value}, "$.metadata")["a"]
    assert stored == value
    assert type(stored) is type(value)
    assert validate_collection_metadata({"a": value}, "$.metadata") == {"a": value}


@pytest.mark.parametrize("value", [["a"], ["a", "b", "a"], [1, 2], [1.5], [True, False], [2**63 - 1]])
def test_lists_of_one_type_are_stored_as_they_are(value: list[Scalar]) -> None:
    assert validate_document_metadata({"a": value}, "$.metadata") == {"a": value}


def test_lists_of_whole_and_other_numbers_become_lists_of_floats() -> None:
    given: dict[str, NewMetadataValue] = {"a": [1, 2.5]}
    stored = validate_document_metadata(given, "$.metadata")["a"]
    assert isinstance(stored, list)
    assert [(type(member), member) for member in stored] == [(float, 1.0), (float, 2.5)]


@pytest.mark.parametrize("given", [None, {}, {"a": None}, {"a": None, "#reserved": None}])
def test_null_means_absent_in_a_document(given: dict[str, NewMetadataValue] | None) -> None:
    assert validate_document_metadata(given, "$.metadata") == {}


def test_null_stays_in_a_collections_metadata_until_it_is_stored() -> None:
    given: dict[str, Scalar | None] = {"a": None, "b": 1}
    assert validate_collection_metadata(given, "$.metadata") == given
    assert without_nulls(given) == {"b": 1}


@pytest.mark.parametrize(("value", "message"), NOT_STORABLE)
def test_a_number_that_cannot_be_stored_is_refused_with_its_place(value: NewMetadataValue, message: str) -> None:
    with pytest.raises(InvalidMetadata) as refused:
        validate_document_metadata({"ok": 1, "bad": value}, "$.documents[2].metadata")
    assert refused.value.detail == f"{message}: $.documents[2].metadata.bad"
    assert refused.value.field_errors[0].path == "$.documents[2].metadata.bad"


@pytest.mark.parametrize(("value", "message"), NOT_STORABLE)
def test_a_number_that_cannot_be_stored_is_refused_in_a_list_and_in_a_collection(value: Scalar, message: str) -> None:
    with pytest.raises(InvalidMetadata, match=message) as refused:
        validate_document_metadata({"bad": [value]}, "$.metadata")
    assert refused.value.field_errors[0].path == "$.metadata.bad[0]"
    with pytest.raises(InvalidMetadata, match=message):
        validate_collection_metadata({"bad": value}, "$.metadata")


@pytest.mark.parametrize("value", [["a", 1], [True, 1], [1.5, False], ["a", None]])
def test_a_list_of_several_types_is_refused(value: list[Scalar]) -> None:
    with pytest.raises(InvalidMetadata, match="A metadata list must hold values of one type"):
        validate_document_metadata({"a": value}, "$.metadata")


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match="A metadata list must not be empty"):
        validate_document_metadata({"a": []}, "$.metadata")


@pytest.mark.parametrize("key", ["", "chroma:document", "chroma:", "#", "#id", "$and", "$"])
def test_a_reserved_key_is_refused(key: str) -> None:
    assert is_reserved(key)
    with pytest.raises(InvalidMetadata, match="A metadata key must not"):
        validate_document_metadata({key: 1}, "$.metadata")
    with pytest.raises(InvalidMetadata, match="A metadata key must not"):
        validate_collection_metadata({key: 1}, "$.metadata")


@pytest.mark.parametrize("key", ["a", " ", "chroma", "a#", "a.b", "é", "hnsw:space", "a$b", "\x00", "Chroma:x"])
def test_other_keys_are_taken(key: str) -> None:
    assert validate_document_metadata({key: 1}, "$.metadata") == {key: 1}


@pytest.mark.parametrize("name", ["abc", "a-b", "a_b.c", "A1z", "1.2.3", "1.2.3.4.5", "x" * 512, "0-0", "1.2.3.4a"])
def test_names_by_chromas_rules_are_taken(name: str) -> None:
    assert is_name(name)
    assert validate_new_name(name) == validate_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "x" * 513,
        "-ab",
        "ab-",
        ".ab",
        "a..b",
        "a b",
        "a/b",
        "é12",
        "abc\n",
        "1.2.3.4",
        "255.255.255.255",
        "a\x00b",
    ],
)
def test_other_names_are_refused_with_the_rules_and_are_nobodys(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidName) as refused:
        validate_new_name(name)
    assert (refused.value.detail, refused.value.field_errors[0].path) == (NAME_RULES, "$.name")
    with pytest.raises(CollectionNotFound):
        validate_name(name)
