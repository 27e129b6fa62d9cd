"""The gateway's client for Node, against the shared gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from ragstore_client.gateway import MEDIA_TYPES
from tests.support.node_build import build, run_in, run_node_tests
from tests.support.servers import Served

pytestmark = pytest.mark.process

AI_SDK: Final = Path(__file__).resolve().parents[1] / "node"


def test_the_node_client_of_the_gateway(gateway: Served) -> None:
    build()
    media_types = json.dumps(MEDIA_TYPES)
    run_node_tests("gateway", RAGSTORE_TEST_GATEWAY_URL=gateway.url, RAGSTORE_TEST_MEDIA_TYPES=media_types)


def test_the_search_tool_of_the_ai_sdk(gateway: Served) -> None:
    build()
    printed = json.loads(run_in(AI_SDK, "node", "ai_sdk_tool.mjs", GATEWAY_URL=gateway.url))
    (tool,) = printed["offered"]
    assert tool["inputSchema"]["required"] == ["query"]
    assert tool["description"].startswith("Searches a knowledge base (ai-sdk-")
    (passage,) = printed["result"]["value"]["passages"]
    assert (passage["source"], passage["url"]) == ("lift.txt", "https://example.com/lift")
    assert passage["text"] == "The lift is tested every year."
    assert printed["wrong"] == "error-text"
