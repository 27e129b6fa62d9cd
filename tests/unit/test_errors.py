"""The tree of errors, their codes and details."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import ragstore
from ragstore import errors
from ragstore.errors import ChromaUnavailable, CollectionExists, CollectionNotFound, DocumentNotFound, DocumentsExist
from ragstore.kit.errors import FieldError, InvalidRequest, JsonPath, ServiceError, error_classes

_LINE = re.compile(r"^ {4}((?:│ {3}| {4})*)(?:[├└]── )?(\w+)(?: +(\d{3})(, with Retry-After)?)?$")


def _drawn() -> list[tuple[int, str, int | None, bool]]:
    """The lines of the drawing: depth, name, status, whether Retry-After is sent."""
    lines = []
    for line in (errors.__doc__ or "").splitlines():
        if found := _LINE.match(line):
            branch = 0 if "── " not in line else 1
            lines.append((len(found[1]) // 4 + branch, found[2], int(found[3]) if found[3] else None, bool(found[4])))
    return lines


def _classes() -> Iterator[tuple[int, type[ServiceError]]]:
    for kind in error_classes(*errors.MODULES):
        yield kind.__mro__.index(ServiceError), kind


def test_the_drawing_in_the_docstring_is_the_tree_of_classes() -> None:
    assert [(depth, name) for depth, name, _, _ in _drawn()] == [(depth, kind.__name__) for depth, kind in _classes()]


def test_the_drawing_tells_the_statuses() -> None:
    drawn = {name: status for _, name, status, _ in _drawn() if status is not None}
    assert drawn == {kind.__name__: kind.status for _, kind in _classes() if kind.__name__ in drawn}
    assert {"InvalidRequest", "NotFound", "Conflict", "ChromaFailed", "ChromaTimeout"} <= set(drawn)


def test_the_drawing_tells_which_errors_say_when_to_try_again() -> None:
    drawn = {name for _, name, _, waits in _drawn() if waits}
    assert drawn == {kind.__name__ for _, kind in _classes() if kind.retry_after is not None}
    assert "ChromaUnavailable" in drawn


@pytest.mark.parametrize("kind", [kind for _, kind in _classes()], ids=lambda kind: str(kind.__name__))
def test_every_error_has_a_status_a_title_and_a_docstring(kind: type[ServiceError]) -> None:
    assert 400 <= kind.status < 600
    assert kind.title
    assert kind.__doc__


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for _, kind in _classes()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", code) for code in codes)


def test_the_codes_are_those_of_the_errors_that_are_raised() -> None:
    assert list(errors.CODES) == sorted(kind.code for _, kind in _classes() if not kind.abstract)
    assert {"internal_error", "batch_too_large", "method_not_allowed", "invalid_http"} <= set(errors.CODES)
    assert "chroma_error" not in errors.CODES


def test_errors_that_are_defined_elsewhere_have_the_code_of_their_public_parent() -> None:
    modules = {
        module.name for module in pkgutil.walk_packages(ragstore.__path__, "ragstore.") if "__main__" not in module.name
    }
    for module in modules:
        importlib.import_module(module)
    elsewhere = set(error_classes(*modules)) - {kind for _, kind in _classes()}
    assert {kind.code for kind in elsewhere} == {"chroma_failed", "chroma_unavailable"}


def test_a_detail_may_name_paths_that_can_be_replaced() -> None:
    error = InvalidRequest.at("$.a", "is wrong")
    assert [part for part in error.parts if isinstance(part, JsonPath)] == ["$.a"]
    assert error.with_detail("other", ()).detail == "other"
    assert str(error) == "is wrong: $.a"


def test_an_error_keeps_its_detail_and_the_fields_to_blame() -> None:
    problems = [FieldError("$.a", "is wrong"), FieldError("$.b", "too")]
    error = InvalidRequest("Both are wrong", problems)
    assert (str(error), error.detail, error.field_errors) == ("Both are wrong", "Both are wrong", tuple(problems))
    assert ServiceError("x").field_errors == ()


def test_an_error_can_blame_one_field() -> None:
    error = InvalidRequest.at("$.documents[3].id", "An id must not be empty")
    assert error.detail == "An id must not be empty: $.documents[3].id"
    assert error.field_errors == (FieldError("$.documents[3].id", "An id must not be empty"),)


def test_the_details_of_the_contract_are_to_the_letter() -> None:
    assert CollectionNotFound("some").detail == "Collection 'some' not found"
    assert CollectionExists("some").detail == "Collection 'some' already exists"
    assert DocumentNotFound("some", "a/b").detail == "Document 'a/b' not found in collection 'some'"
    assert DocumentsExist("some", ["a", "b"]).detail == "Documents already exist in collection 'some': 'a', 'b'"


def test_many_taken_ids_are_all_kept_and_some_named() -> None:
    ids = [f"id{index}" for index in range(25)]
    error = DocumentsExist("some", ids)
    assert error.ids == tuple(ids)
    assert error.detail.endswith("'id19' and 5 more")


def test_chroma_away_says_when_to_try_again() -> None:
    assert ChromaUnavailable("x").retry_after == 1
