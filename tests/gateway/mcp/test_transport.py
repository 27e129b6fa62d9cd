"""The transports: Streamable HTTP and standard input and output; what the log has."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from ragstore_gateway.settings import KEY_VARIABLE
from tests.gateway.mcp.conftest import CANARY, Agents, Mode
from tests.gateway.mcp.test_tools import called, failed
from tests.support.fake_upstream import Exchange, replying

pytestmark = pytest.mark.process


def command(agents: Agents, key: str = "writer") -> StdioServerParameters:
    """The command as a desktop program starts it."""
    environ = {KEY_VARIABLE: agents.keys[key], "PYTHONPATH": ":".join(sys.path)}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "ragstore_gateway", "mcp", "--url", agents.served.url], env=environ
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_serves_the_tools_and_resources_of_the_gateway(agents: Agents, mode: Mode) -> None:
    reports: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async with Client(command(agents), mode=mode) as client:
        assert "cite the title" in (client.instructions or "")
        assert "remember" in {tool.name for tool in (await client.list_tools()).tools}
        given = {"text": f"The {mode} door is blue.", "base": "team_kettle"}
        assert not (await client.call_tool("remember", given, progress_callback=report)).is_error
        passage = (await called(client, "search", query=f"{mode} door", limit=1))["results"][0]
        assert passage["text"] == f"The {mode} door is blue."
        assert "$.limit" in await failed(client, "search", query="door", limit=0)
        assert (await client.list_resource_templates()).resource_templates
        assert (await client.list_resources()).resources is not None
        contents = (await client.read_resource(f"ragstore://team_kettle/{passage['title']}")).contents
        assert contents[0].model_dump()["text"] == passage["text"]
    assert reports[-1] == 1.0


@pytest.mark.parametrize(
    ("url", "key", "error"),
    [("http://127.0.0.1:1", "", "cannot be reached"), ("", "rsk_wrong", "set RAGSTORE_GATEWAY_API_KEY")],
)
def test_a_command_that_cannot_use_the_gateway_ends_with_one_line(
    agents: Agents, url: str, key: str, error: str
) -> None:
    environ = {KEY_VARIABLE: key, "PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", "mcp", "--url", url or agents.served.url],
        env=environ,
        input="",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert error in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_caller_that_leaves_ends_the_work_on_its_call(agents: Agents, mode: Mode) -> None:
    """A cancelled call closes its connection. With the protocol of 2025, the client closes it at its end."""
    received = threading.Event()
    exchanges: list[Exchange] = []

    async def hang(exchange: Exchange) -> None:
        exchanges.append(exchange)
        received.set()
        await exchange.until_closed()

    agents.upstream.on("m", hang)
    try:
        async with agents.client(mode=mode) as client:
            call = asyncio.create_task(client.call_tool("ask", {"question": "kettle?"}))
            assert await asyncio.to_thread(received.wait, 20)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            if mode == "auto":
                assert await asyncio.to_thread(exchanges[0].request.closed.wait, 20)
        assert await asyncio.to_thread(exchanges[0].request.closed.wait, 20)
    finally:
        agents.upstream.on("m", replying("Three years [1]."))


async def test_many_calls_run_beside_each_other(agents: Agents) -> None:
    async with agents.client() as client:
        calls = [called(client, "search", query=f"kettle {number}", limit=1) for number in range(20)]
        found = await asyncio.gather(*calls)
    assert all(each["results"] for each in found)


async def test_the_log_names_the_tool_and_no_content(agents: Agents) -> None:
    async with agents.client() as client:
        await called(client, "search", query=f"{CANARY} question", limit=1)
        assert "$.limit" in await failed(client, "search", query=CANARY, limit=CANARY)
    deadline = time.monotonic() + 20
    while '"tool": "search"' not in agents.log:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    lines: list[dict[str, Any]] = [json.loads(line) for line in agents.log.splitlines() if '"/mcp"' in line]
    assert {"search"} <= {line.get("tool") for line in lines}
    assert CANARY not in agents.log
