"""The commands `ask` and `ingest`, which call a running gateway."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.fake_providers import Received, fake_provider, vectors_of
from tests.support.gateways import start_gateway
from tests.support.servers import Served, inherited_environ, running

PREFIXES = '{"queryPrefix": "Q: ", "documentPrefix": "D: "}'


async def provided(received: Received) -> web.StreamResponse:
    return vectors_of(received)


def command(store: str, *words: str) -> str:
    """The output of a command of the gateway, with the store at an address."""
    run = subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", *words],
        env={**inherited_environ(), "RAGSTORE_URL": store},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.process
async def test_the_chunks_of_a_file_are_embedded_as_documents_and_a_question_as_a_query(
    gateway: Served, tmp_path: Path
) -> None:
    (tmp_path / "boiler.txt").write_text("The boiler is in the cellar.")
    async with fake_provider(provided) as provider:
        environ = {
            "RAGSTORE_URL": gateway.url,
            "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei",
            "RAGSTORE_GATEWAY_EMBEDDING_URL": provider.url,
            "RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": PREFIXES,
        }
        with running(await asyncio.to_thread(start_gateway, tmp_path, environ)) as served:
            words = ("--url", served.url, "--collection", "of-commands")
            await asyncio.to_thread(command, gateway.url, "ingest", str(tmp_path / "boiler.txt"), *words)
            output = await asyncio.to_thread(command, gateway.url, "ask", "Where is the boiler?", *words)
        embedded = [request.json["inputs"] for request in provider.received if isinstance(request.json, dict)]
    assert embedded == [["D: The boiler is in the cellar."], ["Q: Where is the boiler?"]]
    assert "boiler.txt: The boiler is in the cellar." in output
