"""The pages can be followed one after the other: no port has two servers of different kinds."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.pages import PAGES, blocks_of

SERVERS = {
    "the store": r"\bRAGSTORE_PORT=(\d+)",
    "the gateway": r"\bRAGSTORE_GATEWAY_PORT=(\d+)",
    "the service on the kit": r"\bTEA_PORT=(\d+)",
    "the example model": r"extractive_model\.py --port (\d+)",
    "a website": r"http\.server (\d+)",
}
"""The servers that blocks start, and a pattern of their ports."""


def test_no_port_has_servers_of_two_kinds() -> None:
    found: dict[str, set[str]] = defaultdict(set, {"8080": {"the store"}, "8090": {"the gateway"}})
    for page in PAGES:
        for block in blocks_of(page):
            for server, pattern in SERVERS.items():
                for port in re.findall(pattern, block.code):
                    found[port].add(server)
    assert {port: servers for port, servers in found.items() if len(servers) > 1} == {}
    assert {"8095", "8098", "8099"} <= found.keys()
