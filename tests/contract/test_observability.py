"""The contract's section "Conventions": request ids, timings, and content that is never disclosed."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.support.documents import document, documents_path
from tests.support.servers import Served

pytestmark = pytest.mark.process

# -- headers ------------------------------------------------------------------------------------


def test_the_request_id_is_echoed(http: httpx.Client) -> None:
    assert http.get("/", headers={"X-Request-ID": "trace:7/a"}).headers["x-request-id"] == "trace:7/a"


def test_a_request_id_is_generated_when_none_is_sent(http: httpx.Client) -> None:
    given = [http.get("/").headers["x-request-id"] for _ in range(2)]

    assert all(given)
    assert given[0] != given[1]


@pytest.mark.parametrize("path", ["/collections/nobody-knows", "/no/such/route"])
def test_errors_carry_the_request_id_too(http: httpx.Client, path: str) -> None:
    assert http.get(path, headers={"X-Request-ID": "trace-8"}).headers["x-request-id"] == "trace-8"


@pytest.mark.parametrize(
    "request_id", ["two words", "x" * 5000, "näh".encode("latin-1")], ids=["space", "long", "latin"]
)
def test_a_request_id_that_is_unfit_for_a_log_line_is_replaced(http: httpx.Client, request_id: bytes) -> None:
    response = http.get("/", headers={b"X-Request-ID": request_id})

    assert response.is_success
    assert re.fullmatch(r"[!-~]{1,128}", response.headers["x-request-id"])


def test_the_request_id_is_in_the_log(http: httpx.Client, service: Served, collection: str) -> None:
    http.get(f"/collections/{collection}", headers={"X-Request-ID": "trace-9"})

    lines = [json.loads(line) for line in logged(http, service, "trace-9").splitlines() if "trace-9" in line]

    assert all(line["request_id"] == "trace-9" for line in lines)
    assert lines[-1]["path"] == f"/collections/{collection}"


def test_server_timing_has_the_time_spent_in_the_store(http: httpx.Client, collection: str) -> None:
    timing = http.get(f"/collections/{collection}").headers["server-timing"]

    match = re.fullmatch(r"store;dur=([\d.]+), total;dur=([\d.]+)", timing)
    assert match is not None
    assert 0 < float(match[1]) <= float(match[2])


def test_server_timing_is_zero_without_a_call_to_the_store(http: httpx.Client) -> None:
    assert http.get("/health/live").headers["server-timing"].startswith("store;dur=0.00,")


def test_server_timing_of_a_write_has_the_age_of_the_last_query(http: httpx.Client, collection: str) -> None:
    document = {"id": "a", "text": "Green tea", "embedding": [1.0, 0.0, 0.0]}
    http.put(f"/collections/{collection}/documents", json={"documents": [document]}).raise_for_status()
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1.0, 0.0, 0.0]}).raise_for_status()
    written = http.put(f"/collections/{collection}/documents", json={"documents": [document]})

    match = re.fullmatch(
        r"store;dur=[\d.]+, total;dur=[\d.]+, query-age;dur=([\d.]+)", written.headers["server-timing"]
    )
    assert match is not None
    assert 0 <= float(match[1]) < 60_000


# -- content that is never disclosed ------------------------------------------------------------

SECRET = "Zweig-5521"
SECRET_NUMBER = 7316.40625
"""Longer than any digits of a timestamp that could equal it by chance."""


def logged(http: httpx.Client, service: Served, request_id: str) -> str:
    """The service's log with the line of a request, which is written after the response is sent."""
    for _ in range(200):
        text = service.log.read_text()
        if request_id in text:
            return text
        http.get("/health/live")
    raise AssertionError(f"no line about {request_id}")


def work_with_secrets(http: httpx.Client, collection: str) -> list[httpx.Response]:
    """Send valid and invalid requests with secrets in every field, and return the error responses."""
    good = document("a", text=SECRET, embedding=[1, SECRET_NUMBER], text_preview=SECRET, secret=SECRET, parts=[SECRET])
    path, query = documents_path(collection), f"/collections/{collection}/query"
    return [
        http.post(path, json={"documents": [good]}),
        http.put(path, json={"documents": [good]}),
        http.post(path, json={"documents": [good]}),
        http.get(path, params={"where": json.dumps({"secret": SECRET}), "include": "embedding"}),
        http.post(query, json={"query_embedding": [1, SECRET_NUMBER], "where": {"secret": SECRET}}),
        http.post(path, json={"documents": [{**good, "id": "b", "embedding": [1, 2, SECRET_NUMBER]}]}),
        http.post(path, json={"documents": [{**good, "id": "b", "embedding": [SECRET_NUMBER, SECRET]}]}),
        http.post(path, json={"documents": [{**good, "id": "b", "text": [SECRET]}]}),
        http.post(path, json={"documents": [{**good, "id": "b", "metadata": {"a": {"b": SECRET}}}]}),
        http.post(path, json={"documents": [{**good, "id": "b", "metadata": {"a": [SECRET, 1]}}]}),
        http.post(path, content=json.dumps({"documents": [good]})[:-3]),
        http.get(path, params={"where": json.dumps({"secret": {"$gt": SECRET}})}),
        http.get(path, params={"where": json.dumps({"secret": {"$in": [SECRET, SECRET_NUMBER]}})}),
        http.get(path, params={"where": SECRET}),
        http.get(path, params={"where_document": json.dumps({"$regex": f"({SECRET}"})}),
        http.post(query, json={"query_embedding": [1, 2, SECRET_NUMBER]}),
        http.post(query, json={"query_embedding": [SECRET_NUMBER, SECRET]}),
        http.put(f"/collections/{collection}/metadata", json={"metadata": {"secret": [SECRET]}}),
        http.put(f"/collections/{collection}/metadata", json={"metadata": {"secret": SECRET}}),
    ]


def test_no_log_line_holds_a_text_a_metadata_value_or_an_embedding(
    http: httpx.Client, service: Served, collection: str
) -> None:
    work_with_secrets(http, collection)
    http.get("/", headers={"X-Request-ID": f"after-{collection}"})

    text = logged(http, service, f"after-{collection}")

    assert SECRET not in text
    assert str(SECRET_NUMBER) not in text


def test_no_metric_holds_a_text_a_metadata_value_or_an_embedding(http: httpx.Client, collection: str) -> None:
    work_with_secrets(http, collection)

    text = http.get("/metrics").text

    assert "ragstore_requests_total" in text
    assert SECRET not in text
    assert str(SECRET_NUMBER) not in text


def test_no_error_holds_a_text_a_metadata_value_or_an_embedding(http: httpx.Client, collection: str) -> None:
    errors = [response.text for response in work_with_secrets(http, collection) if response.is_error]

    assert len(errors) == 14
    assert not [text for text in errors if SECRET in text or str(SECRET_NUMBER) in text]
