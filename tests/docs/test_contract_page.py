"""docs/contract.md agrees with the code: its calls, its errors, its limits, its operators."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

import pytest

from ragstore import errors
from ragstore.api import decode_documents, parameters, schemas
from ragstore.filters import grammar, where
from ragstore.kit import value_count
from ragstore.kit.errors import error_classes
from ragstore.model import maps, metadata
from ragstore.model.filters import where_document
from ragstore.model.large_bodies import split_documents
from ragstore.operations import list_documents
from ragstore.settings import Settings
from tests.support.pages import ROOT, text_of

PAGE = text_of("docs/contract.md")
DOCUMENT = json.loads((ROOT / "openapi" / "openapi.json").read_text())
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if isinstance(operation, dict) and "operationId" in operation
}

LIMITS = {
    "a request's body": Settings().max_body_bytes // 2**20,
    "a body that stores no documents, such as a query": Settings().max_small_body_bytes // 2**20,
    "a document in a body": split_documents.MAX_DOCUMENT_BYTES // 2**20,
    "a line of a stream; the stream itself has no limit": split_documents.MAX_DOCUMENT_BYTES // 2**20,
    "values of a document, or of a body that stores no documents, also in ignored fields": value_count.MAX_VALUES,
    "documents in a write": Settings().max_batch_size,
    "metadata values of all documents in a write": metadata.MAX_REQUEST_VALUES,
    "characters in the ids of all documents in a write": decode_documents.MAX_REQUEST_ID_CHARACTERS,
    "documents in a page": parameters.MAX_PAGE,
    "matches of a filter, for a page with an offset and a total": list_documents.MAX_MATCHES,
    "ids in a URL": parameters.MAX_URL_IDS,
    "ids in a body": schemas.MAX_IDS,
    "results of a query": schemas.MAX_TOP_K,
    "collections in a query": schemas.MAX_COLLECTIONS,
    "documents on a map": maps.MAX_POINTS,
    "numbers of the embeddings on a map": maps.MAX_NUMBERS,
    "levels of `$and` and `$or`": grammar.MAX_DEPTH,
    "comparisons in a filter": grammar.MAX_CLAUSES,
    "values in a filter's lists": grammar.MAX_VALUES,
    "characters in an operand of `where_document`": where_document.MAX_TEXT,
}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's tables, without their heads."""
    lines = re.findall(r"^\| (.*) \|$", section(title), flags=re.M)
    return [line.split(" | ") for line in lines if "---" not in line]


def calls() -> list[tuple[str, str]]:
    """Every call that a table of the page lists, and what it says of its success."""
    return [
        (row[0].strip("`"), row[-1])
        for title in ("Collections", "Documents", "Queries", "Health")
        for row in rows(title)
        if re.match(r"`[A-Z]+ /", row[0])
    ]


def test_the_calls_are_those_of_the_openapi_document() -> None:
    assert {call for call, _ in calls()} == set(OPERATIONS)


@pytest.mark.parametrize(("call", "success"), calls())
def test_a_call_s_success_is_that_of_the_openapi_document(call: str, success: str) -> None:
    declared = {status for status in OPERATIONS[call]["responses"] if status.startswith("2")}
    told = set(re.findall(r"\b20\d\b", success))
    assert told == declared or (not told and declared == {"200"})


def test_every_error_of_the_tree_is_in_the_table() -> None:
    listed = [tuple(row[:3]) for row in rows("Problems")]
    kinds = [kind for kind in error_classes(*errors.MODULES) if not kind.abstract]
    assert sorted(listed[1:]) == sorted((str(kind.status), f"`{kind.code}`", kind.title) for kind in kinds)


def test_every_status_of_the_openapi_document_is_in_the_table() -> None:
    declared = {status for operation in OPERATIONS.values() for status in operation["responses"]}
    assert {status for status in declared if int(status) >= HTTPStatus.BAD_REQUEST} <= {
        row[0] for row in rows("Problems")
    }


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_the_code_s(what: str) -> None:
    told = {row[0]: row[1] for row in rows("Limits")}[what]
    assert f"{LIMITS[what]:,}" in re.findall(r"[\d,]*\d", told)


def test_every_operator_is_told() -> None:
    for operator in (*where.OPERATORS, *where_document.OPERATORS, "$and", "$or"):
        assert f"`{operator}`" in section("Filters")
