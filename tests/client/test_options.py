"""Options of single calls: `client.with_options(...)`."""

from __future__ import annotations

import pytest

from ragstore_client import NO_RETRIES, BadGateway, CallTimeout
from tests.client.clients import ClientFactory
from tests.client.fake_servers import Response, scripted_server
from tests.client.spies import ConnectionSpy

PROBE = Response(200, {"status": "ok"})


def test_headers_are_added_to_those_of_the_client(make_client: ClientFactory) -> None:
    with scripted_server(PROBE) as server:
        client = make_client(server.url, headers={"x-client": "1"})
        client.with_options(headers={"X-Request-ID": "r-1"}).live()
        client.live()
    first, second = (request.headers for request in server.requests)
    assert (first["x-client"], first["x-request-id"]) == ("1", "r-1")
    assert second["x-request-id"] != "r-1"


def test_a_time_limit_is_that_of_some_calls_only(make_client: ClientFactory) -> None:
    with scripted_server(Response(200, {"status": "ok"}, delay=0.5)) as server:
        client = make_client(server.url, retries=NO_RETRIES)
        with pytest.raises(CallTimeout):
            client.with_options(timeout=0.1).live()
        assert client.live().status == "ok"


def test_retries_are_those_of_some_calls_only(make_client: ClientFactory) -> None:
    with scripted_server(Response(502), PROBE) as server:
        with pytest.raises(BadGateway):
            make_client(server.url).with_options(retries=NO_RETRIES).live()
        assert len(server.requests) == 1


def test_the_connections_are_those_of_the_client(make_client: ClientFactory) -> None:
    server = ConnectionSpy(lambda _: PROBE)
    with server:
        client = make_client(server.url)
        client.live()
        other = client.with_options(timeout=5)
        other.live()
        assert len(server.peers) == 1
        other.close()
        client.live()
    assert len(server.peers) == 1
