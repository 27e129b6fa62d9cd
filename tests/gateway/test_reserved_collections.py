"""Collections of knowledge bases belong to the gateway: no other caller writes them, whatever its key."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from ragstore.kit.settings import SettingsError
from ragstore_client import Client, Forbidden, NewDocument, NotFound
from ragstore_gateway.settings import load, load_store
from tests.support.fake_upstream import FakeUpstream, fake_upstream, replying
from tests.support.gateways import start_gateway
from tests.support.keyed_services import create_key, keyed_service
from tests.support.metric_samples import samples_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, running, start_service

QUESTION: Final = "How long is the warranty of the kettle?"
FOREIGN: Final = 1100

SCOPES: Final[dict[str, dict[str, Any]]] = {
    "root": {"gateway": {"role": "admin"}, "store": {"role": "admin"}},
    "scoped": {"gateway": {"role": "writer"}, "store": {"role": "writer", "collections": ["mine_*"]}},
    "reading": {"gateway": {"role": "writer"}, "store": {"role": "reader", "collections": ["mine_*"]}},
    "storeless": {"gateway": {"role": "writer"}},
    "writer": {"gateway": {"role": "writer"}, "store": {"role": "writer"}},
    "agent": {"store": {"role": "reader", "collections": ["kb_*"]}},
    "trusted": {"store": {"role": "admin", "collections": ["kb_*"]}, "gateway": {"role": "admin"}},
}


@dataclass
class Shared:
    """A gateway and its store in one process, with one file of keys.

    Attributes:
        served: the gateway.
        keys: the plain keys by name.
        base: path of a knowledge base with one document.
    """

    served: Served
    keys: dict[str, str]
    base: str = ""

    def call(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request."""
        headers = {"Authorization": f"Bearer {self.keys[key]}"} if key else {}
        return httpx.request(method, self.served.url + path, headers=headers, timeout=30, **options)

    def store(self, key: str) -> Client:
        """A client of the store."""
        return Client(self.served.url, api_key=self.keys[key], retries=0)

    def summarize(self, key: str, collection: str) -> httpx.Response:
        """Summarize a text, and store it."""
        body = {"text": f"Kettles. {uuid4()}", "store": True, "collection": collection}
        return self.call(key, "POST", "/summarize", json=body)

    def found(self, key: str = "root") -> list[str]:
        """The texts that a search of the base finds."""
        body = {"query": QUESTION, "minScore": 0.0, "maxResults": 3}
        response = self.call(key, "POST", f"{self.base}/query", json=body)
        assert response.status_code == 200, response.text
        return [result["text"] for result in response.json()["results"]]

    @property
    def collection(self) -> str:
        """The collection of the base."""
        with self.store("trusted") as client:
            [found] = client.list_collections().collections
        return found.name


def write_scopes(file: Path) -> dict[str, str]:
    """Write a file of keys for both services; return the plain keys."""
    plain = {name: f"rsk_{name}" for name in SCOPES}
    lines = (
        {"name": name, "sha256": hashlib.sha256(plain[name].encode()).hexdigest(), "scopes": scopes}
        for name, scopes in SCOPES.items()
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.chmod(0o600)
    return plain


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    """A model server that summarizes."""
    with fake_upstream() as found:
        found.on("m", replying("Kettles [1]."))
        yield found


@pytest.fixture(scope="module")
@starts_process
def shared(upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A gateway with a base of one document, and its store, on one port."""
    folder = tmp_path_factory.mktemp("shared")
    keys = write_scopes(folder / "keys")
    environ = {
        "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAGSTORE_GATEWAY_RAG_COLLECTIONS": "memory,mine_notes,other,other_team,kb_new",
    }
    with running(start_gateway(folder, environ)) as served:
        gateway = Shared(served, keys)
        created = gateway.call("root", "POST", "/ragstore/rags", json={"name": "docs", "minScore": 0.0})
        gateway.base = created.headers["Location"].partition("?")[0]
        ingest(gateway, "Trains leave at noon.")
        yield gateway


def ingest(gateway: Shared, text: str, key: str = "root") -> None:
    """Ingest a document, and wait until it is complete."""
    accepted = gateway.call(key, "POST", f"{gateway.base}/ingest?documentName=good.txt", content=text.encode())
    status = f"{gateway.base}/ingestion/{accepted.json()['ingestionId']}/status"
    deadline = time.monotonic() + 60
    while (found := gateway.call(key, "GET", status).json()["status"]) != "completed":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("key", "collection"),
    [
        ("scoped", "other_team"),
        ("scoped", "memory"),
        ("reading", "mine_notes"),
        ("storeless", "memory"),
        ("storeless", "mine_notes"),
        ("trusted", "memory"),
    ],
)
def test_a_summary_is_not_stored_outside_the_scope_of_the_key_in_the_store(
    shared: Shared, key: str, collection: str
) -> None:
    before = shared.call("root", "GET", f"/collections/{collection}").json()
    response = shared.summarize(key, collection)
    assert (response.status_code, response.json()["code"]) == (403, "forbidden"), response.text
    assert shared.call("root", "GET", f"/collections/{collection}").json() == before


@pytest.mark.parametrize("key", ["root", "writer", "trusted"])
@pytest.mark.parametrize("collection", ["kb_new", "kb_BASE"])
def test_a_collection_of_a_base_is_no_base_that_a_summary_is_stored_in(
    shared: Shared, key: str, collection: str
) -> None:
    name = shared.collection if collection == "kb_BASE" else collection
    before = shared.call("root", "GET", f"/collections/{name}").json()
    response = shared.summarize(key, name)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request"), response.text
    assert shared.call("root", "GET", f"/collections/{name}").json() == before


@pytest.mark.parametrize(("key", "collection"), [("scoped", "mine_notes"), ("writer", "memory"), ("root", "other")])
def test_a_summary_is_stored_within_the_scope_of_the_key_in_the_store(
    shared: Shared, key: str, collection: str
) -> None:
    response = shared.summarize(key, collection)
    assert response.status_code == 200, response.text
    assert response.json()["sources"][0]["chunks"] == 1
    assert shared.call("root", "GET", f"/collections/{collection}").json()["count"] >= 1


def test_a_key_of_the_store_neither_sees_nor_writes_the_collection_of_a_base(shared: Shared) -> None:
    name = shared.collection
    with shared.store("writer") as client:
        assert name not in [each.name for each in client.list_collections().collections]
        with pytest.raises(NotFound):
            client.get_collection(name)
        with pytest.raises(NotFound):
            client.upsert_documents(name, [NewDocument(id="forged", text="Forged.", embedding=[0.1] * 256)])
    with shared.store("root") as client:
        assert client.count(name) == 1
        with pytest.raises(Forbidden, match="reserved for the gateway"):
            client.delete_documents(name, where={"document_name": "good.txt"})
    with shared.store("agent") as client:
        assert client.list_documents(name).documents[0].text == "Trains leave at noon."
    assert shared.found() == ["Trains leave at noon."]


def test_foreign_chunks_that_are_nearer_hide_no_document_and_are_removed(shared: Shared) -> None:
    name = shared.collection
    embedded = shared.call("root", "POST", "/embed", json={"inputs": [QUESTION], "kind": "query"}).json()
    vector = embedded["vectors"][0]
    documents = [
        NewDocument(id=f"f{number}", text="CANARY-FOREIGN", embedding=vector, metadata={"source": "x", "tags": ["a"]})
        for number in range(FOREIGN)
    ]
    with shared.store("trusted") as client:
        client.upsert_documents(name, documents)
        assert shared.found() == ["Trains leave at noon."]
        deadline = time.monotonic() + 30
        while client.count(name) > 1:
            assert shared.found() == ["Trains leave at noon."]
            assert time.monotonic() < deadline
        counted = samples_of(shared.call("root", "GET", "/metrics").text)
        for outcome in ("found", "removed"):
            assert counted[f"ragstore_gateway_stray_chunks_{outcome}_total"] >= FOREIGN
    log = shared.served.log.read_text()
    assert "stray chunks removed" in log
    assert "CANARY-FOREIGN" not in log


@pytest.mark.process
def test_a_gateway_whose_key_does_not_name_the_prefix_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with keyed_service(tmp_path / "store", {"gateway": {"role": "writer"}}) as store:
        environ = {"RAGSTORE_URL": store.served.url, "RAGSTORE_API_KEY": store.keys["gateway"]}
        with running(start_gateway(tmp_path, environ)) as served, httpx.Client(base_url=served.url) as http:
            health = http.get("/health")
            assert (health.status_code, health.json()["store"]["ok"]) == (503, False)
            assert "ragstore keys new gateway --role admin --collections 'kb_*'" in health.json()["store"]["error"]
            assert http.get("/health/ready").status_code == 200
            assert "knowledge bases cannot use the store" in served.log.read_text()
        create_key(store.keys_file, "named", "admin", ("kb_*", "memory"))


@pytest.mark.process
def test_a_gateway_with_a_key_that_names_the_prefix_works_with_a_remote_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    specs: dict[str, Any] = {
        "gateway": {"role": "admin", "collections": ("kb_*", "memory")},
        "other": {"role": "writer"},
    }
    with keyed_service(tmp_path / "store", specs) as store:
        environ = {"RAGSTORE_URL": store.served.url, "RAGSTORE_API_KEY": store.keys["gateway"]}
        with running(start_gateway(tmp_path, environ)) as served:
            gateway = Shared(served, {})
            created = gateway.call("", "POST", "/ragstore/rags", json={"name": "docs"})
            gateway.base = created.headers["Location"].partition("?")[0]
            ingest(gateway, "Trains leave at noon.", "")
            assert gateway.found("") == ["Trains leave at noon."]
            assert httpx.get(served.url + "/health").json()["store"] == {"kind": "remote", "ok": True}
            with store.client("other") as http:
                assert http.get("/collections").json()["total"] == 0
            gateway.call("", "DELETE", f"{gateway.base}?permanent=true")


@pytest.mark.process
def test_a_gateway_in_front_of_an_open_store_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with (
        running(start_service(tmp_path / "store")) as store,
        running(start_gateway(tmp_path, {"RAGSTORE_URL": store.url})) as served,
    ):
        error = httpx.get(served.url + "/health").json()["store"]["error"]
        assert "set RAGSTORE_RESERVED_PREFIXES=none for the store, or give it keys" in error
        base = httpx.post(served.url + "/ragstore/rags", json={"name": "docs"}).headers["Location"].partition("?")[0]
        accepted = httpx.post(f"{served.url}{base}/ingest?documentName=a.txt", content=b"Trains.")
        assert accepted.status_code == 202


@pytest.mark.process
def test_a_gateway_with_another_prefix_than_its_store_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with running(start_service(tmp_path / "store")) as store:
        environ = {"RAGSTORE_URL": store.url, "RAGSTORE_GATEWAY_COLLECTION_PREFIX": "bases_"}
        with pytest.raises(RuntimeError):
            running(start_gateway(tmp_path, environ, port=free_port()))
    log = (tmp_path / "gateway.log").read_text()
    assert "RAGSTORE_GATEWAY_COLLECTION_PREFIX is 'bases_', and the store reserves 'kb_'" in log


@pytest.mark.parametrize(
    ("gateway", "store", "is_right"),
    [("kb_", "kb_", True), ("x_", "kb_", False), ("x_", "kb_,x_", True), ("x_", "none", True), ("kb_", "x_", False)],
)
def test_the_prefixes_of_gateway_and_store_in_one_process_must_match(gateway: str, store: str, is_right: bool) -> None:
    environ = {"RAGSTORE_GATEWAY_COLLECTION_PREFIX": gateway, "RAGSTORE_RESERVED_PREFIXES": store}
    settings = load(environ)
    if is_right:
        assert load_store(settings, environ).reserved == (() if store == "none" else tuple(store.split(",")))
        return
    with pytest.raises(SettingsError, match="RAGSTORE_RESERVED_PREFIXES does not have it"):
        load_store(settings, environ)
