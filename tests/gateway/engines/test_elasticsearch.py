"""Elasticsearch beyond the conformance suite: refreshes, version conflicts, shards, the depth of queries."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.engines.conformance import Target
from ragstore_gateway.engines.conformance.records import QUESTION, numbers, record
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.errors import StoreUnavailable
from tests.gateway.engines.conftest import new_collection
from tests.support.elasticsearch_server import ElasticsearchServer, elasticsearch_server


@pytest.fixture
async def index(request: pytest.FixtureRequest, elasticsearch: ElasticsearchServer) -> AsyncIterator[EngineCollection]:
    """A new collection. The server is as before afterwards."""
    async with new_collection(request, "elasticsearch") as store:
        try:
            yield store
        finally:
            elasticsearch.product = True
            elasticsearch.major = 9
            elasticsearch.failed_shards = 0


@pytest.mark.parametrize("major", [8, 9])
async def test_versions_8_and_9_are_supported(
    request: pytest.FixtureRequest, index: EngineCollection, elasticsearch: ElasticsearchServer, major: int
) -> None:
    assert await index.count() == 0
    elasticsearch.major = major
    async with new_collection(request, "elasticsearch") as store:
        await store.write([record(1), record(2)])
        assert await store.delete({"document_id": "d2"}) == 1
        assert numbers(await store.search(QUESTION, 5)) == [1]


async def test_a_deletion_removes_the_records_of_a_write_that_was_not_acknowledged(
    index: EngineCollection, elasticsearch: ElasticsearchServer
) -> None:
    elasticsearch.fails_after_write = True
    with pytest.raises(StoreUnavailable):
        await index.write([record(1)])
    assert await index.delete({"document_id": "d1"}) == 1
    await index.write([record(2)])
    assert await index.count() == 1


async def test_records_that_change_while_they_are_deleted_are_deleted(
    index: EngineCollection, elasticsearch: ElasticsearchServer
) -> None:
    await index.write([record(number, 0.5, kind="old") for number in range(5)])
    elasticsearch.conflicts = 2
    assert await index.delete({"kind": "old"}) == 5
    assert await index.count() == 0


async def test_a_count_without_all_shards_is_an_error(
    index: EngineCollection, elasticsearch: ElasticsearchServer
) -> None:
    elasticsearch.failed_shards = 1
    with pytest.raises(StoreUnavailable, match="shards"):
        await index.count()


async def test_a_server_that_is_not_elasticsearch_is_an_error_that_says_so(
    request: pytest.FixtureRequest, index: EngineCollection, elasticsearch: ElasticsearchServer
) -> None:
    assert await index.count() == 0  # a client checks the first response only
    elasticsearch.product = False
    with pytest.raises(StoreUnavailable, match="is not Elasticsearch"):
        async with new_collection(request, "elasticsearch"):
            pass


async def test_a_document_that_another_program_wrote_is_an_error_that_says_so(
    index: EngineCollection, elasticsearch: ElasticsearchServer
) -> None:
    await index.write([record(1)])
    written = next(path for method, path, _ in reversed(elasticsearch.requests) if "/_bulk" in path)
    elasticsearch.put(written.split("/")[1], "foreign", {"vector": [1, 0, 0, 0], "values": {}, "numbers": {}})
    with pytest.raises(StoreUnavailable, match="did not write"):
        await index.search(QUESTION, 5)


def nested(levels: int) -> Where:
    """A filter in which `$or` and `$and` alternate."""
    where: Where = {"n": 1}
    for level in range(levels):
        where = {"$or" if level % 2 else "$and": [{"n": level}, where]}
    return where


async def test_a_filter_that_is_too_deep_for_elasticsearch_is_a_400(index: EngineCollection) -> None:
    await index.write([record(1, 0.5, n=28)])
    assert numbers(await index.search(QUESTION, 5, where={"$or": [{"n": 28}, nested(28)]})) == [1]
    for call in (
        index.search(QUESTION, 5, where=nested(30)),
        index.count(nested(30)),
        index.delete(nested(30)),
    ):
        with pytest.raises(InvalidRequest, match="levels"):
            await call


async def test_one_and_within_another_one_does_not_count_as_a_level(index: EngineCollection) -> None:
    where: Where = {"n": 1}
    for _ in range(32):
        where = {"$and": [where, {"n": {"$gt": 0}}]}
    await index.write([record(1, 0.5, n=1), record(2, 0.5, n=2)])
    assert numbers(await index.search(QUESTION, 5, where=where)) == [1]


def certified(folder: Path, names: str) -> ssl.SSLContext:
    """The side of a server, with a certificate of its own for some names, in `cert.pem`."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    return tls


@pytest.mark.process
@pytest.mark.parametrize(("names", "is_accepted"), [("DNS:localhost", False), ("IP:127.0.0.1", True)])
async def test_a_certificate_is_compared_with_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, is_accepted: bool
) -> None:
    tls = certified(tmp_path, names)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with elasticsearch_server(tls) as server:
        engine = Target("elasticsearch", {"serverUrl": server.url})
        async with engine.stack:
            store = await engine.open("encrypted")
            if is_accepted:
                await store.create()
                assert await store.count() == 0
            else:
                with pytest.raises(StoreUnavailable, match="does not respond"):
                    await store.create()
                assert server.requests == []
