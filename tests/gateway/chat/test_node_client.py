"""OpenAI's SDK for Node."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.chat.test_clients import calling
from tests.gateway.chat.test_faults import broken_stream
from tests.support.fake_upstream import Exchange, FakeUpstream, completion, hang, replying, responding
from tests.support.servers import Served

pytestmark = pytest.mark.process

FOLDER: Final = Path(__file__).resolve().parents[1] / "node"


def test_openais_node_sdk(chat_gateway: Served, upstream: FakeUpstream) -> None:
    if not (FOLDER / "node_modules").is_dir():
        pytest.fail("OpenAI's SDK for Node is not installed: make environments")
    seen: list[int] = []

    async def flaky(exchange: Exchange) -> None:
        seen.append(1)
        if len(seen) < 2:
            await exchange.respond(b"{}", status="503 Busy", headers=["Retry-After: 0.05"])
        else:
            await exchange.respond(json.dumps(completion()).encode())

    behaviours = {
        "cited": replying("Hybrid search [1]."),
        "tools": responding(json.dumps(calling("tools")).encode()),
        "limited": responding(b'{"error":{"message":"slow down"}}', "429 Too Many", "Retry-After: 7"),
        "broken": broken_stream,
        "hanging": hang,
        "flaky": flaky,
    }
    for name, behaviour in behaviours.items():
        upstream.on(name, behaviour)
    try:
        completed = subprocess.run(
            ["node", "--test", "--test-reporter=tap", "openai.test.mjs"],
            cwd=FOLDER,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "GATEWAY_URL": chat_gateway.url + "/v1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        for name in behaviours:
            upstream.off(name)
    totals = {word: int(number) for word, number in re.findall(r"^# (\w+) (\d+)$", completed.stdout, flags=re.M)}
    assert totals.get("tests"), completed.stdout + completed.stderr
    assert totals["pass"] == totals["tests"], completed.stdout
