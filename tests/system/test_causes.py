"""Why Chroma cannot be used is in `ragstore check`, in the first log line, and in `/health` for admins."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ragstore.kit.auth.keys import append_key, new_key
from ragstore.store.key_scope import STORE_KEYS
from tests.support.servers import Served, free_port, running, start_chroma, start_service
from tests.support.transfers import ragstore

NOWHERE: Final = "http://127.0.0.1:9"


def checked(url: str, **environ: str) -> str:
    """The last line of `ragstore check`, which fails."""
    run = ragstore("check", RAGSTORE_CHROMA_URL=url, **environ)
    assert run.exit_code == 1, run.output
    return run.output.splitlines()[-1]


class Other(BaseHTTPRequestHandler):
    """A server that is not Chroma. Its path chooses how it responds."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1]) if self.path.startswith(("/3", "/4", "/5")) else 404
        body = b"<html>Other</html>"
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        if status == 301:
            self.send_header("Location", "https://elsewhere.example/")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815  # http.server chooses the names

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """A server that is not Chroma."""
    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a self-signed certificate."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = HTTPServer(("127.0.0.1", 0), Other)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_name_that_does_not_exist_is_named() -> None:
    assert "no-such-host.invalid:8000: the name cannot be resolved" in checked("http://no-such-host.invalid:8000")


def test_a_refused_connection_is_named() -> None:
    assert "http://127.0.0.1:9: no connection (connection refused" in checked(NOWHERE)


def test_a_certificate_that_is_not_trusted_is_named_with_the_reason(tls: str) -> None:
    assert f"{tls}: the certificate is not trusted (self-signed certificate)" in checked(tls)


def test_tls_to_a_plain_port_is_named(other: str) -> None:
    line = checked(other.replace("http:", "https:"))
    assert "the TLS handshake failed" in line
    assert "the port may be one for http://" in line


def test_plain_http_to_a_tls_port_is_named(tls: str) -> None:
    line = checked(tls.replace("https:", "http:"))
    assert "the port may be one for https://" in line


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("", "/api/v2/pre-flight-checks returned 404 with text/html: not a Chroma server of version 1"),
        ("/wrong/prefix", "/wrong/prefix/api/v2/pre-flight-checks returned 404 with text/html: not a Chroma server"),
        ("/301", "a redirect, which is not followed"),
        ("/401", "the credentials are missing or wrong"),
        ("/407", "a proxy requires credentials"),
        ("/502", "a proxy, or Chroma itself, is overloaded or has no server behind it"),
    ],
)
def test_another_server_a_wrong_path_and_a_proxy_are_named(other: str, path: str, cause: str) -> None:
    assert cause in checked(other + path)


def test_a_cause_does_not_hold_the_credentials() -> None:
    assert "canary" not in checked("http://user:canary@127.0.0.1:9", RAGSTORE_CHROMA_TOKEN="canary")


def test_a_data_folder_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "chroma.sqlite3").write_text("no database")
    line = checked("", RAGSTORE_DATA_PATH=str(folder))
    assert "The data cannot be opened" in line
    assert str(folder) in line


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A service with keys that cannot reach Chroma, and its keys by name."""
    folder = tmp_path_factory.mktemp("cut-off")
    file, keys = folder / "keys", {}
    for name, role, collections in (("admin", "admin", None), ("scoped", "admin", ("a*",)), ("reader", "reader", None)):
        keys[name], key = new_key(name, STORE_KEYS, role=role, **({"collections": collections} if collections else {}))
        append_key(str(file), key, STORE_KEYS)
    environ = {"RAGSTORE_CHROMA_URL": NOWHERE, "RAGSTORE_KEYS_FILE": str(file)}
    with running(start_service(folder, environ, ready=False)) as served:
        yield served, keys


def health(cut_off: tuple[Served, dict[str, str]], name: str) -> dict[str, Any]:
    """The health as a key sees it."""
    served, keys = cut_off
    response = httpx.get(f"{served.url}/health", headers={"X-API-Key": keys[name]})
    assert response.status_code == 503
    found: dict[str, Any] = response.json()
    return found


def test_an_admin_sees_the_cause_in_health(cut_off: tuple[Served, dict[str, str]]) -> None:
    found = health(cut_off, "admin")
    assert found["error"] == "Chroma cannot be reached"
    assert found["cause"] == f"{NOWHERE}: no connection (connection refused: nothing listens on this port)"


@pytest.mark.parametrize("name", ["scoped", "reader"])
def test_other_keys_do_not_see_the_cause(cut_off: tuple[Served, dict[str, str]], name: str) -> None:
    assert "cause" not in health(cut_off, name)


def test_no_other_response_has_the_cause(cut_off: tuple[Served, dict[str, str]]) -> None:
    served, keys = cut_off
    for path in ("/collections", "/health/ready"):
        response = httpx.get(served.url + path, headers={"X-API-Key": keys["admin"]})
        assert response.status_code == 503
        assert "refused" not in response.text


def test_the_first_failure_is_logged_with_its_cause_and_so_is_the_recovery(tmp_path: Path) -> None:
    port = free_port()
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{port}"}
    with ExitStack() as stack:
        served = stack.enter_context(running(start_service(tmp_path, environ, ready=False)))
        for _ in range(2):
            assert httpx.get(f"{served.url}/health/ready").status_code == 503
        stack.enter_context(running(start_chroma(tmp_path, port)))
        served.wait_until_ready("/health/ready")
        assert served.stop() == 0
    logged = [json.loads(line) for line in served.log.read_text().splitlines()]
    (failure,) = [line for line in logged if line["event"] == "chroma unavailable"]
    assert failure["level"] == "warning"
    assert "refused" in failure["cause"]
    assert [line["event"] for line in logged].count("chroma available") == 1
