"""Engines that are down, that hang, or that reject: clear errors in bounded time, without content or secrets."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.abc import MetaPathFinder

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from yarl import URL

from ragstore.filters.grammar import InvalidFilter
from ragstore.kit.errors import InvalidRequest
from ragstore_client import AsyncClient
from ragstore_gateway.engines.assembly import Engines, validate
from ragstore_gateway.engines.chroma_store import ChromaConnection
from ragstore_gateway.engines.conformance.records import DIMENSION, QUESTION, record
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.engines.engines import ENGINES
from ragstore_gateway.engines.store_parameters import ChromaParameters
from ragstore_gateway.errors import DimensionMismatch, DriverMissing, SecretUnavailable, StoreRejected, StoreUnavailable
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences
from tests.support.fake_providers import Received, fake_provider, json_response
from tests.support.servers import free_port

SECRET = "canary-secret"
CANARY = "canary-text"


def parameters_of(store_type: str, port: int) -> dict[str, object]:
    """Parameters of a store whose engine is at a port."""
    local: dict[str, dict[str, object]] = {
        "chroma": {"baseUrl": f"http://127.0.0.1:{port}", "apiKey": "${env:SECRET}"},
        "pgvector": {"host": "127.0.0.1", "port": port, "password": "${env:SECRET}"},
        "qdrant": {"host": "127.0.0.1", "port": port, "apiKey": "${env:SECRET}"},
        "elasticsearch": {"serverUrl": f"http://127.0.0.1:{port}", "apiKey": "${env:SECRET}"},
        "mongodb-atlas": {"connectionString": "${env:MONGODB}"},
    }
    return local.get(store_type, {})


@asynccontextmanager
async def opened(
    store_type: str,
    port: int,
    environ: Mapping[str, str] | None = None,
    timeout_seconds: float = 0.4,
    dimension: int = DIMENSION,
) -> AsyncIterator[EngineCollection]:
    """A collection of a store whose engine is at a port."""
    found = {
        "SECRET": SECRET,
        "MONGODB": f"mongodb://127.0.0.1:{port}/?directConnection=true&appName={SECRET}",
    }
    secrets = SecretReferences({"env": EnvironmentSource(environ=found if environ is None else environ)})
    async with AsyncClient(f"http://127.0.0.1:{port}", api_key=None) as client:
        stores = Engines(secrets, client, timeout_seconds=timeout_seconds)
        async with stores.running():
            yield stores.open(store_type, parameters_of(store_type, port), "kb-1", dimension)


WITH_A_SERVER = [name for name in ENGINES if name != "in-memory"]


async def _fail(store: EngineCollection) -> list[StoreUnavailable]:
    """The errors of all calls."""
    calls = [
        store.create(),
        store.write([record(1, 0.5, CANARY, secret=CANARY)]),
        store.search(QUESTION, 5, where={"secret": CANARY}),
        store.count({"secret": CANARY}),
        store.delete({"secret": CANARY}),
        store.drop(),
    ]
    failed = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in failed] == [StoreUnavailable] * len(calls), failed
    return [each for each in failed if isinstance(each, StoreUnavailable)]


def _assert_silent(errors: list[StoreUnavailable], store_type: str, log: str) -> None:
    for error in errors:
        assert error.status == 503
        assert f"({store_type})" in error.detail
        shown = f"{error} {error.detail} {error.cause} {error.__cause__}"
        assert SECRET not in shown
        assert CANARY not in shown
    assert SECRET not in log
    assert CANARY not in log


@pytest.mark.parametrize("store_type", WITH_A_SERVER)
async def test_an_engine_that_is_down_is_a_503_of_each_call(store_type: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)  # as the gateway logs libraries at every log level
    with capture_logs() as lines:
        async with opened(store_type, free_port()) as store:
            errors = await _fail(store)
    _assert_silent(errors, store_type, caplog.text + repr(lines))


@pytest.mark.parametrize("store_type", WITH_A_SERVER)
async def test_an_engine_that_never_responds_is_a_503_within_the_time_limit(
    store_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    caplog.set_level(logging.WARNING)  # as the gateway logs libraries at every log level
    server = await asyncio.start_server(never, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    started = time.monotonic()
    async with opened(store_type, port) as store:
        errors = await _fail(store)
        # A bound of the hang, not a measurement: without a limit, a call would never end.
        assert time.monotonic() - started < 30
    server.close()
    _assert_silent(errors, store_type, caplog.text)


@pytest.mark.parametrize("store_type", ["ragstore", "elasticsearch"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, StoreRejected),
        (401, StoreRejected),
        (403, StoreRejected),
        (413, StoreRejected),
        (422, StoreRejected),
        (429, StoreUnavailable),
        (500, StoreUnavailable),
        (502, StoreUnavailable),
        (503, StoreUnavailable),
        (504, StoreUnavailable),
    ],
)
async def test_only_a_call_that_would_be_rejected_again_is_a_rejection(
    store_type: str, status: int, kind: type[StoreUnavailable]
) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        return json_response({"error": CANARY}, status, {"X-Elastic-Product": "Elasticsearch"})

    async with (
        fake_provider(respond) as engine,
        opened(store_type, URL(engine.url).port or 0, timeout_seconds=10.0) as store,
    ):
        with pytest.raises(StoreUnavailable, match=f"with status {status}") as caught:
            await store.count()
    assert type(caught.value) is kind
    _assert_silent([caught.value], store_type, "")


async def test_a_filter_that_only_the_store_rejects_is_a_mistake_of_the_caller() -> None:
    fault = {"path": "$.where.n.$new", "message": "unknown operator '$new'"}
    detail = "Invalid 'where' filter: unknown operator '$new' at $.where.n.$new"

    async def respond(received: Received) -> web.StreamResponse:
        problem = {"status": 400, "title": "Invalid filter", "code": "invalid_filter", "detail": detail}
        return web.json_response({**problem, "errors": [fault]}, status=400, content_type="application/problem+json")

    async with (
        fake_provider(respond) as engine,
        opened("ragstore", URL(engine.url).port or 0, timeout_seconds=10) as store,
    ):
        with pytest.raises(InvalidFilter) as caught:
            await store.count({"n": 1})
    assert (caught.value.status, caught.value.code, caught.value.detail) == (400, "invalid_filter", detail)
    assert [(each.path, each.message) for each in caught.value.field_errors] == [(fault["path"], fault["message"])]


@pytest.mark.parametrize("store_type", [name for name in WITH_A_SERVER if name != "ragstore"])
async def test_a_secret_that_cannot_be_read_is_an_error_of_the_call(store_type: str) -> None:
    async with opened(store_type, free_port(), {}) as store:
        with pytest.raises(SecretUnavailable, match=r"\$\{env:[A-Z]+\}"):
            await store.count()


async def test_a_chroma_connection_that_is_given_up_while_it_starts_ends() -> None:
    before = asyncio.all_tasks()
    connection = ChromaConnection(ChromaParameters(base_url=f"http://127.0.0.1:{free_port()}"), 1.0, "")
    starting = asyncio.create_task(connection.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    left = asyncio.all_tasks() - before
    await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 20)


async def test_a_connection_string_that_is_not_valid_is_an_error_without_its_text() -> None:
    async with opened("mongodb-atlas", free_port(), {"MONGODB": f"mongodb://user:{SECRET}@[broken"}) as store:
        with pytest.raises(StoreUnavailable) as caught:
            await store.count()
    assert SECRET not in f"{caught.value} {caught.value.cause} {caught.value.__context__.__class__}"


@pytest.mark.parametrize(
    ("store_type", "dimension"),
    [("pgvector", 16_000), ("qdrant", 65_536), ("elasticsearch", 4096), ("mongodb-atlas", 8192)],
)
async def test_a_dimension_beyond_the_maximum_of_the_engine_is_an_error_that_says_so(
    store_type: str, dimension: int
) -> None:
    async with opened(store_type, free_port(), dimension=dimension + 1) as store:
        with pytest.raises(DimensionMismatch, match=f"at most {dimension} dimensions, and .* {dimension + 1}"):
            await store.create()


async def test_a_configured_dimension_that_is_not_the_models_is_an_error() -> None:
    secrets = SecretReferences({"env": EnvironmentSource(environ={"SECRET": SECRET})})
    async with AsyncClient("http://127.0.0.1:9", api_key=None) as client:
        given = {"password": "${env:SECRET}", "dimension": "1536"}
        store = Engines(secrets, client).open("pgvector", given, "kb-1", DIMENSION)
        with pytest.raises(DimensionMismatch, match="1536"):
            await store.create()


@pytest.mark.parametrize("store_type", [name for name, engine in ENGINES.items() if engine.module])
async def test_a_driver_is_imported_in_a_thread_by_the_first_call(
    store_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ENGINES[store_type].module
    threads: list[int] = []

    class Finder(MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            if fullname == name:
                threads.append(threading.get_ident())

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    async with opened(store_type, free_port(), timeout_seconds=0.2) as store:
        assert threads == []
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.count()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("store_type", [name for name, engine in ENGINES.items() if engine.extra])
async def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    store_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = ENGINES[store_type].extra
    monkeypatch.setitem(ENGINES, store_type, replace(ENGINES[store_type], driver="a_module_that_is_not_installed"))
    secrets = SecretReferences({"env": EnvironmentSource(environ={})})
    given = parameters_of(store_type, 9)
    with pytest.raises(InvalidRequest) as invalid:
        validate(store_type, given, secrets)
    [field] = invalid.value.field_errors
    assert (field.path, f"ragstore-gateway[{extra}]" in field.message) == ("$.storeType", True)
    async with AsyncClient("http://127.0.0.1:9", api_key=None) as client:
        with pytest.raises(DriverMissing, match=rf"ragstore-gateway\[{extra}\]"):
            Engines(secrets, client).open(store_type, given, "kb-1", DIMENSION)
