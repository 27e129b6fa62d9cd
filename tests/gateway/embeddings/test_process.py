"""The gateway as a process over a provider: settings, statuses, and what it never shows."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.settings import SettingsError
from ragstore_gateway.app import create_embeddings
from ragstore_gateway.settings import load
from tests.gateway.embeddings.waits import until
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response
from tests.support.gateways import start_gateway
from tests.support.servers import Served, inherited_environ, running

SECRET = "canary-secret-5ad1"
TEXT = "canary-text-91c3"
UPSTREAM_KEY = "canary-upstream-77b0"


@dataclass
class Pair:
    """A gateway and its provider."""

    gateway: Served
    provider: FakeProvider
    http: httpx.AsyncClient


async def openai_vectors(received: Received) -> web.StreamResponse:
    """The response of OpenAI's API; repeats the key and the text in further fields."""
    body = received.json
    assert isinstance(body, dict)
    data = [{"index": index, "embedding": [float(len(text)), 1.0]} for index, text in enumerate(body["input"])]
    return json_response({"data": data, "echo": [received.headers["Authorization"], TEXT]})


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    """A gateway that logs everything, over a provider of OpenAI's kind, with a secret."""
    folder = tmp_path_factory.mktemp("over-provider")
    (folder / "secrets").mkdir()
    (folder / "secrets" / "key").write_text(SECRET)
    async with fake_provider(openai_vectors) as provider:
        environ = {
            "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "openai",
            "RAGSTORE_GATEWAY_EMBEDDING_URL": provider.url + "/v1",
            "RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": '{"apiKey": "${file:key}"}',
            "RAGSTORE_GATEWAY_EMBEDDING_TIMEOUT_SECONDS": "2",
            "RAGSTORE_GATEWAY_SECRETS_PATH": str(folder / "secrets"),
            "RAGSTORE_GATEWAY_LOG_LEVEL": "debug",
            "RAGSTORE_GATEWAY_UPSTREAM_URL": provider.url + "/upstream/v1",
            "RAGSTORE_GATEWAY_UPSTREAM_KEY": UPSTREAM_KEY,
        }
        served = await asyncio.to_thread(start_gateway, folder, environ)
        with running(served):
            async with httpx.AsyncClient(base_url=served.url, timeout=30) as http:
                yield Pair(served, provider, http)


@pytest.fixture(autouse=True)
def restored(request: pytest.FixtureRequest) -> None:
    """Let the provider work again before each test."""
    if "pair" in request.fixturenames:
        pair: Pair = request.getfixturevalue("pair")
        pair.provider.respond = openai_vectors
        pair.provider.received.clear()


def given(text: str) -> dict[str, object]:
    return {"inputs": [text]}


@pytest.mark.process
async def test_texts_are_embedded_by_the_configured_provider(pair: Pair) -> None:
    body = (await pair.http.post("/embed", json={"inputs": ["aaa"], "normalize": False})).json()
    assert body == {"vectors": [[3.0, 1.0]], "normalize": False, "dim": 2}
    assert pair.provider.received[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert (await pair.http.get("/health")).json()["model"] == "openai/text-embedding-3-small"


@pytest.mark.process
@pytest.mark.parametrize("model", ["openai/text-embedding-3-small", "text-embedding-3-small", ""])
async def test_the_configured_model_is_the_gateways_own_with_and_without_its_provider(pair: Pair, model: str) -> None:
    response = await pair.http.post("/v1/embeddings", json={"model": model, "input": "bbb"})
    assert response.json()["model"] == (model or "openai/text-embedding-3-small")
    assert len(response.json()["data"][0]["embedding"]) == 2


@pytest.mark.process
async def test_the_built_in_model_is_still_there_by_its_name(pair: Pair) -> None:
    response = await pair.http.post("/v1/embeddings", json={"model": "builtin/wordllama", "input": "bbb"})
    assert len(response.json()["data"][0]["embedding"]) == 256
    assert pair.provider.received == []


@pytest.mark.process
async def test_a_request_for_another_model_is_forwarded_unchanged(pair: Pair) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        return json_response({"data": [], "model": "other", "unknown": 1}, 200, {"X-Upstream": "yes"})

    pair.provider.respond = respond
    body = b'{"model":  "other", "input": [[1, 2]], "encoding_format": "int8", "unknown": 1.50}'
    response = await pair.http.post("/v1/embeddings", content=body)
    received = pair.provider.received[0]
    assert (received.path, received.body) == ("/upstream/v1/embeddings", body)
    assert received.headers["Authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert response.json() == {"data": [], "model": "other", "unknown": 1}
    assert response.headers["X-Upstream"] == "yes"


@pytest.mark.process
@pytest.mark.parametrize(
    ("status", "headers", "expected", "code"),
    [
        (429, {"Retry-After": "60"}, 503, "embedding_rate_limited"),
        (500, {"Retry-After": "0"}, 502, "embedding_unavailable"),
        (401, {}, 502, "embedding_rejected"),
        (400, {}, 502, "embedding_rejected"),
        (404, {}, 503, "model_unavailable"),
        (200, {}, 502, "embedding_failed"),
    ],
)
async def test_a_fault_of_the_provider_has_its_status_in_both_formats(
    pair: Pair, status: int, headers: dict[str, str], expected: int, code: str
) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        return json_response({"error": f"{SECRET} {TEXT}"}, status, headers)

    pair.provider.respond = respond
    problem = await pair.http.post("/embed", json=given(f"{TEXT} {status}"))
    openai = await pair.http.post("/v1/embeddings", json={"input": f"{TEXT} {status}", "model": ""})
    assert (problem.status_code, problem.json()["code"]) == (expected, code)
    assert (openai.status_code, openai.json()["error"]["code"]) == (expected, code)
    assert problem.headers.get("Retry-After") == ("60" if status == 429 else None)
    assert SECRET not in problem.text + openai.text
    assert TEXT not in problem.text + openai.text


@pytest.mark.process
async def test_a_hung_provider_is_504_and_its_request_ends(pair: Pair) -> None:
    pair.provider.respond = hung
    left = pair.provider.left
    response = await pair.http.post("/embed", json=given("hung"))
    assert (response.status_code, response.json()["code"]) == (504, "embedding_timeout")
    await until(lambda: pair.provider.left == left + 1)


@pytest.mark.process
async def test_a_caller_that_leaves_ends_the_request_to_the_provider(pair: Pair) -> None:
    pair.provider.respond = hung
    left = pair.provider.left
    for path, body in (("/embed", given("left 1")), ("/v1/embeddings", {"input": "left 2", "model": ""})):
        async with httpx.AsyncClient(base_url=pair.gateway.url) as caller:
            task = asyncio.create_task(caller.post(path, json=body))
            await until(lambda: len(pair.provider.received) > 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        pair.provider.received.clear()
    await until(lambda: pair.provider.left == left + 2)
    metrics = (await pair.http.get("/metrics")).text
    for path in ("/embed", "/v1/embeddings"):
        assert f'method="POST",path="{path}",status_code="499"' in metrics


@pytest.mark.process
async def test_equal_requests_in_flight_are_one_request_to_the_provider(pair: Pair) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.2)
        return await openai_vectors(received)

    pair.provider.respond = respond
    responses = await asyncio.gather(*(pair.http.post("/embed", json=given("one of many")) for _ in range(20)))
    assert {response.status_code for response in responses} == {200}
    assert len(pair.provider.received) == 1


@pytest.mark.process
async def test_no_secret_and_no_text_is_in_log_metrics_settings_or_health(pair: Pair) -> None:
    await pair.http.post("/embed", json=given(TEXT))
    shown = [(await pair.http.get(path)).text for path in ("/metrics", "/health", "/openapi.json")]
    shown.append(pair.gateway.log.read_text())
    environ = {"RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": f'{{"apiKey": "{SECRET}"}}'}
    shown.append(_run("check", {**environ, "RAGSTORE_GATEWAY_VAULT_TOKEN": SECRET}).stdout)
    for text in shown:
        assert SECRET not in text
        assert UPSTREAM_KEY not in text
        assert TEXT not in text
    assert "embedding provider rejected a request" in shown[3]


async def hung(received: Received) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "openay"}, "Must be one of openai"),
        ({"RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "openai"}, r"Required: \$.embeddingParameters.apiKey"),
        ({"RAGSTORE_GATEWAY_EMBEDDING_URL": "http://a"}, r"Unknown parameter; .*: \$.embeddingParameters.baseUrl"),
        ({"MODEL_NAME": "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"}, "sentence_transformers"),
    ],
)
def test_a_provider_that_cannot_work_is_an_error_of_the_settings(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        create_embeddings(load(environ))


@pytest.mark.process
def test_such_an_error_fails_startup_with_the_reason_and_without_the_secret() -> None:
    environ = {
        "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "openai",
        "RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": f'{{"apiKey": "{SECRET}"}}',
    }
    ended = _run("serve", environ)
    assert ended.returncode == 1
    assert "Must be a reference" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert SECRET not in ended.stderr


def _run(command: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", command],
        env={**inherited_environ(), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_address_of_an_embedder_service_chooses_ragproxy() -> None:
    settings = load({"EMBEDDER_BASE": "http://embedder:8082", "MODEL_NAME": "a/b"})
    assert (settings.provider, settings.embedding_url) == ("ragproxy", "http://embedder:8082")
    assert settings.embedding_model == "a/b"


def test_the_own_variables_win_over_the_aliases() -> None:
    settings = load(
        {
            "EMBEDDER_BASE": "http://embedder:8082",
            "MODEL_NAME": "a/b",
            "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei",
            "RAGSTORE_GATEWAY_EMBEDDING_URL": "http://tei",
            "RAGSTORE_GATEWAY_EMBEDDING_MODEL": "c/d",
        }
    )
    assert (settings.provider, settings.embedding_url, settings.embedding_model) == ("tei", "http://tei", "c/d")


def test_literal_secrets_are_accepted_with_the_setting() -> None:
    environ = {
        "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "openai",
        "RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": f'{{"apiKey": "{SECRET}"}}',
        "RAGSTORE_GATEWAY_ALLOW_LITERAL_SECRETS": "true",
    }
    assert create_embeddings(load(environ)).default.name == "openai/text-embedding-3-small"


def test_the_settings_choose_the_sources_of_references(tmp_path: Path) -> None:
    for scheme, variable in (("file", "SECRETS_PATH"), ("vault", "VAULT_URL"), ("eddivault", "VAULT_URL")):
        given = {"apiKey": f"${{{scheme}:a/b}}"}
        with pytest.raises(InvalidRequest, match=f"References to {scheme} are not configured"):
            create_embeddings(load({})).validate("openai", given)
        embeddings = create_embeddings(load({f"RAGSTORE_GATEWAY_{variable}": str(tmp_path)}))
        embeddings.validate("openai", given)


@pytest.mark.process
def test_no_optional_package_is_loaded_without_its_provider() -> None:
    code = (
        "import sys; from ragstore_gateway.app import create_embeddings; from ragstore_gateway.settings import load; "
        "create_embeddings(load({})); print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    packages = ["botocore", "google.auth", "requests", "sentence_transformers", "torch", "wordllama"]
    ended = subprocess.run(
        [sys.executable, "-c", code, *packages], env=inherited_environ(), capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_without_settings_the_provider_is_local() -> None:
    assert load({}).provider == "local"


def test_parameters_that_are_not_an_object_are_named() -> None:
    with pytest.raises(SettingsError, match="RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS is wrong"):
        load({"RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": "[1]"})


async def test_the_embedder_service_of_a_ragproxy_is_used() -> None:
    async def respond(received: Received) -> web.StreamResponse:
        assert received.path == "/embed"
        return json_response({"vectors": [[3.0, 4.0]], "normalize": False, "dim": 2})

    async with fake_provider(respond) as provider:
        made = create_embeddings(load({"EMBEDDER_BASE": provider.url}))
        async with made.running():
            vectors = await made.default.embed(["tea"], "query")
    assert vectors[0] == pytest.approx([0.6, 0.8])
