"""A gateway whose knowledge bases follow a website on loopback, and are embedded by a server that counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.changing_site import ChangingSite, changing_site
from tests.support.gateways import start_gateway
from tests.support.ingestion import State, client_of, state_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

MAX_WAITING = 6
"""Less than a run would have in progress."""

ENVIRON = {
    "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": "2",
    "RAGSTORE_GATEWAY_INGESTION_RETRY_SECONDS": "0",
    "RAGSTORE_GATEWAY_INGESTION_MAX_WAITING": str(MAX_WAITING),
    "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0",
}


@pytest.fixture(scope="package")
def served_site() -> Iterator[ChangingSite]:
    """The website."""
    with changing_site() as site:
        yield site


@pytest.fixture
def site(served_site: ChangingSite) -> ChangingSite:
    """The website, empty."""
    served_site.clear()
    return served_site


@pytest.fixture(scope="package")
def sourcing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gateway."""
    return tmp_path_factory.mktemp("sourcing")


@pytest.fixture(scope="package")
@starts_process
def sourcing(sourcing_folder: Path, served_site: ChangingSite) -> Iterator[Served]:
    """A gateway with SQLite, and a store in its process, which may fetch the website."""
    environ = {**ENVIRON, "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{served_site.port}"}
    with running(start_gateway(sourcing_folder, environ)) as served:
        yield served


@pytest.fixture(scope="package")
def state(sourcing: Served, sourcing_folder: Path) -> Iterator[State]:
    """The gateway's database."""
    with state_of(sourcing_folder) as found:
        yield found


@pytest.fixture
async def client(sourcing: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the gateway."""
    async with client_of(sourcing.url) as found:
        yield found
