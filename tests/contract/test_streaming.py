"""The contract's section "Streaming": one line per document, and one response line per batch."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator

import httpx
import pytest

from tests.support.documents import (
    NDJSON_HEADERS,
    Document,
    add,
    count_of,
    document,
    document_path,
    documents,
    documents_path,
    lines_of,
)
from tests.support.problems import problem_of
from tests.support.servers import Served
from tests.support.streams import duplex, response_lines, stream, stream_path

pytestmark = pytest.mark.process

MANY = 2500
"""More than two batches."""


def ids_in(http: httpx.Client, collection: str) -> list[str]:
    """The ids of a collection, in insertion order."""
    found: list[str] = []
    while page := http.get(documents_path(collection), params={"limit": 1000, "offset": len(found)}).json()[
        "documents"
    ]:
        found += [one["id"] for one in page]
    return found


# -- stored documents ---------------------------------------------------------------------------


def test_a_streamed_document_is_stored_as_an_added_one_is(http: httpx.Client, collection: str) -> None:
    metadata = {"page": 3, "tags": ["a", "b"], "ratio": 0.5, "draft": None, "Größe": "文 🙂"}
    sent: Document = {"text": "line one\nline two", "embedding": [0.6, 0.8], "metadata": metadata}
    packed = base64.b64encode(struct.pack("<2f", 0.6, 0.8)).decode()
    add(http, collection, {**sent, "id": "added"})

    response_lines(
        stream(http, collection, lines_of({**sent, "id": "numbers"}, {**sent, "id": "packed", "embedding": packed}))
    )

    added, *streamed = (
        http.get(document_path(collection, one), params={"include": "embedding"}).json()
        for one in ("added", "numbers", "packed")
    )
    assert [{**one, "id": "added"} for one in streamed] == [added, added]


def test_every_batch_is_acknowledged_by_a_line_and_the_last_line_has_the_total(
    http: httpx.Client, collection: str
) -> None:
    *stored, done = response_lines(stream(http, collection, lines_of(*documents(MANY))))

    assert stored[0]["first_line"] == 1
    assert [line["first_line"] for line in stored[1:]] == [line["last_line"] + 1 for line in stored[:-1]]
    assert len(stored) > 2
    assert (done["status"], done["collection"], done["count"], done["last_line"]) == ("done", collection, MANY, MANY)
    assert ids_in(http, collection) == [f"doc-{number}" for number in range(MANY)]


def test_a_body_of_unknown_length_is_streamed(http: httpx.Client, collection: str) -> None:
    whole = lines_of(*documents(50))

    def pieces() -> Iterator[bytes]:
        for begin in range(0, len(whole), 37):  # chunks do not end with lines
            yield whole[begin : begin + 37]

    response = http.post(stream_path(collection), content=pieces(), headers=NDJSON_HEADERS)

    assert response_lines(response)[-1]["count"] == 50
    assert ids_in(http, collection) == [f"doc-{number}" for number in range(50)]


def test_a_client_may_read_each_acknowledgement_before_it_sends_more(
    service: Served, http: httpx.Client, collection: str
) -> None:
    with duplex(service.url, collection) as sender:
        for number, one in enumerate(documents(3), start=1):
            sender.send(lines_of(one))
            assert sender.read() == {"status": "stored", "first_line": number, "last_line": number, "count": 1}
            assert count_of(http, collection) == number
        sender.end()
        assert sender.read()["status"] == "done"


def test_a_generated_id_is_the_prefix_and_the_number_of_the_line(http: httpx.Client, collection: str) -> None:
    without = {"text": "x", "embedding": [1, 2]}

    stored, _ = response_lines(
        stream(http, collection, b"\n" + lines_of(without, document("own"), {**without, "id": None}))
    )

    assert len(stored["id_prefix"]) > 16
    assert ids_in(http, collection) == [f"{stored['id_prefix']}2", "own", f"{stored['id_prefix']}4"]


def test_a_stream_whose_documents_have_ids_has_no_prefix(http: httpx.Client, collection: str) -> None:
    assert "id_prefix" not in response_lines(stream(http, collection, lines_of(document("a"))))[0]


@pytest.mark.parametrize("mode", ["add", "upsert"])
def test_a_stream_without_documents_stores_none(http: httpx.Client, collection: str, mode: str) -> None:
    (done,) = response_lines(stream(http, collection, b"\n\r\n", mode))

    assert done == {"status": "done", "collection": collection, "last_line": 0, "count": 0, "batches": 0}


def test_a_document_called_stream_can_be_read(http: httpx.Client, collection: str) -> None:
    response_lines(stream(http, collection, lines_of(document("stream"))))

    assert http.get(document_path(collection, "stream")).json()["id"] == "stream"


# -- lines --------------------------------------------------------------------------------------


def test_the_last_line_needs_no_newline(http: httpx.Client, collection: str) -> None:
    assert response_lines(stream(http, collection, lines_of(*documents(2)).rstrip()))[-1]["count"] == 2


def test_blank_lines_are_ignored_and_counted(http: httpx.Client, collection: str) -> None:
    first, second = (lines_of(one) for one in documents(2))

    stored, _ = response_lines(stream(http, collection, b"\n \t\n" + first + b"\n" + second + b"\n\n"))

    assert (stored["first_line"], stored["last_line"], stored["count"]) == (3, 5, 2)


def test_lines_may_end_as_on_windows(http: httpx.Client, collection: str) -> None:
    assert response_lines(stream(http, collection, lines_of(*documents(2)).replace(b"\n", b"\r\n")))[-1]["count"] == 2


def test_a_byte_order_mark_is_not_json(http: httpx.Client, collection: str) -> None:
    problem = problem_of(stream(http, collection, b"\xef\xbb\xbf" + lines_of(document("a"))), 400)

    assert problem["detail"] == "The line is not valid JSON: line 1"


# -- add and upsert -----------------------------------------------------------------------------


def test_an_existing_id_ends_an_add_and_all_lines_before_its_batch_are_stored(
    http: httpx.Client, collection: str
) -> None:
    add(http, collection, document(f"doc-{MANY - 1}"))

    *stored, failed = response_lines(stream(http, collection, lines_of(*documents(MANY))))

    assert stored
    assert failed["status"] == "failed"
    assert failed["problem"] == {
        "type": "about:blank",
        "title": "Documents exist",
        "status": 409,
        "code": "documents_exist",
        "detail": f"Documents already exist in collection '{collection}': 'doc-{MANY - 1}'",
        "errors": [{"path": "$.id", "message": "This id is taken", "line": MANY}],
    }
    assert ids_in(http, collection)[1:] == [f"doc-{number}" for number in range(failed["last_line"])]


def test_an_existing_id_in_the_first_batch_is_409_and_changes_nothing(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("b"))

    problem = problem_of(stream(http, collection, lines_of(document("a"), document("b"))), 409)

    assert problem["errors"] == [{"path": "$.id", "message": "This id is taken", "line": 2}]
    assert ids_in(http, collection) == ["b"]


def test_an_upsert_replaces_documents_completely(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", text="old", before=1))

    response_lines(stream(http, collection, lines_of(document("a", text="new", after=2)), "upsert"))

    found = http.get(document_path(collection, "a")).json()
    assert found == {"id": "a", "text": "new", "metadata": {"after": 2}}


def test_of_two_lines_with_one_id_the_later_one_is_upserted_last(http: httpx.Client, collection: str) -> None:
    lines = lines_of(document("a", text="first"), document("b"), document("a", text="second"))

    *_, done = response_lines(stream(http, collection, lines, "upsert"))

    assert done["count"] == 3
    assert http.get(document_path(collection, "a")).json()["text"] == "second"


def test_a_repeated_id_ends_an_add(http: httpx.Client, collection: str) -> None:
    lines = lines_of(document("a", text="first"), document("b"), document("a", text="second"), document("c"))

    *_, failed = response_lines(stream(http, collection, lines))

    assert (failed["last_line"], failed["problem"]["status"]) == (2, 409)
    assert failed["problem"]["errors"][0]["line"] == 3
    assert ids_in(http, collection) == ["a", "b"]
    assert http.get(document_path(collection, "a")).json()["text"] == "first"


# -- invalid lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"text": "x"},
        {"text": "x", "embedding": None},
        {"text": "x", "embedding": []},
        {"text": "x", "embedding": "AAA"},
        {"text": "x", "embedding": [1, "2"]},
        {"text": "x", "embedding": [1, 1e39]},
        {"text": "x", "embedding": [1, 2, 3]},
        {"text": "x", "embedding": [1e-30, 0]},
        {"text": 7, "embedding": [1, 2]},
        {"embedding": [1, 2]},
        {"id": "", "text": "x", "embedding": [1, 2]},
        {"id": 7, "text": "x", "embedding": [1, 2]},
        {"text": "x", "embedding": [1, 2], "metadata": {"a": {"b": 1}}},
        {"text": "x", "embedding": [1, 2], "metadata": {"$.documents[0]": [1, "2"]}},
        {"text": "x", "embedding": [1, 2], "metadata": []},
        7,
        [],
        None,
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("taken", [False, True], ids=["empty", "of two dimensions"])
def test_a_bad_document_is_rejected_as_in_any_request_with_the_number_of_its_line(
    http: httpx.Client, collection: str, taken: bool, bad: Document
) -> None:
    if taken:
        add(http, collection, document("kept"))
    posted = problem_of(http.post(documents_path(collection), json={"documents": [document("a"), bad]}), 400)

    problem = problem_of(stream(http, collection, lines_of(document("a")) + b"\n" + lines_of(bad)), 400)

    lines = {"$.documents[0]": 1, "$.documents[1]": 3}
    for path, line in lines.items():
        posted["detail"] = (
            posted["detail"].replace(f" {path}.", f" line {line}, $.").replace(f" {path}", f" line {line}")
        )
    assert problem["detail"] == posted["detail"]
    assert problem["title"] == posted["title"]
    assert [(blamed["line"], blamed["path"]) for blamed in problem["errors"]] == [
        (lines[blamed["path"][:14]], "$" + blamed["path"][14:]) for blamed in posted["errors"]
    ]
    assert count_of(http, collection) == taken


@pytest.mark.parametrize("line", [b"{", b'{"text": "x"', b"\xff", b'{"text": "\xff", "embedding": [1]}', b"NaN"])
def test_a_line_that_is_not_json_is_reported_with_its_number(http: httpx.Client, collection: str, line: bytes) -> None:
    problem = problem_of(stream(http, collection, lines_of(*documents(2)) + line + b"\n"), 400)

    assert problem["detail"] == "The line is not valid JSON: line 3"
    assert problem["errors"] == [{"path": "$", "message": "The line is not valid JSON", "line": 3}]
    assert count_of(http, collection) == 0


def test_a_failed_stream_is_resumed_after_the_last_stored_line(http: httpx.Client, collection: str) -> None:
    sent = [lines_of(one) for one in documents(MANY)]
    broken = [*sent[: MANY - 200], b"{broken}\n", *sent[MANY - 199 :]]

    *stored, failed = response_lines(stream(http, collection, b"".join(broken)))
    assert stored
    assert failed["problem"]["errors"][0]["line"] == MANY - 199
    *_, done = response_lines(stream(http, collection, b"".join(sent[failed["last_line"] :])))

    assert failed["count"] + done["count"] == MANY
    assert ids_in(http, collection) == [f"doc-{number}" for number in range(MANY)]


def test_deleting_the_collection_ends_the_stream(service: Served, http: httpx.Client, new_name: str) -> None:
    http.post("/collections", json={"name": new_name}).raise_for_status()
    with duplex(service.url, new_name) as sender:
        sender.send(lines_of(document("a")))
        sender.read()
        http.delete(f"/collections/{new_name}").raise_for_status()
        sender.send(lines_of(document("b")))
        failed = sender.read()
    assert (failed["last_line"], failed["problem"]["status"]) == (1, 404)


# -- errors before the first batch --------------------------------------------------------------


@pytest.mark.parametrize("absent", ["absent", "a%20b", "x"])
def test_an_unknown_collection_is_404(http: httpx.Client, absent: str) -> None:
    problem_of(stream(http, absent, lines_of(document("a"))), 404)


@pytest.mark.parametrize("mode", ["", "ADD", "replace", "add&mode=x"])
def test_an_unknown_mode_is_400(http: httpx.Client, collection: str, mode: str) -> None:
    problem = problem_of(stream(http, collection, lines_of(document("a")), mode), 400)

    assert problem["errors"][0]["path"] == "$.mode"
    assert count_of(http, collection) == 0


@pytest.mark.parametrize("content_type", ["application/json", "application/msgpack", "text/plain", "x"])
def test_another_media_type_is_415(http: httpx.Client, collection: str, content_type: str) -> None:
    response = http.post(
        stream_path(collection), content=lines_of(document("a")), headers={"Content-Type": content_type}
    )

    problem_of(response, 415)
    assert count_of(http, collection) == 0


@pytest.mark.parametrize("content_type", [None, "application/ndjson", "Application/X-NDJSON; charset=utf-8"])
def test_the_media_type_may_be_absent_or_an_alias(
    http: httpx.Client, collection: str, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}

    assert (
        response_lines(http.post(stream_path(collection), content=lines_of(document("a")), headers=headers))[-1][
            "count"
        ]
        == 1
    )


def test_a_client_that_expects_100_continue_is_rejected_before_it_sends(service: Served) -> None:
    with duplex(service.url, "absent") as sender:
        assert sender.response.status == 404
        assert json.loads(sender.response.read())["detail"] == "Collection 'absent' not found"
