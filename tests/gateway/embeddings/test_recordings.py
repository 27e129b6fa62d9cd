"""Each provider's wire format, against exchanges written from its documentation and replayed by a real HTTP server."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.embeddings.providers.declared import PROVIDERS
from tests.gateway.embeddings.factories import embeddings
from tests.support.fake_providers import Received, fake_provider, json_response

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
AWS_KEY, AWS_SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


class Request(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str]
    body: object


class Response(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: object


class Exchange(msgspec.Struct):
    request: Request
    response: Response


class Recording(msgspec.Struct):
    documented: str
    origin: str
    provider: str
    parameters: dict[str, str | int]
    kind: Kind
    texts: list[str]
    exchanges: list[Exchange]
    vectors: list[list[float]]


def read(name: str) -> Recording:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Recording)


class Replay:
    """Responds with a recording, and only to its requests."""

    def __init__(self, recording: Recording) -> None:
        self.exchanges = recording.exchanges

    async def __call__(self, received: Received) -> web.StreamResponse:
        if received.path == "/token":
            return json_response({"access_token": "recorded-token", "expires_in": 3600, "token_type": "Bearer"})
        for exchange in self.exchanges:
            if self.matches(exchange.request, received):
                response = exchange.response
                headers = {name: value for name, value in response.headers.items() if name != "Content-Type"}
                return json_response(response.body, response.status, headers)
        return json_response({"error": "not recorded", "path": received.path}, 400)

    def matches(self, request: Request, received: Received) -> bool:
        return (
            (request.method, request.path, request.body) == (received.method, received.path, received.json)
            and request.headers.items() <= received.headers.items()
            and received.headers["Content-Type"] == "application/json"
        )


@pytest.mark.parametrize("name", NAMES)
async def test_a_provider_receives_the_documented_request_and_its_response_becomes_vectors(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recording = read(name)
    monkeypatch.setenv("PROVIDER_KEY", "recorded-key")
    async with fake_provider(Replay(recording)) as server, embeddings() as made:
        credentials(recording.provider, monkeypatch, tmp_path, server.url)
        parameters = {key: at(server.url, value) for key, value in recording.parameters.items()}
        embedder = made.of(recording.provider, parameters)
        vectors = await embedder.embed(recording.texts, recording.kind, normalize=False)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == recording.vectors
    assert embedder.dimension == 4


def test_every_provider_over_http_has_a_recording() -> None:
    assert {read(name).provider for name in NAMES} == set(PROVIDERS) - {"local"}


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_names_the_documentation_of_its_format_and_its_origin(name: str) -> None:
    recording = read(name)
    assert recording.documented.startswith("https://") or recording.provider == "ragproxy"
    assert "not captured" in recording.origin


async def test_a_request_to_bedrock_has_a_valid_signature(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recording = read("bedrock_titan")
    async with fake_provider(Replay(recording)) as server, embeddings() as made:
        credentials("bedrock", monkeypatch, tmp_path, server.url)
        await made.of("bedrock", {"baseUrl": server.url, "dimensions": 4}).embed(recording.texts, "document")
    for received in server.received:
        assert received.headers["Authorization"] == signature(received, "us-east-1", "bedrock")


async def test_the_token_of_vertex_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recording = read("vertex_document")
    async with fake_provider(Replay(recording)) as server, embeddings(cache_bytes=0) as made:
        credentials("vertex", monkeypatch, tmp_path, server.url)
        embedder = made.of("vertex", {key: at(server.url, value) for key, value in recording.parameters.items()})
        await embedder.embed(recording.texts, "document")
        await embedder.embed(recording.texts, "document")
    assert [each.path for each in server.received].count("/token") == 1


async def test_vertex_without_credentials_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    async with embeddings() as made:
        with pytest.raises(Exception, match="Google's application default credentials cannot be used"):
            await made.of("vertex", {"project": "p"}).embed(["tea"], "document")


async def test_bedrock_without_credentials_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    async with embeddings() as made:
        with pytest.raises(Exception, match="There are no AWS credentials"):
            await made.of("bedrock", {}).embed(["tea"], "document")


def at(url: str, value: str | int) -> str | int:
    return value.replace("SERVER", url) if isinstance(value, str) else value


def credentials(provider: str, monkeypatch: pytest.MonkeyPatch, folder: Path, url: str) -> None:
    """Provide the credentials of a cloud, as their own chains find them."""
    if provider == "bedrock":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", AWS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    elif provider == "vertex":
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "tea-project",
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": "tea@tea-project.iam.gserviceaccount.com",
            "token_uri": f"{url}/token",
        }
        (folder / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "account.json"))


def signature(received: Received, region: str, service: str) -> str:
    """The signature that AWS computes: docs.aws.amazon.com/IAM/latest/UserGuide, "Create a signed AWS API request"."""
    headers: Mapping[str, str] = {name.lower(): value.strip() for name, value in received.headers.items()}
    signed = ["content-type", "host", "x-amz-date"]
    path = quote(received.path, safe="/-_.~")  # encoded twice, as for all services but S3
    lines = [f"{name}:{headers[name]}" for name in signed]
    body = hashlib.sha256(received.body).hexdigest()
    canonical = "\n".join([received.method, path, "", *lines, "", ";".join(signed), body])
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + AWS_SECRET.encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={AWS_KEY}/{scope}, SignedHeaders={';'.join(signed)}, Signature={digest}"
