"""Parameters of engines, and the connections that they determine."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.engines.assembly import validate
from ragstore_gateway.engines.names import field_name, metadata_key, physical_name
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences

SECRETS = SecretReferences({"env": EnvironmentSource(environ={"A": "a"})})


OF_LINKED_COLLECTIONS = {"collection", "textField", "titleField", "urlField", "shared"}


@pytest.mark.parametrize(
    ("store_type", "given", "expected"),
    [
        ("ragstore", {}, {"baseUrl": None, "apiKey": None}),
        ("in-memory", {}, {}),
        (
            "chroma",
            {},
            {
                "baseUrl": "http://localhost:8000",
                "tenantName": "default_tenant",
                "databaseName": "default_database",
                "collectionName": "eddi_kb",
                "apiVersion": "V2",
                "apiKey": None,
            },
        ),
        (
            "pgvector",
            {"password": "${env:A}"},
            {
                "host": "localhost",
                "port": 5432,
                "database": "eddi",
                "user": "eddi",
                "password": "${env:A}",
                "table": "eddi_kb",
                "dimension": None,
                "index": "exact",
                "sslMode": "prefer",
            },
        ),
        (
            "qdrant",
            {},
            {"host": "localhost", "port": 6334, "apiKey": None, "useTls": False, "collectionName": "eddi_kb"},
        ),
        (
            "elasticsearch",
            {},
            {
                "serverUrl": "http://localhost:9200",
                "apiKey": None,
                "userName": None,
                "password": None,
                "indexName": "eddi_kb",
            },
        ),
        (
            "mongodb-atlas",
            {"connectionString": "${env:A}"},
            {
                "connectionString": "${env:A}",
                "databaseName": "eddi",
                "collectionName": "eddi_kb",
                "indexName": "vector_index",
            },
        ),
    ],
)
def test_parameters_have_the_names_and_defaults_of_eddi(
    store_type: str, given: dict[str, object], expected: dict[str, object]
) -> None:
    found = msgspec.to_builtins(validate(store_type, given, SECRETS))
    assert {name: value for name, value in found.items() if name not in OF_LINKED_COLLECTIONS} == expected


def test_parameters_may_be_texts() -> None:
    given = {"port": "7000", "useTls": "true", "apiKey": ""}
    found = msgspec.to_builtins(validate("qdrant", given, SECRETS))
    assert (found["port"], found["useTls"], found["apiKey"]) == (7000, True, None)


@pytest.mark.parametrize(
    ("store_type", "given", "path"),
    [
        ("nothing", {}, "$.storeType"),
        ("pgvector", {}, "$.storeParameters.password"),
        ("pgvector", {"password": "canary-literal"}, "$.storeParameters.password"),
        ("pgvector", {"password": "${env:A}", "port": 0}, "$.storeParameters.port"),
        ("pgvector", {"password": "${env:A}", "table": 'x"; DROP TABLE y; --'}, "$.storeParameters.table"),
        ("pgvector", {"password": "${env:A}", "host": "a b"}, "$.storeParameters.host"),
        ("pgvector", {"password": "${env:A}", "nothing": 1}, "$.storeParameters.nothing"),
        ("mongodb-atlas", {}, "$.storeParameters.connectionString"),
        ("mongodb-atlas", {"connectionString": "mongodb://u:canary-literal@h/"}, "$.storeParameters.connectionString"),
        ("elasticsearch", {"serverUrl": "http://user:canary-literal@h"}, "$.storeParameters.serverUrl"),
        ("elasticsearch", {"userName": "u"}, "$.storeParameters"),
        ("qdrant", {"apiKey": "canary-literal"}, "$.storeParameters.apiKey"),
        ("chroma", {"apiVersion": "V1"}, "$.storeParameters.apiVersion"),
        ("ragstore", {"url": "http://x"}, "$.storeParameters.url"),
    ],
)
def test_a_wrong_parameter_is_an_error_that_names_it(store_type: str, given: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate(store_type, given, SECRETS)
    assert [error.path for error in caught.value.field_errors] == [path]
    assert "canary-literal" not in str(caught.value)


def test_configuring_the_store_in_memory_is_logged_as_a_warning() -> None:
    with capture_logs() as lines:
        validate("in-memory", {}, SECRETS)
    [line] = lines
    assert (line["log_level"], "in-memory" in line["event"]) == ("warning", True)


@pytest.mark.parametrize("collection", ["kb-1", "kb-" + "a" * 100, "With.Capitals", "ünïcode"])
def test_names_in_engines_are_short_and_plain(collection: str) -> None:
    name = physical_name("eddi_kb", collection)
    assert len(name) <= 63
    assert name.startswith("eddi_kb_")
    assert name.replace("_", "").replace("-", "").isalnum()
    assert name.isascii()
    assert name == name.lower()


def test_collections_with_similar_names_have_different_names_in_engines() -> None:
    names = ["kb.1", "kb-1", "kb_1", "KB-1", "kb-" + "a" * 100, "kb-" + "a" * 101]
    assert len({physical_name("eddi_kb", name) for name in names}) == len(names)


@pytest.mark.parametrize("key", ["plain_key-1", "a.b", 'a"b', "$a", "a b~", "ключ", "100%"])
def test_a_metadata_key_is_a_plain_field_name_and_is_read_back(key: str) -> None:
    name = field_name(key)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%")
    assert metadata_key(name) == key


def test_names_in_engines_fit_whatever_the_length_of_the_prefix() -> None:
    names = {physical_name("p" * 40, f"kb-{'a' * 60}{number}") for number in range(3)}
    assert len(names) == 3
    assert {len(name) for name in names} == {63}


class _Clients:
    """Clients that were made and closed."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.closed: list[str] = []
        self.closing: asyncio.Queue[str] = asyncio.Queue()

    async def connect(self, secrets: Secrets) -> str:
        self.made.append(secrets["key"])
        return f"{secrets['key']}-{len(self.made)}"

    async def close(self, client: str) -> None:
        self.closed.append(client)
        self.closing.put_nowait(client)


async def test_concurrent_uses_share_one_client() -> None:
    clients = _Clients()
    shared = SharedClient(clients.connect, clients.close, {"key": "${env:A}"}, SECRETS)

    async def use() -> str:
        async with shared.use() as client:
            await asyncio.sleep(0)
            return client

    assert set(await asyncio.gather(*(use() for _ in range(5)))) == {"a-1"}
    await shared.aclose()
    assert (clients.made, clients.closed) == (["a"], ["a-1"])


async def test_a_rotated_secret_makes_a_new_client_and_the_old_one_is_closed_after_its_last_use() -> None:
    environ = {"KEY": "old"}
    clients = _Clients()
    secrets = SecretReferences({"env": EnvironmentSource(environ=environ)})
    shared = SharedClient(clients.connect, clients.close, {"key": "${env:KEY}"}, secrets)
    async with shared.use() as first:
        environ["KEY"] = "new"
        async with shared.use() as second:
            assert (first, second) == ("old-1", "new-2")
            assert clients.closed == []
        assert clients.closed == []
    assert clients.closed == ["old-1"]
    await shared.aclose()
    assert clients.closed == ["old-1", "new-2"]


async def test_an_idle_client_is_closed_and_made_again() -> None:
    clients = _Clients()
    shared = SharedClient(clients.connect, clients.close, {"key": "${env:A}"}, SECRETS, idle_seconds=0.01)
    for number in (1, 2):
        async with shared.use() as client:
            assert client == f"a-{number}"
            await asyncio.sleep(0.05)
            assert f"a-{number}" not in clients.closed
        await asyncio.wait_for(clients.closing.get(), 10)
    assert clients.closed == ["a-1", "a-2"]


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_client_that_cannot_be_closed_fails_no_call(hangs: bool) -> None:
    environ = {"KEY": "old"}
    clients = _Clients()

    async def close(client: str) -> None:
        if hangs:
            await asyncio.Event().wait()
        raise OSError("canary-text")

    secrets = SecretReferences({"env": EnvironmentSource(environ=environ)})
    shared = SharedClient(clients.connect, close, {"key": "${env:KEY}"}, secrets, close_seconds=0.01)
    with capture_logs() as lines:
        async with shared.use():
            environ["KEY"] = "new"
        async with shared.use() as client:
            assert client == "new-2"
        await shared.aclose()
    assert [line["error"] for line in lines] == ["TimeoutError" if hangs else "OSError"] * 2
    assert "canary-text" not in repr(lines)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:9200", "http://localhost:9200"),
        ("search.example:9200/es", "http://search.example:9200/es"),
        ("https://search.example", "https://search.example"),
    ],
)
def test_an_address_without_a_scheme_is_one_of_http(given: str, expected: str) -> None:
    parameters = validate("elasticsearch", {"serverUrl": given}, SECRETS)
    assert msgspec.to_builtins(parameters)["serverUrl"] == expected


@pytest.mark.parametrize(
    "given", ["localhost", "localhost:port", "user@localhost:9200", "localhost:9200?a=b", "ftp://a:1"]
)
def test_other_addresses_are_rejected(given: str) -> None:
    with pytest.raises(InvalidRequest, match="Must be an http:// or https:// address, or host:port"):
        validate("elasticsearch", {"serverUrl": given}, SECRETS)
