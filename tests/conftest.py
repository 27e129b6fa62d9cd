"""Fixtures of all tests: a Chroma server, and the service over each kind of store. Also the fast tier.

`pytest --fast` runs the tests that start no process; starting one is then an error. `make test-fast` does that.
"""

from __future__ import annotations

import gc
import multiprocessing.util
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers import Served, running, start_chroma, start_service

# On a loaded machine, data is generated slowly; that is no failure of what is tested.
settings.register_profile("ragstore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ragstore")

STORES = ("embedded", "remote")

PROCESS_FIXTURES = frozenset(
    {
        "chroma",
        "own_chroma",
        "service",
        "client_service",
        "tea_service",
        "pages_service",
        "location",
        "spy_backend",
        "keyed",
        "archive_store",
        "gateway",
        "chat_gateway",
        "storeless_gateway",
        "slow_store_gateway",
        "web_gateway",
        "postgres",
        "database_url",
        "file_gateways",
        "ingesting",
        "sourcing",
        "assistant_gateway",
        "replicas",
        "stoppable",
        "embedderless",
        "vector_service",
        "extractor",
    }
)
"""Fixtures that start a process. Each other one that does so depends on one of these."""

PROCESS_FOLDERS = frozenset(
    {"system", "soak", "fuzz", "node", "deploy", "transfer", "chroma_quirks", "hostile", "old_chroma"}
)
"""Folders whose tests start processes of their own."""

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fast`."""
    parser.addoption("--fast", action="store_true", help="run only tests that start no process")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "process: the test starts a process")
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that start processes, in the fast tier."""
    if not config.getoption("--fast"):
        return
    slow = [item for item in items if _starts_processes(item)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Forbid processes from here on, in the fast tier: pytest and its plugins may start some before."""
    if session.config.getoption("--fast"):
        sys.addaudithook(_refuse_processes)
        multiprocessing.util.spawnv_passfds = _refuse_spawning


def _starts_processes(item: pytest.Item) -> bool:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return (
        folder in PROCESS_FOLDERS
        or item.get_closest_marker("process") is not None
        or not PROCESS_FIXTURES.isdisjoint(fixtures)
    )


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        raise RuntimeError("A test of the fast tier starts a process: mark it with pytest.mark.process")


def _refuse_spawning(path: bytes, args: Sequence[object], passfds: Sequence[int]) -> int:
    raise RuntimeError("A test of the fast tier starts a process: mark it with pytest.mark.process")


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A Chroma server."""
    with running(start_chroma(tmp_path_factory.mktemp("chroma"))) as served:
        yield served


@pytest.fixture(scope="module")
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
