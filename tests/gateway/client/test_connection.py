"""Address, key, time limits and retries of the gateway's client, over a server with scripted responses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragstore_client import TransportError, Unauthorized, UnexpectedResponse
from ragstore_client.gateway import KnowledgeBase, TextDocument
from tests.client.fake_servers import LocalServer, Request, Response
from tests.gateway.client.conftest import GatewayClientFactory

ACCESS = {
    "version": "0.2.0",
    "keysRequired": True,
    "key": {"name": "team", "gateway": {"role": "writer"}},
    "chat": False,
    "formats": [".txt"],
    "limits": {"maxBodyBytes": 1, "maxSmallBodyBytes": 1, "maxDocumentBytes": 1},
}
UNAUTHORIZED = {
    "type": "about:blank",
    "title": "Unauthorized",
    "status": 401,
    "code": "unauthorized",
    "detail": "no key",
}
COMPLETED = {"ingestionId": "i", "status": "completed", "chunks": 1, "progress": 1, "unchanged": False}


def in_turn(*responses: Response) -> Callable[[Request], Response]:
    """Each request has the next response."""
    remaining = iter(responses)
    return lambda _: next(remaining)


def test_the_address_and_the_key_come_from_the_environment(
    make_gateway_client: GatewayClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer(lambda _: Response(body=ACCESS)) as server:
        monkeypatch.setenv("RAGSTORE_GATEWAY_URL", server.url)
        monkeypatch.setenv("RAGSTORE_GATEWAY_API_KEY", "rsk_of_the_environment")
        access = make_gateway_client(None).access()
        make_gateway_client(None, api_key=None).access()
    assert access.key is not None
    assert access.key.gateway is not None
    assert (access.key.name, access.key.gateway.role) == ("team", "writer")
    authorizations = [request.headers.get("authorization") for request in server.requests]
    assert authorizations == ["Bearer rsk_of_the_environment", None]


def test_a_wrong_key_is_unauthorized(make_gateway_client: GatewayClientFactory) -> None:
    with (
        LocalServer(lambda _: Response(401, UNAUTHORIZED)) as server,
        pytest.raises(Unauthorized) as raised,
    ):
        make_gateway_client(server.url, api_key="rsk_wrong").access()
    assert raised.value.code == "unauthorized"


def test_a_read_is_retried_and_a_write_of_a_configuration_is_not(make_gateway_client: GatewayClientFactory) -> None:
    with LocalServer(in_turn(Response(drop=True), Response(body=ACCESS), Response(drop=True))) as server:
        client = make_gateway_client(server.url)
        assert client.access().version == "0.2.0"
        with pytest.raises(TransportError):
            client.bases.create(KnowledgeBase(name="manuals"))
    assert [request.method for request in server.requests] == ["GET", "GET", "POST"]


def test_a_read_that_takes_longer_than_its_time_limit_fails(make_gateway_client: GatewayClientFactory) -> None:
    with (
        LocalServer(lambda _: Response(body=ACCESS, delay=1)) as server,
        pytest.raises(TransportError),
    ):
        make_gateway_client(server.url, retries=0).access(timeout=0.1)


def test_a_response_without_the_version_of_a_configuration_does_not_match_the_contract(
    make_gateway_client: GatewayClientFactory,
) -> None:
    with (
        LocalServer(lambda _: Response(body={"name": "manuals"})) as server,
        pytest.raises(UnexpectedResponse, match="headers that do not match the contract"),
    ):
        make_gateway_client(server.url).bases.get("id")


def test_a_document_is_sent_again_as_a_whole_while_the_gateway_is_busy(
    make_gateway_client: GatewayClientFactory, tmp_path: Path
) -> None:
    content = b"The lift is tested every year. " * 20_000
    (tmp_path / "lift.txt").write_bytes(content)
    busy = Response(429, {"title": "", "status": 429, "code": "queue_full", "detail": ""}, {"retry-after": "0"})
    responses = in_turn(
        busy, Response(drop=True), Response(202, {"ingestionId": "i"}), Response(body={"ingestions": [COMPLETED]})
    )
    with LocalServer(responses) as server:
        done = make_gateway_client(server.url).ingest_file("base", tmp_path / "lift.txt")
    assert (done.name, done.chunks) == ("lift.txt", 1)
    assert [request.body for request in server.requests[:3]] == [content] * 3


def test_documents_of_one_request_that_the_queue_has_no_room_for_are_sent_again(
    make_gateway_client: GatewayClientFactory,
) -> None:
    full = {"documentName": "b.txt", "code": "queue_full", "detail": "full"}
    accepted = in_turn(
        Response(body={"documents": [{"documentName": "a.txt", "ingestionId": "i"}, full]}),
        Response(body={"documents": [{"documentName": "b.txt", "ingestionId": "j"}]}),
    )
    ended = Response(body={"ingestions": [COMPLETED, {**COMPLETED, "ingestionId": "j"}]})
    documents = [TextDocument("a.txt", "First."), TextDocument("b.txt", "Second.")]
    # The states may be read before the second request is sent.
    with LocalServer(lambda request: accepted(request) if request.body else ended) as server:
        make_gateway_client(server.url).ingest_all("base", documents).raise_for_failures()
    assert [request.body.count(b"\n") for request in server.requests if request.body] == [2, 1]


def test_a_client_with_other_options_shares_the_connection(make_gateway_client: GatewayClientFactory) -> None:
    with LocalServer(lambda _: Response(body=ACCESS)) as server:
        client = make_gateway_client(server.url, headers={"x-team": "search"})
        client.with_options(headers={"x-other": "1"}).access(request_id="request-1")
    (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["x-team"], headers["x-other"], headers["x-request-id"]) == ("search", "1", "request-1")
