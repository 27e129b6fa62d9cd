"""A key that patterns limit to some knowledge bases: a hidden base and an absent one are equal for it, to the byte."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from tests.support.fake_upstream import FakeUpstream, fake_upstream, replying
from tests.support.gateways import start_gateway, write_scoped_keys
from tests.support.pages import ROOT
from tests.support.process_fixtures import starts_process
from tests.support.servers import running

pytestmark = pytest.mark.process

TEXT: Final = "The kettle has a warranty of three years."
QUESTION: Final = "How long is the warranty of the kettle?"
VOLATILE: Final = {"date", "x-request-id", "server-timing", "content-length"}
"""Headers that two requests do not share. The length follows from the body."""

ROLES: Final = ("reader", "writer", "admin")
OPERATIONS: Final = json.loads((ROOT / "openapi/gateway.json").read_text())["paths"]
BELOW: Final = [
    (method, path)
    for path, methods in OPERATIONS.items()
    for method in methods
    if path.startswith(("/ragstore/rags/{", "/v1/vector_stores/{"))
]
"""The operations on a knowledge base, whose id is in their path."""


@dataclass
class Gateway:
    """A gateway with a base that the keys of a team do not see, and one that they see.

    Attributes:
        http: a client of the gateway, without a key.
        upstream: its model server.
        keys: the plain keys by name: `root`, and `reader`, `writer`, `admin` of the team.
        values: the parameters of paths below the hidden base.
        hidden: id of the hidden base.
        visible: id of the other one.
    """

    http: httpx.Client
    upstream: FakeUpstream
    keys: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    hidden: str = ""
    visible: str = ""

    def call(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request."""
        headers = {"Authorization": f"Bearer {self.keys[key]}", **options.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **options)

    def create_base(self, name: str, key: str = "root", **fields: Any) -> str:
        """Create a base; its id."""
        response = self.call(key, "POST", "/ragstore/rags", json={"name": name, "minScore": 0.0, **fields})
        assert response.status_code == 201, response.text
        return response.headers["Location"].rpartition("/")[2].partition("?")[0]

    def ingest(self, base: str, text: str = TEXT, key: str = "root") -> str:
        """Ingest a document, and wait until it is complete; the id of the ingestion."""
        path = f"/ragstore/rags/{base}/ingest?documentName=kettle.txt"
        id: str = self.call(key, "POST", path, content=text.encode()).json()["ingestionId"]
        self.wait(lambda: self.call(key, "GET", f"/ragstore/rags/{base}/ingestion/{id}/status").json()["status"])
        return id

    def upload(self, key: str = "root", name: str = "notes.txt") -> str:
        """Upload a file; its id."""
        form = {"purpose": "assistants"}
        id: str = self.call(key, "POST", "/v1/files", files={"file": (name, b"Notes.")}, data=form).json()["id"]
        return id

    @staticmethod
    def wait(state: Any) -> None:
        """Wait until a state is `completed`."""
        deadline = time.monotonic() + 60
        while (found := state()) != "completed":
            assert found != "failed"
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def snapshot(self) -> object:
        """The contents of the hidden base."""
        paths = ("", "/documents", "/sources/handbooks/files", "/sources/handbooks/runs")
        found = [self.call("root", "GET", f"/ragstore/rags/{self.hidden}{path}").json() for path in paths]
        store = f"/v1/vector_stores/{self.hidden}"
        batch = f"{store}/file_batches/{self.values['batch_id']}"
        return found, [self.call("root", "GET", path).json() for path in (store, f"{store}/files", batch)]

    def chat(self, key: str, model: str) -> httpx.Response:
        """Ask a model about the kettle."""
        return self.call(
            key,
            "POST",
            "/v1/chat/completions",
            json={"model": model, "messages": [{"role": "user", "content": QUESTION}]},
        )


@pytest.fixture(scope="module")
@starts_process
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with both bases."""
    folder = tmp_path_factory.mktemp("hidden")
    team = {role: {"gateway": {"role": role, "bases": ["team_*"]}, "store": {"role": role}} for role in ROLES}
    keys = write_scoped_keys(
        folder / "keys", {"root": {"gateway": {"role": "admin"}, "store": {"role": "admin"}}, **team}
    )
    with fake_upstream() as upstream:
        upstream.on("m", replying("Three years [1]."))
        environ = {
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_MODEL": "m",
            "RAGSTORE_GATEWAY_RAG_DEBUG": "true",
            "RAGSTORE_GATEWAY_RAG_SIMILARITY_THRESHOLD": "0",
        }
        with running(start_gateway(folder, environ)) as served, httpx.Client(base_url=served.url, timeout=30) as http:
            given = Gateway(http, upstream, keys)
            fill(given)
            yield given


def fill(gateway: Gateway) -> None:
    """Create the bases, and something of each kind in the hidden one."""
    gateway.visible = gateway.create_base("team_docs")
    gateway.ingest(gateway.visible)
    source = {"name": "handbooks", "type": "upload", "upload": {}}
    gateway.hidden = hidden = gateway.create_base("payroll", sources=[source])
    ingestion = gateway.ingest(hidden)
    files = [("files", ("a.txt", b"Tea."))]
    gateway.call("root", "POST", f"/ragstore/rags/{hidden}/sources/handbooks/files", files=files)
    run = gateway.call("root", "POST", f"/ragstore/rags/{hidden}/sources/handbooks/run").json()["runId"]
    path = f"/ragstore/rags/{hidden}/sources/handbooks/runs/{run}"
    gateway.wait(lambda: gateway.call("root", "GET", path).json()["status"])
    file = gateway.upload()
    store = f"/v1/vector_stores/{hidden}"
    batch = gateway.call("root", "POST", f"{store}/file_batches", json={"file_ids": [file]}).json()["id"]
    gateway.wait(lambda: gateway.call("root", "GET", f"{store}/file_batches/{batch}").json()["status"])
    gateway.values = {
        "name": "kettle.txt",
        "ingestion_id": ingestion,
        "passage_id": ingestion,
        "source": "handbooks",
        "run_id": run,
        "file_id": file,
        "batch_id": batch,
    }


def path_of(path: str, base: str, values: Mapping[str, str]) -> str:
    """The path of an operation on a base."""
    return path.replace("{id}", base).replace("{store_id}", base).format(**values)


def bodies_of(method: str, path: str, gateway: Gateway) -> list[dict[str, Any]]:
    """Requests of an operation, valid ones first: an absent base must not matter more than a wrong body, or less."""
    if "requestBody" not in OPERATIONS[path][method]:
        return [{}, {"params": {"version": "1", "limit": "5", "permanent": "true"}}, {"params": {"limit": "-1"}}]
    if path.endswith("/sources/{source}/files"):
        return [{"files": [("files", ("b.txt", b"B."))]}, {"content": b"{"}]
    if path.endswith("/ingest/batch"):
        files = [("files", ("b.txt", b"B.", "text/plain"))]
        return [
            {"files": files},
            {"content": b"{}", "headers": {"Content-Type": "application/x-ndjson"}},
            {"content": b""},
        ]
    if path.endswith("/ingest"):
        return [{"content": b"Text.", "params": {"documentName": "new.txt"}}, {"content": b""}]
    own = gateway.upload(key="writer")
    valid: Any = {
        "/ragstore/rags/{id}": {"name": "team_new"},
        "/ragstore/rags/{id}/query": {"query": QUESTION},
        "/ragstore/rags/{id}/split": {"text": QUESTION},
        "/v1/vector_stores/{store_id}": {"name": "team_new"},
        "/v1/vector_stores/{store_id}/search": {"query": QUESTION},
        "/v1/vector_stores/{store_id}/files": {"file_id": own},
        "/v1/vector_stores/{store_id}/files/{file_id}": {"attributes": {"a": 1}},
        "/v1/vector_stores/{store_id}/file_batches": {"file_ids": [own]},
    }[path]
    versions = [{}, {"params": {"version": "1"}}, {"params": {"version": "7"}}]
    return [
        *({"json": valid, **version} for version in versions),
        {"json": {"name": "payroll"}, "params": {"version": "1"}},
        {"json": {}},
        {"content": b"{"},
    ]


def seen(response: httpx.Response, base: str) -> object:
    """A response, without what two requests never share, and with one id for each base."""
    headers = sorted((name, value) for name, value in response.headers.items() if name not in VOLATILE)
    own = response.headers.get("x-request-id", "-")
    content = response.content.replace(base.encode(), b"BASE").replace(own.encode(), b"REQUEST")
    return response.status_code, headers, content


@pytest.fixture(scope="module")
def contents(gateway: Gateway) -> object:
    """The contents of the hidden base when the first call is sent. No call may change them."""
    return gateway.snapshot()


@pytest.mark.parametrize("key", ROLES)
@pytest.mark.parametrize(("method", "path"), BELOW)
def test_a_call_on_a_hidden_base_has_the_response_of_an_absent_one_and_changes_nothing(
    gateway: Gateway, contents: object, method: str, path: str, key: str
) -> None:
    absent = str(uuid4())
    for options in bodies_of(method, path, gateway):
        responses = [
            seen(gateway.call(key, method, path_of(path, base, gateway.values), **options), base)
            for base in (gateway.hidden, absent)
        ]
        assert responses[0] == responses[1]
        assert 400 <= responses[0][0] < 500  # type: ignore[index]  # the status
    assert gateway.snapshot() == contents


def test_the_calls_work_for_a_key_without_patterns_and_on_a_base_that_the_patterns_name(gateway: Gateway) -> None:
    for base, key in ((gateway.hidden, "root"), (gateway.visible, "reader")):
        found = gateway.call(key, "POST", f"/ragstore/rags/{base}/query", json={"query": QUESTION}).json()
        assert TEXT in [each["text"] for each in found["results"]]
        found = gateway.call(key, "POST", f"/v1/vector_stores/{base}/search", json={"query": QUESTION}).json()
        assert TEXT in [each["content"][0]["text"] for each in found["data"]]
        assert gateway.call(key, "GET", f"/ragstore/rags/{base}/documents").json()["total"] >= 1


LISTS: Final = [
    "/ragstore/rags/descriptors",
    "/ragstore/rags/descriptors?limit=1&index=1",
    "/ragstore/rags/descriptors?filter=hidden-name",
    "/v1/vector_stores?limit=1",
    "/v1/vector_stores?order=asc",
]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_is_the_same_before_and_after_a_hidden_base_is_created(gateway: Gateway, path: str) -> None:
    before = gateway.call("reader", "GET", path)
    assert before.status_code == 200
    base = gateway.create_base(f"hidden-name-{uuid4().hex[:8]}")
    after = gateway.call("reader", "GET", path)
    assert seen(after, base) == seen(before, base)
    assert base in gateway.call("root", "GET", "/v1/vector_stores?limit=100").text


def test_a_hidden_base_is_no_cursor(gateway: Gateway) -> None:
    absent = str(uuid4())
    for cursor in ("after", "before"):
        hidden = gateway.call("reader", "GET", f"/v1/vector_stores?{cursor}={gateway.hidden}")
        other = gateway.call("reader", "GET", f"/v1/vector_stores?{cursor}={absent}")
        assert hidden.status_code == 404
        assert seen(hidden, gateway.hidden) == seen(other, absent)
        assert gateway.call("root", "GET", f"/v1/vector_stores?{cursor}={gateway.hidden}").status_code == 200


def test_a_set_of_a_hidden_base_has_the_responses_of_an_absent_set(gateway: Gateway) -> None:
    questions = [{"text": QUESTION, "passages": [{"documentName": "kettle.txt"}]}]

    def body(base: str) -> dict[str, Any]:
        return {"name": "kettles", "base": base, "questions": questions}

    lists = "/ragstore/questions/descriptors"
    before = gateway.call("reader", "GET", lists)
    location = gateway.call("root", "POST", "/ragstore/questions", json=body(gateway.hidden)).headers["Location"]
    hidden, absent = location.rpartition("/")[2].partition("?")[0], str(uuid4())
    run = gateway.call("root", "POST", f"/ragstore/questions/{hidden}/runs").json()["runId"]
    path = f"/ragstore/questions/{hidden}/runs/{run}"
    gateway.wait(lambda: gateway.call("root", "GET", path).json()["status"])
    assert seen(gateway.call("reader", "GET", lists), "-") == seen(before, "-")
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "", {}),
        ("GET", "?version=1", {}),
        ("GET", "/versions", {}),
        ("GET", "/runs", {}),
        ("GET", f"/runs/{run}", {}),
        ("DELETE", f"/runs/{run}", {}),
        ("POST", "/runs", {}),
        ("POST", "", {}),
        ("PUT", "?version=1", {"json": body(gateway.visible)}),
        ("DELETE", "", {}),
    ]
    for method, below, options in calls:
        for key in ROLES:
            responses = [
                seen(gateway.call(key, method, f"/ragstore/questions/{id}{below}", **options), id)
                for id in (hidden, absent)
            ]
            assert responses[0] == responses[1]
            assert 400 <= responses[0][0] < 500  # type: ignore[index]  # the status
    assert gateway.call("root", "GET", f"/ragstore/questions/{hidden}/runs").json()["total"] == 1
    refused = [gateway.call("admin", "POST", "/ragstore/questions", json=body(id)) for id in (gateway.hidden, absent)]
    assert seen(refused[0], gateway.hidden) == seen(refused[1], absent)
    assert refused[0].status_code == 400
    # The name that the hidden set has is free in a base that the key sees.
    path = gateway.call("admin", "POST", "/ragstore/questions", json=body(gateway.visible)).headers["Location"]
    path = path.partition("?")[0]
    roles = [gateway.call(key, "POST", f"{path}/runs").status_code for key in ("reader", "writer")]
    assert roles == [403, 202]
    absent_run = f"{path}/runs/{absent}"
    assert [gateway.call(key, "DELETE", absent_run).status_code for key in ("reader", "writer")] == [403, 404]
    assert gateway.call("writer", "POST", "/ragstore/questions", json=body(gateway.visible)).status_code == 403


@pytest.mark.parametrize("path", ["/ragstore/rags", "/v1/vector_stores"])
def test_a_name_outside_the_patterns_is_refused_whether_or_not_it_is_taken(gateway: Gateway, path: str) -> None:
    taken = gateway.call("admin", "POST", path, json={"name": "payroll"})
    free = gateway.call("admin", "POST", path, json={"name": "payrolx"})
    assert (taken.status_code, taken.json()) == (403, taken.json())
    assert seen(taken, "payroll") == seen(free, "payrolx")
    created = gateway.call("admin", "POST", path, json={"name": f"team_{uuid4().hex}"})
    assert created.status_code in (200, 201), created.text


def test_a_base_is_neither_renamed_nor_copied_out_of_the_patterns(gateway: Gateway) -> None:
    base = gateway.create_base(f"team_{uuid4().hex}", key="admin")
    renamed = gateway.call("admin", "PUT", f"/ragstore/rags/{base}?version=1", json={"name": "payroll"})
    assert renamed.status_code == 403
    changed = gateway.call("admin", "POST", f"/v1/vector_stores/{base}", json={"name": "payroll"})
    assert changed.status_code == 403
    copied = gateway.call("admin", "POST", f"/ragstore/rags/{base}")
    assert copied.status_code == 201
    assert copied.json()["name"].startswith("team_")


def test_a_base_that_is_renamed_out_of_the_patterns_is_hidden_with_all_its_versions(gateway: Gateway) -> None:
    base = gateway.create_base(f"team_{uuid4().hex}")
    assert gateway.call("admin", "GET", f"/ragstore/rags/{base}").status_code == 200
    body = {"name": f"moved-{uuid4().hex}"}
    assert gateway.call("root", "PUT", f"/ragstore/rags/{base}?version=1", json=body).status_code == 200
    assert gateway.call("admin", "GET", f"/ragstore/rags/{base}?version=1").status_code == 404
    assert gateway.call("root", "DELETE", f"/ragstore/rags/{base}").status_code == 200
    assert gateway.call("admin", "GET", f"/ragstore/rags/{base}?version=2").status_code == 404
    assert gateway.call("root", "GET", f"/ragstore/rags/{base}?version=2").status_code == 200


def test_an_assistant_over_a_hidden_base_is_refused_as_one_over_an_absent_base(gateway: Gateway) -> None:
    def create(base: str) -> httpx.Response:
        return gateway.call("admin", "POST", "/ragstore/assistants", json=assistant(f"a-{uuid4().hex}", base))

    hidden, absent = create("payroll"), create("payrolx")
    assert hidden.status_code == 400
    assert seen(hidden, "payroll") == seen(absent, "payrolx")
    assert create("team_docs").status_code == 201


def assistant(name: str, *bases: str) -> dict[str, Any]:
    """An assistant that searches bases."""
    return {"name": name, "workflow": list(bases), "tasks": [{"id": "answer", "enableWorkflowRag": True}]}


def test_a_chat_finds_nothing_in_a_hidden_base_as_if_it_were_absent(gateway: Gateway) -> None:
    name, gone = f"pay-{uuid4().hex}", f"gone-{uuid4().hex}"
    gateway.ingest(gateway.create_base(gone))
    assert gateway.call("root", "POST", "/ragstore/assistants", json=assistant(name, "payroll")).status_code == 201
    other = assistant(f"{name}2", gone)
    assert gateway.call("root", "POST", "/ragstore/assistants", json=other).status_code == 201
    assert gateway.chat("root", f"rag/{name}").headers["x-rag-sources"] != "0"
    assert gateway.chat("root", f"rag/{name}2").headers["x-rag-sources"] != "0"
    hidden = gateway.chat("reader", f"rag/{name}")
    assert TEXT not in gateway.upstream.chats()[-1].body.decode()
    remove_base(gateway, gone)
    absent = gateway.chat("reader", f"rag/{name}2")
    assert hidden.status_code == 200
    assert hidden.headers["x-rag-sources"] == "0"
    assert hidden.headers["x-rag-reason"] == absent.headers["x-rag-reason"]
    assert timeless(hidden.json(), {name: "A", "payroll": "B"}) == timeless(absent.json(), {f"{name}2": "A", gone: "B"})


def test_a_retrieval_of_a_hidden_base_is_one_of_an_absent_base(gateway: Gateway) -> None:
    def retrieve(key: str, **fields: Any) -> httpx.Response:
        return gateway.call(key, "POST", "/ragstore/retrieve", json={"question": QUESTION, **fields})

    absent = str(uuid4())
    for key in ROLES:
        responses = [seen(retrieve(key, base=base), base) for base in (gateway.hidden, absent)]
        assert responses[0] == responses[1]
        assert responses[0][0] == 404  # type: ignore[index]  # the status
    drafts = [seen(retrieve("admin", assistant=assistant("draft", base)), base) for base in ("payroll", "payrolx")]
    assert drafts[0] == drafts[1]
    assert drafts[0][0] == 400  # type: ignore[index]  # the status
    name = f"both-{uuid4().hex}"
    body = assistant(name, "payroll", "team_docs")
    assert gateway.call("root", "POST", "/ragstore/assistants", json=body).status_code == 201
    found = retrieve("reader", assistant=name).json()
    assert {each["base"] for each in found["passages"]} == {"team_docs"}
    assert [each.get("error") for each in found["searches"]] == ["configuration_not_found", None]
    assert {each["base"] for each in retrieve("root", assistant=name).json()["passages"]} == {"payroll", "team_docs"}


def remove_base(gateway: Gateway, name: str) -> None:
    """Delete a base by its name."""
    listed = gateway.call("root", "GET", f"/ragstore/rags/descriptors?filter={name}").json()
    id = listed[0]["resource"].rpartition("/")[2].partition("?")[0]
    assert gateway.call("root", "DELETE", f"/ragstore/rags/{id}").status_code == 200


def timeless(reply: dict[str, Any], names: Mapping[str, str]) -> object:
    """A reply without times, and with other names."""
    text = json.dumps(reply["rag"])
    for name, other in sorted(names.items(), key=lambda each: -len(each[0])):
        text = text.replace(name, other)
    found = json.loads(text)
    return {name: value for name, value in found.items() if name != "ms"}


def test_a_plain_model_searches_the_collections_that_the_patterns_name(gateway: Gateway) -> None:
    before = gateway.chat("reader", "rag/m")
    body = {"text": TEXT, "store": True, "collection": "memory"}
    refused = gateway.call("admin", "POST", "/summarize", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (400, "$.collection")
    assert gateway.call("root", "POST", "/summarize", json=body).status_code == 200
    assert gateway.chat("root", "rag/m").headers["x-rag-sources"] == "1"
    after = gateway.chat("reader", "rag/m")
    assert before.headers["x-rag-reason"] == after.headers["x-rag-reason"] == "no_sources"
    assert timeless(before.json(), {}) == timeless(after.json(), {})


def test_a_file_of_another_key_is_absent_unless_it_is_in_a_base_that_the_key_sees(gateway: Gateway) -> None:
    file, absent = gateway.upload(), "file-" + uuid4().hex
    store = f"/v1/vector_stores/{gateway.visible}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", "/v1/files/{}", None),
        ("GET", "/v1/files/{}/content", None),
        ("DELETE", "/v1/files/{}", None),
        ("GET", "/v1/files?after={}", None),
        ("POST", f"{store}/files", lambda id: {"file_id": id}),
        ("POST", f"{store}/file_batches", lambda id: {"file_ids": [id]}),
        ("POST", "/v1/vector_stores", lambda id: {"name": f"team_{uuid4().hex}", "file_ids": [id]}),
    ]
    for method, path, body in calls:
        responses = [
            seen(gateway.call("admin", method, path.format(id), json=body and body(id)), id) for id in (file, absent)
        ]
        assert responses[0] == responses[1], path
        assert responses[0][0] == 404, path  # type: ignore[index]  # the status
    assert file not in gateway.call("writer", "GET", "/v1/files").text
    assert gateway.call("root", "POST", f"{store}/files", json={"file_id": file}).status_code == 200
    assert gateway.call("writer", "GET", f"/v1/files/{file}").json()["filename"] == "notes.txt"
    assert file in gateway.call("writer", "GET", "/v1/files").text


def test_a_key_deletes_a_file_from_its_bases_only_and_the_file_itself_if_it_is_its_own(gateway: Gateway) -> None:
    stores = [f"/v1/vector_stores/{base}/files" for base in (gateway.visible, gateway.hidden)]
    for uploader, remains in (("root", 200), ("writer", 404)):
        file = gateway.upload(uploader, f"{uploader}.txt")
        for store in stores:
            assert gateway.call("root", "POST", store, json={"file_id": file}).status_code == 200
            Gateway.wait(lambda store=store, file=file: gateway.call("root", "GET", f"{store}/{file}").json()["status"])
        assert gateway.call("writer", "DELETE", f"/v1/files/{file}").status_code == 200
        assert gateway.call("writer", "GET", f"/v1/files/{file}").status_code == 404
        assert gateway.call("root", "GET", f"/v1/files/{file}").status_code == remains
        found = [gateway.call("root", "GET", f"{store}/{file}").status_code for store in stores]
        assert found == [404, 200]


def test_the_audit_ledger_and_the_conversations_of_other_keys_are_closed_to_a_limited_admin(gateway: Gateway) -> None:
    conversation = uuid4().hex
    name = f"talk-{uuid4().hex}"
    assert gateway.call("root", "POST", "/ragstore/assistants", json=assistant(name, "payroll")).status_code == 201
    body = {"model": f"rag/{name}", "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"X-Conversation-Id": conversation}
    assert gateway.call("root", "POST", "/v1/chat/completions", json=body, headers=headers).status_code == 200
    assert gateway.call("root", "GET", f"/conversations/{conversation}").status_code == 200
    for method in ("GET", "DELETE"):
        hidden = gateway.call("admin", method, f"/conversations/{conversation}")
        absent = gateway.call("admin", method, f"/conversations/{uuid4().hex}")
        assert hidden.status_code == 404
        assert seen(hidden, conversation) == seen(absent, conversation)
    for method, path in (("GET", "/audit"), ("GET", "/audit/export"), ("POST", "/audit/verification")):
        refused = gateway.call("admin", method, path, json={})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert gateway.call("root", method, path, json={}).status_code == 200
    assert conversation in gateway.call("root", "GET", "/conversations?limit=1000").text
    assert conversation not in gateway.call("admin", "GET", "/conversations?limit=1000").text
