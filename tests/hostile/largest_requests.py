"""The largest legal request of each route of the gateway. A route without an entry fails `test_largest_requests`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

from tests.hostile.bursts import RawRequest
from tests.hostile.limited_gateway import DOCUMENT, FILE_BYTES, MIB, SOURCE, TASKS, LimitedGateway

Make: TypeAlias = Callable[[LimitedGateway], RawRequest]

TEXTS: Final = 2048
QUESTION_BYTES: Final = 31 * MIB
NAME: Final = "m" * 200
ABSENT: Final = "0" * 24
BOUNDARY: Final = "hostile"


def _texts(field: str, **more: object) -> bytes:
    return json.dumps({field: [f"text {number}" for number in range(TEXTS)], **more}).encode()


def _json(method: str, target: str, body: object) -> RawRequest:
    return RawRequest(method, target, json.dumps(body).encode())


def _chat(*, stream: bool, question: str) -> Make:
    body = {"model": f"rag/{'m' * 252}", "messages": [{"role": "user", "content": question}], "stream": stream}
    content = json.dumps(body).encode()
    return lambda _: RawRequest("POST", "/v1/chat/completions", content)


def _form(target: str, field: str, content: bytes, **fields: str) -> RawRequest:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    disposition = f'Content-Disposition: form-data; name="{field}"; filename="large.txt"'
    head = "".join(parts) + f"--{BOUNDARY}\r\n{disposition}\r\nContent-Type: text/plain\r\n\r\n"
    body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    return RawRequest("POST", target, body, f"multipart/form-data; boundary={BOUNDARY}")


_DAMAGED: Final = b"%PDF-1.7\n" + b"tea " * ((FILE_BYTES - 4096) // 4)
"""The largest file. Its ingestion fails early, so that no work in the background disturbs the next requests."""

_SOURCE_FILE: Final = _DAMAGED[: 25 * MIB - 4096]
"""The largest file of a source."""

_MESSAGE: Final = "boiler " * 14_000
_ASSISTANT: Final = {
    "name": "long",
    "description": "d" * 1024,
    "model": "m" * 256,
    "systemMessage": _MESSAGE,
    "workflow": ["hostile"],
    "tasks": [{**task, "parameters": {"systemMessage": _MESSAGE}} for task in TASKS],
}
_BASE: Final = {
    "name": "long",
    "description": "d" * 1024,
    "sources": [
        {"name": f"site{number}", "web": {"startUrl": f"https://example.org/{'a' * 1_900}"}} for number in range(20)
    ],
}

_QUESTIONS: Final = {
    "name": "long",
    # A set may have 500 of them, but the body at most 1 MiB.
    "questions": [{"text": f"{number} " + "boiler " * 580} for number in range(250)],
}

LARGE: Final[Mapping[str, Make]] = {
    "POST /embed": lambda _: RawRequest("POST", "/embed", _texts("inputs")),
    "POST /v1/embeddings": lambda _: RawRequest("POST", "/v1/embeddings", _texts("input", model="wordllama")),
    "POST /v1/chat/completions": _chat(stream=True, question="Who services the boiler?"),
    "POST /v1/responses": lambda _: _json(
        "POST", "/v1/responses", {"model": f"rag/{'m' * 252}", "input": "boiler " * 100_000, "stream": True}
    ),
    "POST /v1/responses/{path}": lambda _: _json("POST", "/v1/responses/input_tokens", {"input": "boiler " * 100_000}),
    "POST /extract": lambda gateway: _json("POST", "/extract", {"urls": gateway.pages()}),
    "POST /summarize": lambda gateway: _json("POST", "/summarize", {"urls": gateway.pages()}),
    "POST /ragstore/rags/{id}/ingest": lambda gateway: RawRequest(
        "POST", f"/ragstore/rags/{gateway.ids['rag']}/ingest?documentName=damaged.pdf", _DAMAGED, "application/pdf"
    ),
    "POST /ragstore/rags/{id}/ingest/batch": lambda gateway: RawRequest(
        "POST",
        f"/ragstore/rags/{gateway.ids['rag']}/ingest/batch",
        b"".join(b'{"documentName": "%d", "text": " "}\n' % number for number in range(1000)),
        "application/x-ndjson",
    ),
    "GET /ragstore/rags/{id}/texts/{name}": lambda gateway: RawRequest(
        "GET", f"/ragstore/rags/{gateway.ids['rag']}/texts/{DOCUMENT}"
    ),
    "POST /ragstore/rags/{id}/split": lambda gateway: _json(
        "POST", f"/ragstore/rags/{gateway.ids['rag']}/split", {"documentName": DOCUMENT, "limit": 10_000}
    ),
    "POST /ragstore/rags/{id}/query": lambda gateway: _json(
        "POST", f"/ragstore/rags/{gateway.ids['rag']}/query", {"query": "boiler", "maxResults": 1000, "minScore": 0}
    ),
    "POST /ragstore/retrieve": lambda gateway: _json(
        "POST",
        "/ragstore/retrieve",
        {"question": "boiler", "base": gateway.ids["rag"], "maxResults": 1000, "minScore": 0},
    ),
    "POST /ragstore/rags/{id}/sources/{source}/files": lambda gateway: _form(
        f"/ragstore/rags/{gateway.ids['rag']}/sources/{SOURCE}/files", "files", _SOURCE_FILE
    ),
    "POST /v1/files": lambda _: _form("/v1/files", "file", _DAMAGED, purpose="assistants"),
    "POST /v1/uploads/{upload_id}/parts": lambda gateway: _form(
        f"/v1/uploads/{gateway.ids['upload']}/parts", "data", _DAMAGED
    ),
    "POST /v1/uploads/{upload_id}/complete": lambda gateway: _json(
        "POST", f"/v1/uploads/{gateway.ids['full_upload']}/complete", {"part_ids": [gateway.ids["part"]]}
    ),
    "GET /v1/files/{file_id}/content": lambda gateway: RawRequest("GET", f"/v1/files/{gateway.ids['file']}/content"),
    "GET /v1/vector_stores/{store_id}/files/{file_id}/content": lambda gateway: RawRequest(
        "GET", f"/v1/vector_stores/{gateway.ids['store']}/files/{gateway.ids['store_file']}/content"
    ),
    "POST /v1/vector_stores/{store_id}/search": lambda gateway: _json(
        "POST", f"/v1/vector_stores/{gateway.ids['store']}/search", {"query": "boiler", "max_num_results": 50}
    ),
    "GET /search": lambda _: RawRequest("GET", f"/search?k=20&rank=true&q={quote('boiler ' * 285)}"),
}
"""The routes whose requests or responses are large, or cost much."""

VARIANTS: Final[Mapping[str, Make]] = {
    "GET /metrics": lambda _: RawRequest("GET", "/metrics"),
    "POST /embed, 60 MB of texts": lambda _: RawRequest(
        "POST", "/embed", json.dumps({"inputs": [f"{n} " + "boiler " * 4_200 for n in range(TEXTS)]}).encode()
    ),
    "POST /v1/chat/completions, a question of 31 MB": _chat(stream=False, question="boiler " * (QUESTION_BYTES // 7)),
}
"""Further requests, which `make hostile` sends."""


def _at(method: str, target: str) -> Make:
    def make(gateway: LimitedGateway) -> RawRequest:
        return RawRequest(method, target.format(**gateway.ids, absent=ABSENT, source=SOURCE, name=NAME))

    return make


def _small(method: str, target: str, body: object) -> Make:
    def make(gateway: LimitedGateway) -> RawRequest:
        return _json(method, target.format(**gateway.ids, absent=ABSENT, source=SOURCE), body)

    return make


CHEAP: Final[Mapping[str, Make]] = {
    "GET /audit": _at("GET", "/audit?limit=1000"),
    "GET /audit/export": _at("GET", "/audit/export"),
    "POST /audit/verification": _small("POST", "/audit/verification", {}),
    "GET /conversations": _at("GET", "/conversations?limit=1000"),
    "POST /conversations/{conversation_id}/feedback": lambda _: _json(
        "POST", f"/conversations/{NAME}/feedback", {"requestId": "absent", "helpful": True, "comment": "c" * 4096}
    ),
    "GET /conversations/{conversation_id}": _at("GET", "/conversations/{name}"),
    "DELETE /conversations/{conversation_id}": _at("DELETE", "/conversations/{name}"),
    "GET /": _at("GET", "/"),
    "GET /access": _at("GET", "/access"),
    "GET /health": _at("GET", "/health"),
    "GET /health/live": _at("GET", "/health/live"),
    "GET /health/ready": _at("GET", "/health/ready"),
    "POST /ragstore/assistants": _small("POST", "/ragstore/assistants", _ASSISTANT),
    "GET /ragstore/assistants/descriptors": _at("GET", "/ragstore/assistants/descriptors?limit=1000"),
    "GET /ragstore/assistants/jsonSchema": _at("GET", "/ragstore/assistants/jsonSchema"),
    "GET /ragstore/assistants/{id}": _at("GET", "/ragstore/assistants/{assistant}"),
    "PUT /ragstore/assistants/{id}": _small("PUT", "/ragstore/assistants/{assistant}?version=1", _ASSISTANT),
    "POST /ragstore/assistants/{id}": _at("POST", "/ragstore/assistants/{absent}"),
    "DELETE /ragstore/assistants/{id}": _at("DELETE", "/ragstore/assistants/{absent}?version=1"),
    "GET /ragstore/assistants/{id}/versions": _at("GET", "/ragstore/assistants/{assistant}/versions?limit=1000"),
    "GET /ragstore/questions/descriptors": _at("GET", "/ragstore/questions/descriptors?limit=1000"),
    "GET /ragstore/questions/jsonSchema": _at("GET", "/ragstore/questions/jsonSchema"),
    "POST /ragstore/questions": lambda gateway: _json(
        "POST", "/ragstore/questions", {**_QUESTIONS, "base": gateway.ids["rag"]}
    ),
    "GET /ragstore/questions/{id}": _at("GET", "/ragstore/questions/{absent}"),
    "PUT /ragstore/questions/{id}": lambda gateway: _json(
        "PUT", f"/ragstore/questions/{ABSENT}?version=1", {**_QUESTIONS, "base": gateway.ids["rag"]}
    ),
    "POST /ragstore/questions/{id}": _at("POST", "/ragstore/questions/{absent}"),
    "DELETE /ragstore/questions/{id}": _at("DELETE", "/ragstore/questions/{absent}?version=1"),
    "GET /ragstore/questions/{id}/versions": _at("GET", "/ragstore/questions/{absent}/versions?limit=1000"),
    "POST /ragstore/questions/{id}/runs": _at("POST", "/ragstore/questions/{absent}/runs"),
    "GET /ragstore/questions/{id}/runs": _at("GET", "/ragstore/questions/{absent}/runs?limit=1000"),
    "GET /ragstore/questions/{id}/runs/{run_id}": _at("GET", "/ragstore/questions/{absent}/runs/{absent}"),
    "DELETE /ragstore/questions/{id}/runs/{run_id}": _at("DELETE", "/ragstore/questions/{absent}/runs/{absent}"),
    "GET /ragstore/rags/{id}/versions": _at("GET", "/ragstore/rags/{rag}/versions?limit=1000"),
    "POST /ragstore/rags": _small("POST", "/ragstore/rags", _BASE),
    "GET /ragstore/rags/descriptors": _at("GET", "/ragstore/rags/descriptors?limit=1000"),
    "GET /ragstore/rags/jsonSchema": _at("GET", "/ragstore/rags/jsonSchema"),
    "GET /ragstore/rags/{id}": _at("GET", "/ragstore/rags/{rag}"),
    "PUT /ragstore/rags/{id}": _small("PUT", "/ragstore/rags/{absent}?version=1", _BASE),
    "POST /ragstore/rags/{id}": _at("POST", "/ragstore/rags/{absent}"),
    "DELETE /ragstore/rags/{id}": _at("DELETE", "/ragstore/rags/{absent}?version=1"),
    "GET /ragstore/rags/{id}/documents": _at("GET", "/ragstore/rags/{rag}/documents?limit=1000"),
    "GET /ragstore/rags/{id}/documents/{name}": _at("GET", "/ragstore/rags/{rag}/documents/large.txt"),
    "DELETE /ragstore/rags/{id}/documents/{name}": _at("DELETE", "/ragstore/rags/{rag}/documents/{name}"),
    "GET /ragstore/rags/{id}/passages/{passage_id}": _at("GET", "/ragstore/rags/{rag}/passages/{absent}"),
    "GET /ragstore/rags/{id}/ingestions": _at("GET", "/ragstore/rags/{rag}/ingestions"),
    "DELETE /ragstore/rags/{id}/ingestion/{ingestion_id}": _at("DELETE", "/ragstore/rags/{rag}/ingestion/{absent}"),
    "GET /ragstore/rags/{id}/ingestion/{ingestion_id}/status": _at(
        "GET", "/ragstore/rags/{rag}/ingestion/{absent}/status"
    ),
    "DELETE /ragstore/rags/{id}/sources/{source}/documents": _at(
        "DELETE", "/ragstore/rags/{rag}/sources/{source}/documents"
    ),
    "GET /ragstore/rags/{id}/sources/{source}/files": _at("GET", "/ragstore/rags/{rag}/sources/{source}/files"),
    "DELETE /ragstore/rags/{id}/sources/{source}/files/{name}": _at(
        "DELETE", "/ragstore/rags/{rag}/sources/{source}/files/{name}"
    ),
    "POST /ragstore/rags/{id}/sources/{source}/preview": _at("POST", "/ragstore/rags/{rag}/sources/{source}/preview"),
    "POST /ragstore/rags/{id}/sources/{source}/run": _at("POST", "/ragstore/rags/{rag}/sources/{source}/run"),
    "GET /ragstore/rags/{id}/sources/{source}/runs": _at("GET", "/ragstore/rags/{rag}/sources/{source}/runs"),
    "GET /ragstore/rags/{id}/sources/{source}/runs/{run_id}": _at(
        "GET", "/ragstore/rags/{rag}/sources/{source}/runs/{absent}"
    ),
    "DELETE /ragstore/rags/{id}/sources/{source}/runs/{run_id}": _at(
        "DELETE", "/ragstore/rags/{rag}/sources/{source}/runs/{absent}"
    ),
    "GET /v1/chat/completions": _at("GET", "/v1/chat/completions"),
    "POST /v1/uploads": lambda _: _json(
        "POST", "/v1/uploads", {"filename": "a" * 255, "purpose": "assistants", "bytes": 1, "mime_type": "a" * 255}
    ),
    "POST /v1/uploads/{upload_id}/cancel": _at("POST", "/v1/uploads/{absent}/cancel"),
    "GET /v1/files": _at("GET", "/v1/files?limit=10000"),
    "GET /v1/files/{file_id}": _at("GET", "/v1/files/{file}"),
    "DELETE /v1/files/{file_id}": _at("DELETE", "/v1/files/file-{absent}"),
    "GET /v1/models": _at("GET", "/v1/models"),
    "GET /v1/models/{path}": _at("GET", "/v1/models/{name}"),
    "DELETE /v1/models/{path}": _at("DELETE", "/v1/models/{name}"),
    "GET /v1/responses/{path}": _at("GET", f"/v1/responses/resp_ragstore_{32 * '0'}/input_items?limit=100"),
    "DELETE /v1/responses/{path}": _at("DELETE", f"/v1/responses/resp_ragstore_{32 * '0'}"),
    "GET /v1/vector_stores": _at("GET", "/v1/vector_stores?limit=100"),
    "POST /v1/vector_stores": _small("POST", "/v1/vector_stores", {"name": "long store", "description": "d" * 1024}),
    "GET /v1/vector_stores/{store_id}": _at("GET", "/v1/vector_stores/{store}"),
    "POST /v1/vector_stores/{store_id}": _small("POST", "/v1/vector_stores/{store}", {"name": "files"}),
    "DELETE /v1/vector_stores/{store_id}": _at("DELETE", "/v1/vector_stores/vs_{absent}"),
    "POST /v1/vector_stores/{store_id}/file_batches": _small(
        "POST", "/v1/vector_stores/{store}/file_batches", {"file_ids": [f"file-{number}" for number in range(500)]}
    ),
    "GET /v1/vector_stores/{store_id}/file_batches/{batch_id}": _at(
        "GET", "/v1/vector_stores/{store}/file_batches/vsfb_{absent}"
    ),
    "POST /v1/vector_stores/{store_id}/file_batches/{batch_id}/cancel": _at(
        "POST", "/v1/vector_stores/{store}/file_batches/vsfb_{absent}/cancel"
    ),
    "GET /v1/vector_stores/{store_id}/file_batches/{batch_id}/files": _at(
        "GET", "/v1/vector_stores/{store}/file_batches/vsfb_{absent}/files?limit=100"
    ),
    "GET /v1/vector_stores/{store_id}/files": _at("GET", "/v1/vector_stores/{store}/files?limit=100"),
    "POST /v1/vector_stores/{store_id}/files": _small(
        "POST", "/v1/vector_stores/{store}/files", {"file_id": "file-none"}
    ),
    "GET /v1/vector_stores/{store_id}/files/{file_id}": _at("GET", "/v1/vector_stores/{store}/files/{store_file}"),
    "POST /v1/vector_stores/{store_id}/files/{file_id}": _small(
        "POST",
        "/v1/vector_stores/{store}/files/{store_file}",
        {"attributes": {f"key{number}": "v" * 512 for number in range(16)}},
    ),
    "DELETE /v1/vector_stores/{store_id}/files/{file_id}": _at(
        "DELETE", "/v1/vector_stores/{store}/files/file-{absent}"
    ),
    "GET /openapi.json": _at("GET", "/openapi.json"),
}
"""The other routes, with a resource that does not exist where the request would remove it."""
