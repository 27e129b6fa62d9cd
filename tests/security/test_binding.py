"""A service without keys: the addresses that it binds to, and the requests that it accepts from web pages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.security.test_key_file import ragstore
from tests.support.problems import problem_of
from tests.support.servers import Served, free_port, running, start_service

pytestmark = pytest.mark.process

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without keys, with one web origin allowed."""
    environ = {"RAGSTORE_CORS_ORIGINS": "https://app.example"}
    with running(start_service(tmp_path_factory.mktemp("keyless"), environ)) as served:
        yield served


def serve_without_keys(folder: Path, host: str) -> subprocess.CompletedProcess[str]:
    """Try to serve without keys."""
    return ragstore(
        "serve", RAGSTORE_HOST=host, RAGSTORE_PORT=str(free_port()), RAGSTORE_DATA_PATH=str(folder / "data")
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "ragstore.example"])
def test_without_keys_a_public_address_is_rejected_with_one_line(tmp_path: Path, host: str) -> None:
    run = serve_without_keys(tmp_path, host)

    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert all(word in run.stderr for word in (host, "RAGSTORE_KEYS_FILE", "RAGSTORE_ALLOW_OPEN=true"))


def test_without_keys_a_public_address_needs_an_explicit_setting(tmp_path: Path) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_HOST": "0.0.0.0", "RAGSTORE_ALLOW_OPEN": "true"})) as served:
        response = httpx.get(f"{served.url}/collections", headers={"Host": "ragstore.example"})
    assert response.status_code == 200


def test_with_keys_any_address_and_any_host_name_are_accepted(admin: httpx.Client) -> None:
    assert admin.get("/collections", headers={"Host": "ragstore.example"}).status_code == 200


def test_without_keys_no_key_is_required(keyless: Served) -> None:
    assert httpx.get(f"{keyless.url}/collections", headers={"X-API-Key": "whatever"}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.53:80", "[::1]:8080"])
def test_without_keys_the_host_names_of_this_machine_are_accepted(keyless: Served, host: str) -> None:
    assert httpx.get(f"{keyless.url}/collections", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_without_keys_a_foreign_host_name_is_rejected(keyless: Served, host: str) -> None:
    problem_of(httpx.get(f"{keyless.url}/collections", headers={"Host": host}), 403)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_without_keys_a_page_of_another_origin_cannot_write(keyless: Served, origin: str) -> None:
    response = httpx.post(f"{keyless.url}/collections", content=b'{"name": "planted"}', headers={"Origin": origin})

    problem_of(response, 403)
    assert httpx.get(f"{keyless.url}/collections/planted").status_code == 404


@pytest.mark.parametrize("origin", ["https://app.example", "SAME"])
def test_without_keys_the_documentation_page_and_allowed_origins_may_write(keyless: Served, origin: str) -> None:
    headers = {**JSON, "Origin": keyless.url if origin == "SAME" else origin}
    body = {"name": "allowed", "get_or_create": True}
    assert httpx.post(f"{keyless.url}/collections", json=body, headers=headers).status_code in (200, 201)
