"""Bare Chroma for all tests of this folder: one embedded client and one server, with no code of ragstore's between."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import chromadb
import httpx
import pytest
from chromadb.api import ClientAPI
from chromadb.config import Settings

from tests.chroma_quirks.bare import DATABASE_PATH, Instance, persistent_client
from tests.chroma_quirks.quirk import shown_by
from tests.support.servers import Served, running, start_chroma


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failure which code may go."""
    report = yield
    quirk = shown_by(getattr(item, "function", None))
    if report.failed and quirk is not None:
        report.sections.append((f"quirk {quirk.name}", quirk.when_fixed))
    return report


@pytest.fixture(scope="package")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its data and its log."""
    return tmp_path_factory.mktemp("chroma_quirks_server")


@pytest.fixture(scope="package")
def server(server_folder: Path) -> Iterator[Served]:
    """A Chroma server for this folder alone: some quirks reach other collections."""
    with running(start_chroma(server_folder)) as served:
        yield served


@pytest.fixture(scope="package")
def http(server: Served) -> Iterator[httpx.Client]:
    """A plain HTTP client on the server's default database."""
    with httpx.Client(base_url=server.url + DATABASE_PATH, timeout=60) as client:
        yield client


@pytest.fixture(scope="package")
def embedded_instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    """Embedded Chroma."""
    folder = tmp_path_factory.mktemp("chroma_quirks_embedded")
    return Instance(persistent_client(folder), folder, os.getpid())


@pytest.fixture(scope="package")
def server_instance(server: Served, server_folder: Path) -> Instance:
    """Chroma's server, with its Python client."""
    url = httpx.URL(server.url)
    client = chromadb.HttpClient(url.host, url.port or 80, settings=Settings(anonymized_telemetry=False))
    return Instance(client, server_folder / "chroma", server.process.pid)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> ClientAPI:
    """A client of Chroma; `shows` says of which."""
    instance: Instance = request.getfixturevalue(f"{request.param}_instance")
    return instance.client


@pytest.fixture
def instance(request: pytest.FixtureRequest, client: ClientAPI) -> Instance:
    """The Chroma that `client` is a client of."""
    both: list[Instance] = [request.getfixturevalue(f"{name}_instance") for name in ("embedded", "server")]
    return next(one for one in both if one.client is client)
