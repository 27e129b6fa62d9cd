"""Fixtures of all tests: a Chroma server, and the service over each kind of store."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Self
from uuid import uuid4

import httpx
import httpx._transports.default as httpx_transports
import pytest
from hypothesis import HealthCheck, settings

from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_chroma, start_service

# On a loaded machine, data is generated slowly; that is no failure of what is tested.
settings.register_profile("ragstore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("ragstore"), max_examples=25)

pytest_plugins = ["tests.support.fast_tier", "tests.support.file_times", "tests.support.second_run"]

# Each client of httpx loads the certificates of all authorities, for http, too: 25 to 60 ms of processor time. Tests
# make thousands of clients; one context serves all of them.
_create_ssl_context = httpx_transports.create_ssl_context  # type: ignore[attr-defined]  # httpx has no public way
httpx_transports.create_ssl_context = lru_cache(_create_ssl_context)  # type: ignore[attr-defined]  # the same

STORES = ("embedded", "remote")

MAX_FILES_OF_A_SERVICE = 6
"""A deleted collection keeps 2.6 MiB and four open files of Chroma, so no service is used for all files."""


class SharedServices:
    """One service over each kind of store, started when it is first used.

    A worker of pytest-xdist runs file by file, and each file's tests over one store and then over the other. pytest
    ends a parametrized fixture when its parameter changes, so that each file would start the service twice.

    Args:
        folders: creates their folders.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._running: dict[str, tuple[ExitStack, Served]] = {}
        self._uses: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stack, _served in self._running.values():
            stack.close()

    def get(self, store: str, environ: Mapping[str, str]) -> Served:
        """The service over one kind of store. Each call is for another file, or another part of one.

        Args:
            store: the kind of store.
            environ: the settings of the service.
        """
        if self._uses[store] % MAX_FILES_OF_A_SERVICE == 0:
            if store in self._running:
                self._running.pop(store)[0].close()
            stack = ExitStack()
            served = stack.enter_context(running(start_service(self._folders.mktemp("service"), environ)))
            self._running[store] = (stack, served)
        self._uses[store] += 1
        return self._running[store][1]


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples of a property, which is 100 but for the fast tier. Register markers of plugins."""
    settings.load_profile("fast" if config.getoption("--fast") else "ragstore")
    for marker in ("benchmark", "vcr"):
        config.addinivalue_line("markers", f"{marker}: set by langchain-tests, whose plugin for it is switched off")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and exempt what was collected from it.

    13,000 tests are 800,000 objects. The collector took 6.5 s of 25 s of processor time while they were collected.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
@starts_process
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Chroma server."""
    with running(start_chroma(tmp_path_factory.mktemp("chroma"))) as served:
        yield served


@pytest.fixture(scope="module")
@starts_process
def own_chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Chroma server of one file, for tests that write much or depend on time.

    Chroma's full-text index merges its segments now and then, within a write. With 170 MB of text in the server, such
    a write took more than 6 s (chromadb 1.5.9, 2026-11).
    """
    with running(start_chroma(tmp_path_factory.mktemp("own_chroma"))) as served:
        yield served


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServices]:
    """The services that the files of a worker share."""
    with SharedServices(tmp_path_factory) as shared:
        yield shared


@pytest.fixture(scope="session", params=STORES)
@starts_process
def service(request: pytest.FixtureRequest, services: SharedServices) -> Served:
    """The service, once over embedded Chroma and once over a Chroma server."""
    environ = {}
    if request.param == "remote":
        chroma: Served = request.getfixturevalue("chroma")
        environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "service_tests"}
    return services.get(request.param, environ)


@pytest.fixture(scope="session")
def http(service: Served) -> Iterator[httpx.Client]:
    """A plain HTTP client on the service."""
    # Connections are left before the service leaves them, which it does after 5 s.
    with httpx.Client(base_url=service.url, timeout=30, limits=httpx.Limits(keepalive_expiry=2)) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A collection's name that no other test uses."""
    return f"t-{uuid4().hex}"


@pytest.fixture
def collection(http: httpx.Client, name: str) -> Iterator[str]:
    """A new, empty collection."""
    http.post("/collections", json={"name": name}).raise_for_status()
    yield name
    http.delete(f"/collections/{name}")
