"""Agents with a client of others: FastMCP calls the tools, and a model decides which."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from fastmcp import Client
from openai import AsyncOpenAI

from tests.gateway.mcp.conftest import KETTLE, Agents
from tests.support.fake_upstream import Exchange, completion

pytestmark = pytest.mark.process

MAX_STEPS: Final = 5


def calling(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A completion that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    body = completion("")
    message = {"role": "assistant", "content": None}
    calls = [{"id": f"call_{name}", "type": "function", "function": function}]
    body["choices"] = [{"index": 0, "message": {**message, "tool_calls": calls}, "finish_reason": "tool_calls"}]
    return body


async def reader(exchange: Exchange) -> None:
    """A model that searches, reads the document that was found, and cites it."""
    messages = exchange.request.json["messages"]
    results = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    if not results:
        body = calling("search", {"query": "warranty of the kettle", "limit": 1})
    elif len(results) == 1:
        body = calling("fetch", {"id": results[0]["results"][0]["id"]})
    else:
        found = results[0]["results"][0]
        body = completion(f"{results[1]['text'][:45]} ({found['title']}, {found['url']})")
    await exchange.respond(json.dumps(body).encode())


async def run_agent(tools: Client[Any], model: AsyncOpenAI, question: str) -> tuple[str, list[str]]:
    """The reply of a model that may call the tools, and the names of the tools that it has called."""
    offered: Any = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}}
        for tool in await tools.list_tools()
    ]
    messages: list[Any] = [{"role": "user", "content": question}]
    called: list[str] = []
    for _ in range(MAX_STEPS):
        response = await model.chat.completions.create(model="scripted", messages=messages, tools=offered)
        message = response.choices[0].message
        if not message.tool_calls:
            return message.content or "", called
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            assert call.type == "function"
            called.append(call.function.name)
            result = await tools.call_tool(call.function.name, json.loads(call.function.arguments))
            (content,) = result.content
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content.model_dump()["text"]})
    raise AssertionError("The agent does not end")


async def test_an_agent_finds_a_passage_reads_its_document_and_cites_it(agents: Agents) -> None:
    agents.upstream.on("scripted", reader)
    async with (
        AsyncOpenAI(base_url=agents.upstream.url, api_key="unused") as model,
        Client(f"{agents.served.url}/mcp", auth=agents.keys["reader"]) as tools,
    ):
        reply, called = await run_agent(tools, model, "How long is the warranty of the kettle?")
    assert called == ["search", "fetch"]
    address = f"{agents.served.url}/ragstore/rags/{agents.ids['team_kettle']}/passages/"
    assert reply.startswith(f"The warranty of the kettle lasts three years. (kettle.txt, {address}")


async def test_fastmcp_reads_results_and_resources(agents: Agents) -> None:
    async with Client(f"{agents.served.url}/mcp", auth=agents.keys["reader"]) as client:
        result = await client.call_tool("search", {"query": "warranty of the kettle", "limit": 1})
        contents = await client.read_resource("ragstore://team_kettle/kettle.txt")
    assert result.structured_content is not None
    assert result.structured_content["results"][0]["text"] == KETTLE
    assert contents[0].model_dump()["text"] == KETTLE
