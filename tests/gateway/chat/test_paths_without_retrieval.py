"""`rag/` models and `file_search` are 400 where the gateway adds no passages: the upstream would reply from nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.chat.body import MAX_LENIENT_BYTES, Head, form_has_rag_model, read_head
from tests.gateway.chat.test_faults import error_of
from tests.support.fake_upstream import FakeUpstream

PATHS = ("completions", "messages", "rerank", "moderations", "images/generations", "audio/speech")
TOOL = {"type": "file_search", "vector_store_ids": ["vs_1"]}
FUNCTION = {"type": "function", "function": {"name": "find", "description": 'Like "type": "file_search"'}}


@pytest.mark.parametrize("path", [*PATHS, "threads/runs"])
def test_a_rag_model_on_another_path_is_400_and_is_not_passed_on(
    http: httpx.Client, upstream: FakeUpstream, path: str
) -> None:
    before = len(upstream.requests)
    error = error_of(http.post(f"/v1/{path}", json={"model": "rag/m", "input": "Tea?", "stream": True}), 400)
    assert (error["param"], error["code"]) == ("model", "invalid_request")
    assert "POST /v1/chat/completions" in error["message"]
    assert len(upstream.requests) == before


@pytest.mark.parametrize(
    ("path", "model"), [("completions", "m"), ("chat/completions", "m"), ("chat/completions", "rag/m")]
)
def test_the_tool_file_search_is_400_and_is_not_passed_on(
    http: httpx.Client, upstream: FakeUpstream, path: str, model: str
) -> None:
    before = len(upstream.requests)
    body = {"model": model, "messages": [{"role": "user", "content": "Tea?"}], "tools": [FUNCTION, TOOL]}
    error = error_of(http.post(f"/v1/{path}", json=body), 400)
    assert error["param"] == "tools"
    assert "vector_stores" in error["message"]
    assert len(upstream.requests) == before


def test_other_tools_and_models_pass(http: httpx.Client, upstream: FakeUpstream) -> None:
    body = json.dumps({"model": "drag/m", "tools": [FUNCTION, 5, {"type": 5}]}).encode()
    assert http.post("/v1/responses", content=body).status_code == 200
    assert upstream.last.body == body


def test_a_rag_model_in_a_form_or_in_the_query_is_400(http: httpx.Client, upstream: FakeUpstream) -> None:
    before = len(upstream.requests)
    path = "/v1/audio/transcriptions"
    requests: list[dict[str, Any]] = [
        {"data": {"model": "rag/m"}, "files": {"file": ("a.wav", b"RIFF" * 1000)}},
        {"data": {"model": "rag/m"}},
        {"params": {"model": "rag/m"}, "content": b"x"},
    ]
    for request in requests:
        assert error_of(http.post(path, **request), 400)["param"] == "model"
    assert len(upstream.requests) == before
    assert http.post(path, data={"model": "m"}, files={"file": ("a.wav", b"model=rag/m")}).status_code == 200


def test_with_rag_disabled_a_rag_model_on_another_path_is_400_too(keyed: Any, upstream: FakeUpstream) -> None:
    before = len(upstream.requests)
    assert error_of(keyed("packer", path="/v1/completions", json={"model": "rag/m"}), 400)["param"] == "model"
    assert len(upstream.requests) == before


def test_a_rag_model_is_no_model_of_embeddings(http: httpx.Client, upstream: FakeUpstream) -> None:
    before = len(upstream.requests)
    assert error_of(http.post("/v1/embeddings", json={"model": "rag/m", "input": "Tea"}), 400)["param"] == "model"
    assert len(upstream.requests) == before


@pytest.mark.parametrize(
    ("content_type", "query", "body"),
    [
        ("application/x-www-form-urlencoded", b"", b"a=b&model=rag%2Fm"),
        (
            "multipart/form-data; boundary=x",
            b"",
            b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nrag/m\r\n',
        ),
        ("", b"x=1&model=rag/m", b""),
    ],
)
def test_forms_and_queries_with_a_rag_model_are_recognised(content_type: str, query: bytes, body: bytes) -> None:
    assert form_has_rag_model(content_type, query, body)
    assert not form_has_rag_model(content_type, query.replace(b"rag", b"r4g"), body.replace(b"rag", b"r4g"))


@pytest.mark.parametrize("start", [b"", b" \n", b"\xef\xbb\xbf"])
def test_a_large_object_that_cannot_be_read_is_400(start: bytes) -> None:
    body = start + b'{"model": "rag/m", "cut": "\\ud83d", "rest": "' + b"x" * MAX_LENIENT_BYTES + b'"}'
    with pytest.raises(InvalidRequest, match="surrogate"):
        read_head(body)
    assert read_head(b'{"model": "rag/m", "cut": "\\ud83d", "tools": [{"type": "file_search"}]}') == Head(
        "rag/m", file_search=True
    )


def test_a_large_body_that_is_no_object_passes(http: httpx.Client, upstream: FakeUpstream) -> None:
    files = {"file": ("a.wav", b"RIFF" * 30_000)}
    assert http.post("/v1/audio/transcriptions", data={"model": "m"}, files=files).status_code == 200
    assert read_head(b"--x" * MAX_LENIENT_BYTES) == Head()
