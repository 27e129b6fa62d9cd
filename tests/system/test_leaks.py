"""What documents hold, what is asked and who asks leave the service by its answers only.

A service at its most talkative is driven through every route with values that stand nowhere else, also wrongly and with
Chroma away; then its log and its metrics are searched for them.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest

from tests.support.keyed_services import Guarded, Wanted, eventually, guarded
from tests.support.servers import running, start_chroma

TEXT: Final = "Canary-Text-8841"
VALUE: Final = "Canary-Value-6273"
FILTER: Final = "Canary-Filter-1159"
KEY: Final = "rsk_Canary-Key-3390"
NUMBERS: Final = (7382.9125, 5149.3725, 62917.25)
"""In documents' embeddings, in query vectors, and as a metadata value; the digits of a timestamp cannot make them."""
BYTES: Final = base64.b64encode(struct.pack("<2f", *NUMBERS[:2])).decode()

CANARIES: Final = (TEXT, VALUE, FILTER, KEY, BYTES, *(str(number) for number in NUMBERS))

KEYS: Final[dict[str, Wanted]] = {
    "boss": {"role": "admin"},
    "guest": {"role": "reader", "collections": ("repo_*",)},
}


@dataclass
class Driven:
    """A service that was driven through everything.

    Attributes:
        guarded: the service.
        metrics: its metrics at the end.
        answers: all answers, with what was asked.
    """

    guarded: Guarded
    metrics: str = ""
    answers: list[tuple[str, httpx.Response]] = field(default_factory=list)


def good(document_id: str = "a") -> dict[str, Any]:
    """A document that holds canaries everywhere."""
    metadata = {"secret": VALUE, "text_preview": TEXT, "many": [VALUE], "number": NUMBERS[2]}
    return {"id": document_id, "text": TEXT, "embedding": [1, NUMBERS[0]], "metadata": metadata}


def bad_documents() -> list[dict[str, Any]]:
    """Documents that are each wrong in one way."""
    return [
        {**good("b"), "embedding": [1, 2, NUMBERS[0]]},
        {**good("b"), "embedding": [NUMBERS[0], TEXT]},
        {**good("b"), "embedding": BYTES[:-3]},
        {**good("b"), "embedding": [1e300, NUMBERS[0]]},
        {**good("b"), "embedding": None},
        {**good("b"), "text": [TEXT]},
        {**good("b"), "text": None},
        {**good("b"), "metadata": {"a": {"b": VALUE}}},
        {**good("b"), "metadata": {"a": [VALUE, NUMBERS[2]]}},
        {**good("b"), "metadata": VALUE},
        {**good("b"), "metadata": {"a": 2**70, "secret": VALUE}},
    ]


def filters() -> list[Any]:
    """Filters with canaries, right and wrong."""
    return [
        {"secret": FILTER},
        {"$and": [{"secret": {"$in": [FILTER, VALUE]}}, {"number": {"$gt": NUMBERS[2]}}]},
        {"secret": {"$gt": FILTER}},
        {"secret": {"$in": [FILTER, NUMBERS[2]]}},
        {"secret": {"$in": []}},
        {"secret": {"$near": FILTER}},
        {"$or": FILTER},
        [FILTER],
        FILTER,
    ]


def text_filters() -> list[Any]:
    """Filters over texts with canaries, right and wrong."""
    return [{"$contains": FILTER}, {"$regex": f"({FILTER}"}, {"$regex": f"{FILTER}.*"}, {"$near": FILTER}, FILTER]


def requests_on(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests over every route, with canaries in every place that takes a value."""
    path = f"/collections/{name}"
    documents, query = f"{path}/documents", f"{path}/query"
    metadata = {"about": VALUE, "number": NUMBERS[2]}
    yield "POST", "/collections", {"json": {"name": name, "metadata": metadata, "embedding_model": VALUE}}
    yield "POST", "/collections", {"json": {"name": name, "metadata": metadata}}
    yield "POST", "/collections", {"json": {"name": "x" * 3, "metadata": {"a": [VALUE]}, "distance": FILTER}}
    yield "PUT", f"{path}/metadata", {"json": {"metadata": {**metadata, "hnsw:space": VALUE}}}
    yield "PUT", f"{path}/metadata", {"json": {"metadata": metadata}, "params": {"merge": VALUE}}
    yield "PUT", f"{path}/metadata", {"json": {"metadata": metadata}}
    for method in ("POST", "PUT", "POST"):
        yield method, documents, {"json": {"documents": [good()]}}
    yield "PUT", documents, {"content": msgspec.msgpack.encode({"documents": [good("m")]}), "headers": MSGPACK}
    yield "PUT", documents, {"content": msgspec.msgpack.encode({"documents": TEXT})[:-2], "headers": MSGPACK}
    for document in bad_documents():
        yield "PUT", documents, {"json": {"documents": [good(), document]}}
    yield "POST", documents, {"content": json.dumps({"documents": [good()]})[:-3]}
    yield "POST", documents, {"content": TEXT, "headers": {"Content-Type": f"text/{TEXT}"}}
    yield "POST", documents, {"json": {"documents": [good("d"), good("d")]}}
    for last in (good("s"), *bad_documents()):
        lines = "".join(json.dumps(one) + "\n" for one in (good("r"), last))
        yield "POST", f"{documents}/stream", {"content": lines, "headers": NDJSON, "params": {"mode": "upsert"}}
    twice = "".join(json.dumps(good("t")) + "\n" for _ in range(2))
    yield "POST", f"{documents}/stream", {"content": twice, "headers": NDJSON}
    yield "POST", f"{documents}/stream", {"content": f"{TEXT}\n{VALUE}", "headers": NDJSON, "params": {"mode": VALUE}}
    yield "POST", f"{documents}/stream", {"content": f"{TEXT}\n{VALUE}", "headers": NDJSON}
    for where in filters():
        yield "GET", documents, {"params": {"where": json.dumps(where), "include": "embedding"}}
        yield "POST", f"{documents}/filter", {"json": {"where": where}}
        yield "POST", query, {"json": {"query_embedding": [1, NUMBERS[1]], "where": where}}
        yield "POST", f"{documents}/delete", {"json": {"where": {"$and": [where, {"absent": 1}]}}}
    for where in text_filters():
        yield "GET", documents, {"params": {"where_document": json.dumps(where)}}
        yield "POST", query, {"json": {"query_embedding": [1, NUMBERS[1]], "where_document": where}}
    yield "GET", documents, {"params": {"where": FILTER, "limit": FILTER, "include": FILTER}}
    for vector in ([1, 2, NUMBERS[1]], [NUMBERS[1], TEXT], BYTES, BYTES[:-3], TEXT, []):
        yield "POST", query, {"json": {"query_embedding": vector}}
        yield "POST", "/query", {"json": {"collections": [name, "repo_absent"], "query_embedding": vector}}
    yield "POST", query, {"json": {"query_embedding": [1, NUMBERS[1]], "top_k": FILTER, "max_distance": VALUE}}
    yield "GET", f"{path}/metadata-values", {"params": {"field": "secret", "limit": FILTER}}
    yield "GET", f"{path}/metadata-values", {"params": {"field": "secret"}}
    yield "GET", f"{documents}/a", {"params": {"include": "embedding"}}
    for plain in (path, "/collections", "/health", "/", "/docs", "/openapi.json", f"/nowhere?{FILTER}"):
        yield "GET", plain, {"headers": {"Cookie": VALUE, "User-Agent": VALUE, "Referer": f"http://x/{VALUE}"}}
    yield "PATCH", path, {"content": TEXT}
    yield "DELETE", documents, {"params": {"where": json.dumps({"secret": FILTER})}}
    yield "DELETE", f"{documents}/all", {}
    yield "DELETE", path, {}


MSGPACK: Final = {"Content-Type": "application/msgpack"}
NDJSON: Final = {"Content-Type": "application/x-ndjson"}


def drive(driven: Driven, key: str, name: str) -> None:
    """Send every request with a key."""
    with driven.guarded.client(key) as http:
        for method, path, what in requests_on(name):
            answer = http.request(method, path, **what)
            driven.answers.append((f"{method} {path} {what}", answer))


def intrude(driven: Driven) -> None:
    """Try keys that are none."""
    for headers in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": f"Basic {KEY}"}):
        answer = httpx.post(f"{driven.guarded.served.url}/collections?api_key={KEY}", headers=headers, content=TEXT)
        assert answer.status_code == 401
        driven.answers.append((f"POST {headers}", answer))


@pytest.fixture(scope="module", params=["embedded", "remote"])
def driven(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A service that was driven through everything, the remote one also with Chroma away."""
    folder = tmp_path_factory.mktemp("leaks")
    environ = {"RAGSTORE_LOG_LEVEL": "debug", "RAGSTORE_LOG_FORMAT": "json"}
    if request.param == "embedded":
        with guarded(folder, KEYS, environ) as started:
            driven = Driven(started)
            drive_all(driven)
            yield driven
        return
    with running(start_chroma(folder)) as chroma:
        environ |= {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "2"}
        with guarded(folder, KEYS, environ) as started:
            driven = Driven(started)
            drive_all(driven)
            chroma.stop()
            with started.client("boss") as http:
                for method, path, what in list(requests_on("repo_away"))[::7]:
                    driven.answers.append((f"away: {method} {path} {what}", http.request(method, path, **what)))
            finish(driven)
            yield driven


def drive_all(driven: Driven) -> None:
    """Everything, as one who may, as one who may not, and as nobody."""
    drive(driven, "boss", "repo_leaks")
    drive(driven, "guest", "hidden")
    intrude(driven)
    finish(driven)


def finish(driven: Driven) -> None:
    """Read the metrics, once the log tells of all that came before."""
    with driven.guarded.client("boss") as http:
        last = http.get("/collections/absent-at-the-end").headers["x-request-id"]
        driven.metrics = http.get("/metrics").text
    eventually(lambda: driven.guarded.lines("request", last))


def leaks(text: str, driven: Driven) -> list[str]:
    """Canaries and keys that stand in a text."""
    return [canary for canary in (*CANARIES, *driven.guarded.plain.values()) if canary in text]


def test_the_requests_did_reach_every_kind_of_answer(driven: Driven) -> None:
    statuses = {answer.status_code for _, answer in driven.answers}
    assert {200, 201, 400, 401, 403, 404, 405, 409, 415} <= statuses
    assert not {500, 502} & statuses
    assert any(TEXT in answer.text for _, answer in driven.answers)


def test_no_log_line_holds_what_came_in_or_a_key(driven: Driven) -> None:
    lines = driven.guarded.served.log.read_text().splitlines()
    assert len(lines) > 200
    assert [line for line in lines if leaks(line, driven)] == []


def test_every_log_line_is_json(driven: Driven) -> None:
    for line in driven.guarded.served.log.read_text().splitlines():
        assert json.loads(line)["event"], line


def test_no_metric_holds_what_came_in_or_a_key(driven: Driven) -> None:
    assert "ragstore_requests_total" in driven.metrics
    assert leaks(driven.metrics, driven) == []
    assert "repo_leaks" not in driven.metrics


def test_no_error_repeats_what_came_in_or_a_key(driven: Driven) -> None:
    assert [asked for asked, answer in driven.answers if answer.is_error and leaks(answer.text, driven)] == []


def test_no_header_of_an_answer_holds_what_came_in_or_a_key(driven: Driven) -> None:
    assert [asked for asked, answer in driven.answers if leaks(str(answer.headers.raw), driven)] == []


def test_the_file_of_keys_holds_no_key(driven: Driven) -> None:
    assert leaks(driven.guarded.file.read_text(), driven) == []


EMBEDDED = """
import sys
connected = []
sys.addaudithook(lambda event, args: connected.append(args[1]) if event == "socket.connect" else None)
from ragstore.chroma.embedded import process as chroma
from ragstore.chroma.operations import CountRecords, CreateCollection, DeleteCollection
chroma.open_chroma(sys.argv[1], "default_tenant", "default_database", 1000)
made = chroma.execute(CreateCollection("abc", {}, "cosine"))
chroma.execute(CountRecords(made.id))
chroma.execute(DeleteCollection("abc"))
from chromadb.telemetry.product import ProductTelemetryClient
from chromadb.api.shared_system_client import SharedSystemClient
(system,) = SharedSystemClient._identifier_to_system.values()
settings = system.settings
assert settings.anonymized_telemetry is False, settings.anonymized_telemetry
assert not settings.chroma_otel_collection_endpoint
assert "posthog" not in sys.modules
assert not [name for name in sys.modules if name.startswith("opentelemetry.exporter") and "otlp.proto.http" in name]
assert connected == [], connected
"""


@pytest.mark.parametrize("environ", [{}, {"ANONYMIZED_TELEMETRY": "True"}], ids=["as-is", "asked-for"])
def test_chroma_sends_no_usage_reports(tmp_path: Path, environ: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", EMBEDDED, str(tmp_path / "data")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
