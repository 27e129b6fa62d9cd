"""`POST /embed` and `POST /v1/embeddings` of a gateway with its built-in model."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx
import jsonschema_rs
import numpy as np
import pytest

from tests.support.servers import Served

pytestmark = pytest.mark.process

TEXTS = ["Tea is a drink.", "Coffee is another."]


@pytest.fixture
def http(gateway: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def test_embed_has_exactly_the_documented_fields(http: httpx.Client) -> None:
    body = http.post("/embed", json={"inputs": TEXTS, "normalize": True}).json()
    assert set(body) == {"vectors", "normalize", "dim"}
    assert body["normalize"] is True
    assert body["dim"] == 256
    assert [len(vector) for vector in body["vectors"]] == [256, 256]
    assert np.linalg.norm(body["vectors"], axis=1) == pytest.approx(1, abs=1e-6)


def test_embed_normalises_by_default(http: httpx.Client) -> None:
    default = http.post("/embed", json={"inputs": TEXTS}).json()
    assert default == http.post("/embed", json={"inputs": TEXTS, "normalize": True}).json()


def test_embed_returns_the_vectors_of_the_model_without_normalize(http: httpx.Client) -> None:
    body = http.post("/embed", json={"inputs": TEXTS, "normalize": False}).json()
    assert body["normalize"] is False
    lengths = np.linalg.norm(body["vectors"], axis=1)
    assert all(abs(length - 1) > 0.01 for length in lengths)
    scaled = np.array(body["vectors"]) / lengths[:, None]
    assert scaled == pytest.approx(np.array(http.post("/embed", json={"inputs": TEXTS}).json()["vectors"]), abs=1e-6)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"inputs": []}, "$.inputs"),
        ({"inputs": ["tea", ""]}, "$.inputs[1]"),
        ({"inputs": [" \n"]}, "$.inputs[0]"),
        ({"inputs": ["tea", 5]}, "$.inputs[1]"),
        ({"inputs": "tea"}, "$.inputs"),
        ({}, "$.inputs"),
        ({"inputs": ["tea"], "normalize": "yes"}, "$.normalize"),
        ({"inputs": ["tea"] * 2049}, "$.inputs"),
        ({"inputs": ["a" * 131_073]}, "$.inputs[0]"),
        ({"inputs": ["é" * 65_537]}, "$.inputs[0]"),
        ({"inputs": ["tea"], "kind": "title"}, "$.kind"),
    ],
)
def test_embed_names_the_field_that_is_wrong(http: httpx.Client, body: object, path: str) -> None:
    response = http.post("/embed", json=body)
    assert response.status_code == 400
    assert [error["path"] for error in response.json()["errors"]] == [path]


@pytest.mark.parametrize("character", [*map(chr, range(33)), *"\x7f\x85\u00a0\u180e\u200b\u2028\u3000\ufeff"])
def test_a_text_is_empty_exactly_where_the_openapi_document_says_so(http: httpx.Client, character: str) -> None:
    operation = http.get("/openapi.json").json()["paths"]["/embed"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    body = {"inputs": [character]}
    accepted = http.post("/embed", json=body).status_code == 200
    assert jsonschema_rs.is_valid(schema, body) is accepted


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"inputs": ["\xff"]}', b"[" * 100_000])
def test_a_body_that_is_not_json_is_400(http: httpx.Client, content: bytes) -> None:
    for path in ("/embed", "/v1/embeddings"):
        assert http.post(path, content=content).status_code == 400


def test_a_text_of_the_longest_length_is_embedded(http: httpx.Client) -> None:
    response = http.post("/embed", json={"inputs": ["tea " * 32_768]})
    assert response.json()["vectors"][0] == pytest.approx(
        http.post("/embed", json={"inputs": ["tea " * 4096]}).json()["vectors"][0], abs=1e-3
    )


def test_embeddings_have_the_format_of_openai(http: httpx.Client) -> None:
    body = http.post("/v1/embeddings", json={"model": "builtin/wordllama", "input": TEXTS}).json()
    assert set(body) == {"object", "data", "model", "usage"}
    assert (body["object"], body["model"]) == ("list", "builtin/wordllama")
    assert [(item["object"], item["index"]) for item in body["data"]] == [("embedding", 0), ("embedding", 1)]
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] > 5
    vectors = http.post("/embed", json={"inputs": TEXTS}).json()["vectors"]
    assert [item["embedding"] for item in body["data"]] == vectors


def test_one_text_need_not_be_a_list(http: httpx.Client) -> None:
    body = http.post("/v1/embeddings", json={"model": "wordllama", "input": TEXTS[0]}).json()
    assert body["model"] == "wordllama"
    assert len(body["data"]) == 1


def test_base64_is_little_endian_float32(http: httpx.Client) -> None:
    given = {"model": "builtin/wordllama", "input": TEXTS}
    floats = http.post("/v1/embeddings", json={**given, "encoding_format": "float"}).json()
    encoded = http.post("/v1/embeddings", json={**given, "encoding_format": "base64"}).json()
    for left, right in zip(floats["data"], encoded["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(right["embedding"]), dtype="<f4")
        assert decoded.tolist() == left["embedding"]


def test_fewer_dimensions_are_the_first_components_normalised(http: httpx.Client) -> None:
    given = {"model": "builtin/wordllama", "input": TEXTS[0]}
    whole = np.array(http.post("/v1/embeddings", json=given).json()["data"][0]["embedding"])
    cut = http.post("/v1/embeddings", json={**given, "dimensions": 64}).json()["data"][0]["embedding"]
    assert cut == pytest.approx(whole[:64] / np.linalg.norm(whole[:64]), abs=1e-6)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["tea", ""]}, "input[1]"),
        ({"input": ""}, "input[0]"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": {"text": "tea"}}, "input"),
        ({"input": "tea", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "tea", "dimensions": 100}, "dimensions"),
        ({"input": "tea", "dimensions": 0}, "dimensions"),
        ({"input": "tea", "input_type": "title"}, "input_type"),
        ({"input": "tea", "model": "m" * 257}, "model"),
        ({"input": [[1] * 20_000]}, "input"),
        ({"input": ["tea"] * 2049}, "input"),
    ],
)
def test_errors_have_the_format_of_openai(http: httpx.Client, body: dict[str, object], param: str) -> None:
    response = http.post("/v1/embeddings", json={"model": "builtin/wordllama", **body})
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(response.json()) == {"error"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, "invalid_request")


def test_arrays_of_tokens_are_rejected_with_what_to_do(http: httpx.Client) -> None:
    error = http.post("/v1/embeddings", json={"model": "wordllama", "input": [[9906]]}).json()["error"]
    assert "check_embedding_ctx_length=False" in error["message"]


def test_a_model_that_the_gateway_does_not_have_is_404_without_an_upstream(http: httpx.Client) -> None:
    response = http.post("/v1/embeddings", json={"model": "text-embedding-3-small", "input": "tea"})
    assert response.status_code == 404
    error = response.json()["error"]
    assert error["code"] == "model_not_found"
    assert "RAGSTORE_GATEWAY_UPSTREAM_URL" in error["message"]


def test_no_error_repeats_a_text(http: httpx.Client) -> None:
    for body in (
        {"input": ["canary-text", ""]},
        {"input": ["canary-text", 1]},
        {"input": "canary-text", "dimensions": 3},
    ):
        assert "canary-text" not in http.post("/v1/embeddings", json={"model": "wordllama", **body}).text
    assert "canary-text" not in http.post("/embed", json={"inputs": ["canary-text", ""]}).text


def test_the_built_in_model_is_logged_at_startup_with_its_limits(gateway: Served) -> None:
    log = gateway.log.read_text()
    assert '"model": "builtin/wordllama"' in log
    assert "English; word vectors without word order" in log
