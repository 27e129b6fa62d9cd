"""Documents, queries and keys leave the service in its responses only.

A service at its most verbose log level gets requests on every route, valid and invalid ones, also while Chroma is
unavailable. Their values occur nowhere else; its log and its metrics are then searched for them.
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

from tests.support.keyed_services import KeyedService, KeySpec, eventually, keyed_service
from tests.support.servers import running, start_chroma

TEXT: Final = "Canary-Text-8841"
VALUE: Final = "Canary-Value-6273"
FILTER: Final = "Canary-Filter-1159"
KEY: Final = "rsk_Canary-Key-3390"
NUMBERS: Final = (7382.9125, 5149.3725, 62917.25)
"""Components of embeddings and query vectors, and a metadata value; digits that cannot occur in a timestamp."""
BYTES: Final = base64.b64encode(struct.pack("<2f", *NUMBERS[:2])).decode()

CANARIES: Final = (TEXT, VALUE, FILTER, KEY, BYTES, *(str(number) for number in NUMBERS))

KEYS: Final[dict[str, KeySpec]] = {
    "admin": {"role": "admin"},
    "guest": {"role": "reader", "collections": ("repo_*",)},
}


@dataclass
class Exercised:
    """A service that has got every request.

    Attributes:
        metrics: its metrics at the end.
        responses: all responses, with a description of the request.
    """

    service: KeyedService
    metrics: str = ""
    responses: list[tuple[str, httpx.Response]] = field(default_factory=list)


def valid_document(document_id: str = "a") -> dict[str, Any]:
    """A document that holds canaries everywhere."""
    metadata = {"secret": VALUE, "text_preview": TEXT, "many": [VALUE], "number": NUMBERS[2]}
    return {"id": document_id, "text": TEXT, "embedding": [1, NUMBERS[0]], "metadata": metadata}


def invalid_documents() -> list[dict[str, Any]]:
    """Documents with one error each."""
    return [
        {**valid_document("b"), "embedding": [1, 2, NUMBERS[0]]},
        {**valid_document("b"), "embedding": [NUMBERS[0], TEXT]},
        {**valid_document("b"), "embedding": BYTES[:-3]},
        {**valid_document("b"), "embedding": [1e300, NUMBERS[0]]},
        {**valid_document("b"), "embedding": None},
        {**valid_document("b"), "text": [TEXT]},
        {**valid_document("b"), "text": None},
        {**valid_document("b"), "metadata": {"a": {"b": VALUE}}},
        {**valid_document("b"), "metadata": {"a": [VALUE, NUMBERS[2]]}},
        {**valid_document("b"), "metadata": VALUE},
        {**valid_document("b"), "metadata": {"a": 2**70, "secret": VALUE}},
    ]


def filters() -> list[Any]:
    """Filters with canaries, valid and invalid."""
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
    """Text filters with canaries, valid and invalid."""
    return [{"$contains": FILTER}, {"$regex": f"({FILTER}"}, {"$regex": f"{FILTER}.*"}, {"$near": FILTER}, FILTER]


def requests_on(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests on every route, with canaries in every parameter."""
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
        yield method, documents, {"json": {"documents": [valid_document()]}}
    yield (
        "PUT",
        documents,
        {"content": msgspec.msgpack.encode({"documents": [valid_document("m")]}), "headers": MSGPACK},
    )
    yield "PUT", documents, {"content": msgspec.msgpack.encode({"documents": TEXT})[:-2], "headers": MSGPACK}
    for document in invalid_documents():
        yield "PUT", documents, {"json": {"documents": [valid_document(), document]}}
    yield "POST", documents, {"content": json.dumps({"documents": [valid_document()]})[:-3]}
    yield "POST", documents, {"content": TEXT, "headers": {"Content-Type": f"text/{TEXT}"}}
    yield "POST", documents, {"json": {"documents": [valid_document("d"), valid_document("d")]}}
    for last in (valid_document("s"), *invalid_documents()):
        lines = "".join(json.dumps(one) + "\n" for one in (valid_document("r"), last))
        yield "POST", f"{documents}/stream", {"content": lines, "headers": NDJSON, "params": {"mode": "upsert"}}
    twice = "".join(json.dumps(valid_document("t")) + "\n" for _ in range(2))
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


def send_all(exercised: Exercised, key: str, name: str) -> None:
    """Send every request with a key."""
    with exercised.service.client(key) as http:
        for method, path, options in requests_on(name):
            response = http.request(method, path, **options)
            exercised.responses.append((f"{method} {path} {options}", response))


def send_invalid_keys(exercised: Exercised) -> None:
    """Send invalid keys."""
    for headers in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": f"Basic {KEY}"}):
        response = httpx.post(
            f"{exercised.service.served.url}/collections?api_key={KEY}", headers=headers, content=TEXT
        )
        assert response.status_code == 401
        exercised.responses.append((f"POST {headers}", response))


@pytest.fixture(scope="module", params=["embedded", "remote"])
def exercised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exercised]:
    """A service that has got every request, the remote one also while Chroma was unavailable."""
    folder = tmp_path_factory.mktemp("leaks")
    environ = {"RAGSTORE_LOG_LEVEL": "debug", "RAGSTORE_LOG_FORMAT": "json"}
    if request.param == "embedded":
        with keyed_service(folder, KEYS, environ) as started:
            exercised = Exercised(started)
            send_everything(exercised)
            yield exercised
        return
    with running(start_chroma(folder)) as chroma:
        environ |= {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "2"}
        with keyed_service(folder, KEYS, environ) as started:
            exercised = Exercised(started)
            send_everything(exercised)
            chroma.stop()
            with started.client("admin") as http:
                for method, path, options in list(requests_on("repo_away"))[::7]:
                    exercised.responses.append(
                        (f"away: {method} {path} {options}", http.request(method, path, **options))
                    )
            read_metrics(exercised)
            yield exercised


def send_everything(exercised: Exercised) -> None:
    """Send every request with a key that may, with one that may not, and with invalid ones."""
    send_all(exercised, "admin", "repo_leaks")
    send_all(exercised, "guest", "hidden")
    send_invalid_keys(exercised)
    read_metrics(exercised)


def read_metrics(exercised: Exercised) -> None:
    """Read the metrics, and wait until all earlier requests are in the log."""
    with exercised.service.client("admin") as http:
        last = http.get("/collections/absent-at-the-end").headers["x-request-id"]
        exercised.metrics = http.get("/metrics").text
    eventually(lambda: exercised.service.log_lines("request", last))


def leaks(text: str, exercised: Exercised) -> list[str]:
    """Canaries and keys that a text contains."""
    return [canary for canary in (*CANARIES, *exercised.service.keys.values()) if canary in text]


def test_the_requests_reach_every_kind_of_response(exercised: Exercised) -> None:
    statuses = {response.status_code for _, response in exercised.responses}
    assert {200, 201, 400, 401, 403, 404, 405, 409, 415} <= statuses
    assert not {500, 502} & statuses
    assert any(TEXT in response.text for _, response in exercised.responses)


def test_no_log_line_contains_content_or_a_key(exercised: Exercised) -> None:
    lines = exercised.service.served.log.read_text().splitlines()
    assert len(lines) > 200
    assert [line for line in lines if leaks(line, exercised)] == []


def test_every_log_line_is_json(exercised: Exercised) -> None:
    for line in exercised.service.served.log.read_text().splitlines():
        assert json.loads(line)["event"], line


def test_no_metric_contains_content_or_a_key(exercised: Exercised) -> None:
    assert "ragstore_requests_total" in exercised.metrics
    assert leaks(exercised.metrics, exercised) == []
    assert "repo_leaks" not in exercised.metrics


def test_no_error_repeats_content_or_a_key(exercised: Exercised) -> None:
    assert [
        request for request, response in exercised.responses if response.is_error and leaks(response.text, exercised)
    ] == []


def test_no_header_of_a_response_contains_content_or_a_key(exercised: Exercised) -> None:
    assert [request for request, response in exercised.responses if leaks(str(response.headers.raw), exercised)] == []


def test_the_file_of_keys_contains_no_plain_key(exercised: Exercised) -> None:
    assert leaks(exercised.service.keys_file.read_text(), exercised) == []


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


@pytest.mark.parametrize("environ", [{}, {"ANONYMIZED_TELEMETRY": "True"}], ids=["default", "requested"])
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
