"""Fixtures: a site on an address that tests treat as public, an inner server, and a gateway with all of its servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstore.kit.auth.keys import append_key, new_key
from ragstore_gateway.keys import GATEWAY_KEYS
from tests.gateway.web.fetchers import INNER, PUBLIC
from tests.support.fake_sites import FakeSite, fake_site
from tests.support.fake_upstream import FakeUpstream, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, running


@pytest.fixture(scope="package")
def public_site() -> Iterator[FakeSite]:
    """A site on the address that tests treat as public."""
    with fake_site(PUBLIC) as site:
        yield site


@pytest.fixture(scope="package")
def inner_site() -> Iterator[FakeSite]:
    """A server on an address that no page may lead to."""
    with fake_site(INNER) as site:
        yield site


@pytest.fixture
def site(public_site: FakeSite) -> FakeSite:
    """The public site, without the requests of other tests."""
    public_site.requests.clear()
    return public_site


@pytest.fixture
def inner(inner_site: FakeSite) -> FakeSite:
    """The inner server, without the requests of other tests."""
    inner_site.requests.clear()
    return inner_site


@dataclass
class WebGateway:
    """A gateway with keys, and the servers that it uses.

    Attributes:
        url: its address.
        keys: the plain keys by name.
        site: a site whose host is allowed.
        inner: a server whose host is not.
        upstream: the model server.
        engine: the search engine.
        closed: an allowed address where nothing listens.
        store_url: its store, which needs no key.
    """

    url: str
    keys: dict[str, str]
    site: FakeSite
    inner: FakeSite
    upstream: FakeUpstream
    engine: FakeSite
    closed: str
    store_url: str
    log: Path

    def call(self, method: str, path: str, key: str = "reader", **options: Any) -> httpx.Response:
        """Send a request."""
        headers = {"Authorization": f"Bearer {self.keys[key]}"} if key else {}
        return httpx.request(method, self.url + path, headers=headers, timeout=30, **options)

    def extract(self, body: Any) -> list[dict[str, Any]]:
        """The items of an extraction."""
        response = self.call("POST", "/extract", json=body)
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    def summarize(self, key: str = "reader", **body: Any) -> httpx.Response:
        """Request a summary."""
        return self.call("POST", "/summarize", key, json=body)


@pytest.fixture(scope="package")
@starts_process
def web_gateway(gateway: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebGateway]:
    """A gateway that may fetch from one site of this machine."""
    folder = tmp_path_factory.mktemp("web")
    keys = {}
    for name, role in (("reader", "reader"), ("writer", "writer"), ("spender", "reader"), ("admin", "admin")):
        keys[name], key = new_key(name, GATEWAY_KEYS, role=role)
        append_key(str(folder / "keys"), key, GATEWAY_KEYS)
    with fake_site() as site, fake_site() as inner, fake_site() as engine, fake_upstream() as upstream:
        site.page("robots.txt", "User-agent: *\nDisallow: /private", "Content-Type: text/plain")
        closed = f"127.0.0.1:{free_port()}"
        environ = {
            "RAGSTORE_URL": gateway.url,
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_UPSTREAM_KEY": "sk-upstream",
            "RAGSTORE_GATEWAY_UPSTREAM_TIMEOUT_SECONDS": "2",
            "RAGSTORE_GATEWAY_CHAT_TOKENS_PER_MINUTE": "1000000",
            "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}, {closed}",
            "RAGSTORE_GATEWAY_FETCH_TIMEOUT_SECONDS": "2",
            "RAGSTORE_GATEWAY_FETCH_MAX_BYTES": "200000",
            "RAGSTORE_GATEWAY_SUMMARY_MAX_CHARACTERS": "4000",
            "RAGSTORE_GATEWAY_RAG_COLLECTIONS": "memory, web-pages, web-texts, other-model",
            "SEARXNG_URL": f"{engine.origin}/searx",
        }
        with running(start_gateway(folder, environ)) as served:
            yield WebGateway(
                served.url, keys, site, inner, upstream, engine, f"http://{closed}", gateway.url, served.log
            )


@pytest.fixture
def web(web_gateway: WebGateway) -> WebGateway:
    """That gateway, without the requests of other tests."""
    for server in (web_gateway.site, web_gateway.inner, web_gateway.engine, web_gateway.upstream):
        server.requests.clear()
    return web_gateway
