"""Errors of a connection say where, what and why, and keep their cause."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from ragstore_client import (
    NO_RETRIES,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    NotFound,
    RetryPolicy,
    TransportError,
    UnexpectedResponse,
)
from tests.client.clients import ClientFactory
from tests.client.fake_servers import Response, scripted_server
from tests.support.servers import Served, free_port

QUICK = RetryPolicy(attempts=3, base=0.01, cap=0.02)


@pytest.fixture
def untrusted() -> Iterator[str]:
    """A server with a self-signed certificate."""
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "untrusted.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the client refuses the handshake
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def failure(make_client: ClientFactory, url: str, **options: object) -> TransportError:
    with pytest.raises(TransportError) as caught:
        make_client(url, **{"retries": NO_RETRIES, **options}).info()
    return caught.value


def test_a_refused_connection_says_so(make_client: ClientFactory) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    error = failure(make_client, url)
    assert isinstance(error, ConnectFailed)
    assert str(error) == f"GET {url}/: connection refused"
    assert isinstance(error.__cause__, httpx.ConnectError)
    assert (error.method, error.url) == ("GET", f"{url}/")


def test_an_unknown_host_says_so(make_client: ClientFactory) -> None:
    error = failure(make_client, "http://nobody.invalid:8080")
    assert isinstance(error, ConnectFailed)
    assert str(error) == "GET http://nobody.invalid:8080/: unknown host"


def test_tls_to_a_plain_port_says_so(make_client: ClientFactory) -> None:
    with scripted_server(Response(200)) as server:
        error = failure(make_client, server.url.replace("http:", "https:"))
    assert isinstance(error, ConnectFailed)
    assert re.search(r": TLS: .*does the server speak plain HTTP\?", str(error))


def test_a_bad_certificate_says_why(make_client: ClientFactory, untrusted: str) -> None:
    error = failure(make_client, untrusted)
    assert isinstance(error, ConnectFailed)
    assert "TLS: the certificate is not valid: self-signed certificate" in str(error)


def test_a_timeout_says_how_many_attempts_took_how_long(make_client: ClientFactory) -> None:
    with scripted_server(Response(delay=5)) as server:
        error = failure(make_client, server.url, timeout=0.1, retries=QUICK)
    assert isinstance(error, CallTimeout)
    assert error.attempts == 3
    assert error.elapsed_seconds >= 0.3
    assert re.fullmatch(
        rf"GET {server.url}/: no complete response within 0.1 s \(3 attempts in \d+\.\d s\)", str(error)
    )
    assert error.__cause__ is not None


def test_a_lost_connection_says_so(make_client: ClientFactory) -> None:
    with scripted_server(Response(drop=True)) as server:
        error = failure(make_client, server.url)
    assert isinstance(error, ConnectionLost)
    assert str(error).startswith(f"GET {server.url}/: connection lost: ")


def test_a_url_in_an_error_has_no_credentials_and_no_query(make_client: ClientFactory) -> None:
    port = free_port()
    client = make_client(f"http://user:secret@127.0.0.1:{port}", retries=NO_RETRIES)
    with pytest.raises(ConnectFailed) as caught:
        client.list_collections(limit=5)
    assert str(caught.value) == f"GET http://127.0.0.1:{port}/collections: connection refused"


def test_a_wrong_base_path_says_that_no_ragstore_responded(make_client: ClientFactory, client_service: Served) -> None:
    for body in (b"<html>Not Found</html>", {"detail": "Not Found"}, b""):
        with scripted_server(Response(404, body)) as server, pytest.raises(NotFound) as caught:
            make_client(server.url + "/wrong").get_collection("abc")
        assert "no ragstore service: check the base URL" in str(caught.value)
        assert caught.value.url == f"{server.url}/wrong/collections/abc"
    with pytest.raises(NotFound, match="Collection 'nowhere' not found") as missing:
        make_client(client_service.url).get_collection("nowhere")
    assert missing.value.code == "collection_not_found"


def test_a_plain_chroma_is_not_taken_as_a_missing_collection(make_client: ClientFactory, chroma: Served) -> None:
    with pytest.raises(NotFound, match="no ragstore service"):
        make_client(chroma.url).collection_exists("abc")


def test_a_page_in_place_of_a_response_is_named(make_client: ClientFactory) -> None:
    with scripted_server(Response(200, b"<html>")) as server, pytest.raises(UnexpectedResponse) as caught:
        make_client(server.url).info()
    assert str(caught.value).startswith(f"GET {server.url}/: HTTP 200 with a body that does not match")


def test_a_problem_keeps_the_call(make_client: ClientFactory) -> None:
    problem = {"title": "Not found", "detail": "no", "code": "collection_not_found", "errors_omitted": 7}
    with scripted_server(Response(404, problem)) as server, pytest.raises(NotFound) as caught:
        make_client(server.url).delete_collection("abc")
    assert (caught.value.method, caught.value.url) == ("DELETE", f"{server.url}/collections/abc")
    assert caught.value.errors_omitted == 7
