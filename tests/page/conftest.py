"""Fixtures of the page's tests: Chromium, and services with and without keys.

The driver of the browser is in an environment of its own. `make page-test` names its folder as `PAGE_DRIVER`, and the
browser as `CHROMIUM`; without them, no test of this folder is collected.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx
import pytest

from tests.page.bases import Bases
from tests.page.chats import Chats, running_chats
from tests.page.data import fill_store
from tests.page.maps import add_clusters, add_sentences
from tests.page.tab import Tab
from tests.support.changing_site import ChangingSite, changing_site
from tests.support.gateways import start_gateway
from tests.support.held_provider import HeldProvider, held_provider
from tests.support.keyed_services import KeyedService, KeySpec, keyed_service
from tests.support.pages import ROOT
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service

DRIVER = os.environ.get("PAGE_DRIVER", "")
if DRIVER:
    # Behind the packages of this environment, which has some of them, too.
    sys.path.append(DRIVER)
else:
    collect_ignore_glob = ["test_*.py"]

OpenTab: TypeAlias = Callable[..., Tab]
"""Opens a tab at an address below `/ui/` of a service; keyword arguments are options of Playwright's contexts."""


@pytest.fixture(scope="session")
@starts_process
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    # A sandbox needs rights that root in a container does not have.
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
@starts_process
def open_tab(browser: Any) -> Iterator[OpenTab]:
    """Opens tabs. At the end, none of them may have had an error, a violation of the policy, or a foreign request."""
    tabs: list[Tab] = []

    def open_(url: str, path: str = "", **options: Any) -> Tab:
        tab = Tab.open(browser, url, path, **options)
        tabs.append(tab)
        return tab

    yield open_
    for tab in tabs:
        tab.check()
        tab.close()


@pytest.fixture(scope="session")
@starts_process
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store without keys, with a collection of 10,000 documents."""
    with running(start_service(tmp_path_factory.mktemp("page-store"))) as served:
        with httpx.Client(base_url=served.url, timeout=60) as http:
            fill_store(http)
        yield served


@pytest.fixture(scope="session")
@starts_process
def clusters(store: Served) -> Served:
    """The store, with a collection of clusters."""
    with httpx.Client(base_url=store.url, timeout=60) as http:
        add_clusters(http)
    return store


def ingest(http: httpx.Client, base: str, content: bytes) -> None:
    """Ingest a document into a base, and wait for it."""
    sent = {"params": {"documentName": "handbook.md"}, "headers": {"Content-Type": "text/markdown"}}
    http.post(f"{base}/ingest", content=content, **sent).raise_for_status()  # type: ignore[arg-type]
    while http.get(f"{base}/documents/handbook.md").json()["status"] != "completed":
        time.sleep(0.1)


@pytest.fixture(scope="session")
def site() -> Iterator[ChangingSite]:
    """A website that the gateway may fetch."""
    with changing_site() as found:
        yield found


@pytest.fixture(scope="session")
@starts_process
def gateway(tmp_path_factory: pytest.TempPathFactory, site: ChangingSite) -> Iterator[Served]:
    """A gateway without keys, which has ingested the example handbook into two bases."""
    environ = {"RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}"}
    with running(start_gateway(tmp_path_factory.mktemp("page-gateway"), environ)) as served:
        handbook = (ROOT / "examples/handbook/handbook.md").read_bytes()
        with httpx.Client(base_url=served.url, timeout=60) as http:
            http.post("/ragstore/rags", json={"name": "House handbook"}).raise_for_status()
            for base in http.get("/ragstore/rags/descriptors").json():
                path = base["resource"].partition("?")[0].partition("/rags/")[2]
                ingest(http, f"/ragstore/rags/{path}", handbook)
        yield served


@pytest.fixture(scope="session")
@starts_process
def sentences(gateway: Served) -> Served:
    """The gateway, with a collection of the sentences of the handbook."""
    with httpx.Client(base_url=gateway.url, timeout=60) as http:
        add_sentences(http)
    return gateway


@pytest.fixture(scope="session")
def bases(gateway: Served) -> Bases:
    """The knowledge bases of the gateway."""
    return Bases(gateway.url)


@pytest.fixture(scope="session")
@starts_process
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chats]:
    """A gateway with a model server, a base and an assistant."""
    with running_chats(tmp_path_factory.mktemp("page-chats")) as found:
        yield found


@pytest.fixture
def provider() -> Iterator[HeldProvider]:
    """A provider of embeddings whose responses wait until the test releases them, or ends."""
    with held_provider() as found:
        yield found


KEYS: dict[str, KeySpec] = {
    "admin": {"role": "admin"},
    "writer": {"role": "writer"},
    "reader": {"role": "reader"},
    "guest": {"role": "reader", "collections": ("notes*",)},
}


@pytest.fixture(scope="session")
@starts_process
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A store with keys of each role."""
    with keyed_service(tmp_path_factory.mktemp("page-keyed"), KEYS) as started:
        with started.client("admin") as http:
            fill_store(http, documents=100)
        yield started
