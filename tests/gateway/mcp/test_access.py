"""Access by MCP: keys, roles, hidden bases, sessions, web pages, limits."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from tests.gateway.mcp.conftest import CANARY, Agents
from tests.gateway.mcp.test_tools import called, failed
from tests.support.fake_upstream import replying
from tests.support.servers import Served

pytestmark = pytest.mark.process

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def test_a_request_without_a_key_is_told_where_the_metadata_of_the_resource_is(agents: Agents) -> None:
    response = agents.post(INITIALIZE, key="")
    address = f"{agents.served.url}/.well-known/oauth-protected-resource/mcp"
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == f'Bearer realm="ragstore_gateway", resource_metadata="{address}"'
    found = agents.call("GET", "/.well-known/oauth-protected-resource/mcp")
    assert found.json() == {
        "resource": f"{agents.served.url}/mcp",
        "resource_name": "ragstore-gateway",
        "bearer_methods_supported": ["header"],
    }


def test_a_key_may_be_sent_as_on_other_paths(agents: Agents) -> None:
    assert agents.post(INITIALIZE, key="", X_API_Key=agents.keys["reader"]).status_code == 200
    assert agents.post(INITIALIZE, key="", X_API_Key="rsk_wrong").status_code == 401


def test_a_web_page_of_another_origin_may_not_call(agents: Agents) -> None:
    assert agents.post(INITIALIZE, Origin="https://evil.example").status_code == 403
    assert agents.post(INITIALIZE, Origin=agents.served.url).status_code == 200


def test_a_body_that_is_too_large_is_rejected_before_it_is_read(agents: Agents) -> None:
    response = agents.post({**INITIALIZE, "padding": "x" * 5_000_000})
    assert response.status_code == 413
    assert response.json()["code"] == "body_too_large"


def test_there_are_no_sessions_and_no_streams_without_a_request(agents: Agents) -> None:
    assert "Mcp-Session-Id" not in agents.post(INITIALIZE).headers
    response = agents.call("GET", "/mcp", headers={"Accept": "text/event-stream"})
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]


def test_damaged_messages_are_errors_of_the_caller(agents: Agents) -> None:
    assert agents.post([INITIALIZE]).status_code == 400
    assert agents.post("tea").status_code == 400
    assert agents.post({"jsonrpc": "2.0", "id": 1}).status_code == 400


async def test_a_reader_is_not_offered_what_it_may_not_do(agents: Agents) -> None:
    async with agents.client("reader") as client:
        assert "remember" not in {tool.name for tool in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match="There is no such tool"):
            await client.call_tool("remember", {"text": "x", "base": "team_kettle"})


async def test_texts_are_not_stored_unless_the_setting_permits_it(gateway: Served) -> None:
    """The shared gateway has no upstream, too."""
    from mcp import Client

    async with Client(f"{gateway.url}/mcp") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "search",
            "fetch",
            "list_bases",
            "list_documents",
        ]
        with pytest.raises(MCPError, match="There is no such tool"):
            await client.call_tool("remember", {"text": "x"})


async def test_a_hidden_base_and_an_absent_one_are_equal(agents: Agents) -> None:
    async with agents.client("root") as client:
        budget = (await called(client, "search", query="budget of the board", bases=["board"]))["results"][0]
        assert CANARY in (await called(client, "fetch", id=budget["id"]))["text"]
    async with agents.client("writer") as client:
        assert "board" not in {each["base"] for each in (await called(client, "search", query="budget"))["results"]}
        assert "board" not in {each["name"] for each in (await called(client, "list_bases"))["bases"]}
        absent = "There is no knowledge base with the name "
        for name in ("board", "other"):
            assert await failed(client, "search", query="budget", bases=[name]) == f"{absent}{name!r}"
            assert await failed(client, "list_documents", base=name) == f"{absent}{name!r}"
            assert await failed(client, "remember", text="x", base=name) == f"{absent}{name!r}"
            with pytest.raises(MCPError, match=f"{absent}{name!r}"):
                await client.read_resource(f"ragstore://{name}/budget.txt")
        assert await failed(client, "fetch", id=budget["id"]) == "There is no such passage any more: search again"
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            assert not [each for each in page.resources if each.uri.startswith("ragstore://board/")]
            cursor = page.next_cursor
            if cursor is None:
                break


def test_file_search_finds_no_hidden_vector_store(agents: Agents) -> None:
    def search(store: str, key: str) -> httpx.Response:
        tool = {"type": "file_search", "vector_store_ids": [store]}
        body = {"model": "m", "input": "What is the budget?", "tools": [tool]}
        headers = {"Authorization": f"Bearer {agents.keys[key]}"}
        return httpx.post(f"{agents.served.url}/v1/responses", json=body, headers=headers, timeout=30)

    hidden, absent = agents.ids["board"], "00000000-0000-4000-8000-000000000000"
    found = search(hidden, "reader")
    assert found.status_code == 404
    assert found.text.replace(hidden, absent) == search(absent, "reader").text
    assert search(hidden, "root").status_code == 200


async def test_documents_of_another_session_do_not_exist(agents: Agents) -> None:
    uri = "ragstore://team_sessions/upload.txt"
    async with agents.client("writer", X_Session_Id="ann") as client:
        mine = (await called(client, "search", query="upload", bases=["team_sessions"]))["results"][0]
        assert (await called(client, "fetch", id=mine["id"]))["text"] == "The upload of Ann."
        assert (await called(client, "list_documents", base="team_sessions"))["documents"][0]["uri"] == uri
        assert (await client.read_resource(uri)).contents[0].model_dump()["text"] == "The upload of Ann."
    others: list[dict[str, Any]] = [{}, {"X_Session_Id": "bob"}]
    for headers in others:
        async with agents.client("writer", **headers) as client:
            assert (await called(client, "search", query="upload", bases=["team_sessions"]))["results"] == []
            assert await failed(client, "fetch", id=mine["id"]) == "There is no such passage any more: search again"
            assert (await called(client, "list_documents", base="team_sessions"))["documents"] == []
            with pytest.raises(MCPError, match="has no document with the name"):
                await client.read_resource(uri)


async def test_a_question_costs_tokens_of_the_key(agents: Agents) -> None:
    usage = {"prompt_tokens": 5000, "completion_tokens": 0, "total_tokens": 5000}
    agents.upstream.on("m", replying("Three years [1].", usage=usage))
    async with agents.client("poor") as client:
        await called(client, "ask", question="kettle?")
        agents.upstream.on("m", replying("Three years [1]."))
        assert "tokens" in await failed(client, "ask", question="kettle?")
        assert (await called(client, "search", query="kettle", bases=["team_kettle"]))["results"]
