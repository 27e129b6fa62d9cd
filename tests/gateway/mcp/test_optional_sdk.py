"""The SDK is an extra: it is loaded when it is used, and its absence is reported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from litestar.types import HTTPScope

from ragstore_gateway.errors import NotConfigured
from ragstore_gateway.mcp.endpoint import McpEndpoint
from ragstore_gateway.settings import Settings


@pytest.mark.process
def test_the_sdk_is_loaded_by_the_first_request_only() -> None:
    code = "import sys, ragstore_gateway.app, ragstore_gateway.commands.cli; print('mcp' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "False"


def test_without_the_extra_a_request_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = McpEndpoint(Settings(), None, None, None, lambda _: True, 1.0)  # type: ignore[arg-type]  # not used
    scope: HTTPScope = {"headers": [], "scheme": "http"}  # type: ignore[typeddict-item]  # what the check reads
    endpoint.check(scope)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotConfigured, match=r"pip install 'ragstore-gateway\[mcp\]'"):
        endpoint.check(scope)
