"""HTTP calls of assistants, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from aiohttp import web

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.assistant import HttpCall
from ragstore_gateway.retrieval.http_calls import MAX_INPUT, HttpCallFailed, HttpCalls
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response

SECRETS = SecretReferences({"env": EnvironmentSource(environ={"KEY": "CANARY-SECRET"})})
RESULTS = {"results": [{"text": "First hit."}, {"text": "Second hit.", "n": 2}], "a/b": {"~": "odd"}, "none": None}


@pytest.fixture
async def server() -> AsyncIterator[FakeProvider]:
    """A server that the administrator allows."""

    async def respond(_: Received) -> web.StreamResponse:
        return json_response(RESULTS)

    async with fake_provider(respond) as provider:
        yield provider


async def text(server: FakeProvider, question: str = "kettle", *, seconds: float = 10.0, **fields: Any) -> str:
    call = msgspec.convert({"url": f"{server.url}/find", **fields}, HttpCall)
    calls = HttpCalls([server.url.removeprefix("http://")], SECRETS)
    async with calls.running():
        return await calls.text(call, question, seconds)


async def failure(server: FakeProvider, question: str = "kettle", **fields: Any) -> str:
    with pytest.raises(HttpCallFailed) as raised:
        await text(server, question, **fields)
    return raised.value.code


async def test_the_question_is_escaped_in_path_query_headers_and_body(server: FakeProvider) -> None:
    question = 'kettle & "tea"/../x?#'
    await text(
        server,
        question,
        url=f"{server.url}/find/{{userInput}}/now?a={{userInput}}",
        method="POST",
        query={"q": "{userInput}", "k k": "1"},
        headers={"X-About": "about {userInput}", "Authorization": "Bearer ${env:KEY}"},
        body='{"query": "{userInput}"}',
    )
    received = server.received[0]
    assert received.method == "POST"
    path = urlsplit(received.path)
    assert path.path.count("/") == 3
    assert parse_qs(path.query) == {"a": [question], "q": [question], "k k": ["1"]}
    assert received.json == {"query": question}
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["Authorization"] == "Bearer CANARY-SECRET"
    assert received.headers["X-About"] == f"about {question}"


async def test_a_question_of_several_lines_adds_no_header(server: FakeProvider) -> None:
    await text(server, "kettle\r\nX-Evil: 1", headers={"X-About": "about {userInput}"})
    assert server.received[0].headers["X-About"] == "about kettle X-Evil: 1"
    assert "X-Evil" not in server.received[0].headers


async def test_a_form_is_escaped_as_a_form(server: FakeProvider) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    await text(server, "a&b=c d", method="POST", headers=form, body="q={userInput}&k=1")
    assert parse_qs(server.received[0].body.decode()) == {"q": ["a&b=c d"], "k": ["1"]}


async def test_a_long_question_is_cut_in_a_url(server: FakeProvider) -> None:
    await text(server, "x" * 100_000, query={"q": "{userInput}"})
    assert parse_qs(urlsplit(server.received[0].path).query)["q"] == ["x" * MAX_INPUT]


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("/results/0/text", "First hit."),
        ("/results/1", '{"text":"Second hit.","n":2}'),
        ("/a~1b/~0", "odd"),
        ("/none", ""),
    ],
)
async def test_a_pointer_selects_the_part_that_is_used(server: FakeProvider, pointer: str, expected: str) -> None:
    assert await text(server, pointer=pointer) == expected


async def test_without_pointer_the_whole_text_is_used(server: FakeProvider) -> None:
    assert "First hit." in await text(server)


@pytest.mark.parametrize("pointer", ["/absent", "/results/2", "/results/-1", "/results/x", "/results/0/text/y"])
async def test_a_part_that_the_response_does_not_have_is_an_error(server: FakeProvider, pointer: str) -> None:
    assert await failure(server, pointer=pointer) == "pointer_not_found"


async def test_a_status_that_is_no_success_is_an_error(server: FakeProvider) -> None:
    async def respond(_: Received) -> web.StreamResponse:
        return web.Response(status=503, text="CANARY")

    server.respond = respond
    assert await failure(server) == "status_503"


async def test_a_response_that_is_too_large_is_an_error(server: FakeProvider) -> None:
    assert await failure(server, maxBytes=20) == "response_too_large"


async def test_a_slow_server_is_an_error_after_the_calls_own_time(server: FakeProvider) -> None:
    async def respond(_: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.respond = respond
    assert (await failure(server, timeoutSeconds=0.2)).endswith("timeout")
    assert (await failure(server, seconds=0.2)).endswith("timeout")


async def test_a_response_that_is_not_text_is_an_error(server: FakeProvider) -> None:
    async def respond(_: Received) -> web.StreamResponse:
        return web.Response(body=b"\x89PNG\r\n\x1a\n\x00\x00", content_type="image/png")

    server.respond = respond
    assert await failure(server) == "not_text"
    assert await failure(server, pointer="/x") == "not_json"


async def test_a_redirect_is_not_followed(server: FakeProvider) -> None:
    async def respond(_: Received) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"{server.url}/other"})

    server.respond = respond
    assert await failure(server) == "too_many_redirects"
    assert len(server.received) == 1


@pytest.mark.parametrize("question", ["..", "."])
async def test_a_question_cannot_change_the_path(server: FakeProvider, question: str) -> None:
    code = await failure(server, question, url=f"{server.url}/public/{{userInput}}/x")
    assert code == "path_not_allowed"
    assert server.received == []


async def test_a_secret_that_is_not_set_is_an_error_and_nothing_is_sent(server: FakeProvider) -> None:
    assert await failure(server, headers={"Authorization": "${env:ABSENT}"}) == "secret_unavailable"
    assert server.received == []


async def test_a_host_that_is_not_allowed_is_rejected_when_written_and_when_called(server: FakeProvider) -> None:
    calls = HttpCalls(["api.example", "127.0.0.1:1"], SECRETS)
    call = HttpCall(url=f"{server.url}/find")
    with pytest.raises(InvalidRequest) as raised:
        calls.check(call, "$.httpCalls.search")
    assert raised.value.field_errors[0].path == "$.httpCalls.search.url"
    async with calls.running():
        with pytest.raises(HttpCallFailed, match="host_not_allowed"):
            await calls.text(call, "kettle", 5.0)
    assert server.received == []


@pytest.mark.parametrize("url", ["https://api.example/x", "http://API.example:80/{userInput}?a=b"])
def test_an_allowed_host_is_accepted_on_the_usual_ports(url: str) -> None:
    HttpCalls(["api.example"], SECRETS).check(HttpCall(url=url), "$")


@pytest.mark.parametrize("url", ["https://api.example.evil/", "https://api.example:8443/", "https://evil/api.example"])
def test_a_host_that_looks_like_an_allowed_one_is_rejected(url: str) -> None:
    with pytest.raises(InvalidRequest):
        HttpCalls(["api.example"], SECRETS).check(HttpCall(url=url), "$")


def test_a_body_that_is_not_json_is_rejected_when_written() -> None:
    calls = HttpCalls(["a.example"], SECRETS)
    text = {"Content-Type": "text/plain"}
    calls.check(HttpCall(url="http://a.example/", method="POST", body='{"q": "{userInput}"}'), "$")
    calls.check(HttpCall(url="http://a.example/", method="POST", headers=text, body="q: {userInput}"), "$")
    with pytest.raises(InvalidRequest, match="Must be JSON"):
        calls.check(HttpCall(url="http://a.example/", method="POST", body='{"q": {userInput}}'), "$")
