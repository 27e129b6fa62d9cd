"""Sessions through OpenAI's SDK: a session finds its own uploads and the documents of all, and never another's."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types import VectorStore

from tests.gateway.retrieval.conftest import Assisted
from tests.support.fake_upstream import FakeUpstream, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

OWN: dict[str, Any] = {"$or": [{"session_id": "{session_id}"}, {"session_id": "GLOBAL"}]}
STATES = ("waiting", "processing")
QUESTION = "What does the note say about the kettle?"


def headers(session: str) -> dict[str, str]:
    return {"X-Session-Id": session} if session else {}


def note(owner: str) -> str:
    return f"The note of {owner} says something about the kettle."


@pytest.fixture(scope="module")
def sdk(assistant_gateway: Assisted) -> Iterator[OpenAI]:
    """OpenAI's SDK, with the key of an admin."""
    with OpenAI(
        base_url=assistant_gateway.served.url + "/v1", api_key=assistant_gateway.keys["root"], max_retries=0
    ) as client:
        yield client


def upload(sdk: OpenAI, store: str, owner: str, text: str = "", **attributes: str) -> str:
    """Upload a file in a session."""
    name = f"{owner}.txt"
    file = sdk.files.create(file=(name, (text or note(owner)).encode()), purpose="assistants")
    attached = sdk.vector_stores.files.create_and_poll(
        file.id,
        vector_store_id=store,
        attributes={"session_id": "{session_id}", **attributes},
        poll_interval_ms=50,
        extra_headers=headers(owner),
    )
    assert attached.status == "completed", attached.last_error
    return file.id


@pytest.fixture(scope="module")
def store(assistant_gateway: Assisted, sdk: OpenAI) -> VectorStore:
    """A vector store with an upload of each of two sessions, and one for all; and models over it."""
    created = sdk.vector_stores.create(name="uploads")
    for owner in ("s-1", "s-2", "GLOBAL"):
        upload(sdk, created.id, owner)
    task = {"id": "answer", "enableWorkflowRag": True}
    assistant_gateway.assistant("sessions", workflow=["uploads"], tasks=[{**task, "where": OWN}])
    return created


def found(assisted: Assisted, sdk: OpenAI, model: str, session: str, **body: Any) -> set[str]:
    """The owners of the notes in the prompt of a chat."""
    sdk.chat.completions.create(
        model=f"rag/{model}",
        messages=[{"role": "user", "content": QUESTION}],
        extra_headers=headers(session),
        **body,
    )
    prompt = json.dumps(assisted.upstream.chats()[-1].json["messages"])
    return {owner for owner in ("s-1", "s-2", "GLOBAL", "ann", "root") if note(owner) in prompt}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("session", "expected"),
    [("s-1", {"s-1", "GLOBAL"}), ("s-2", {"s-2", "GLOBAL"}), ("s-3", {"GLOBAL"}), ("", {"GLOBAL"})],
)
def test_a_chat_finds_the_uploads_of_its_session_and_of_all(
    assistant_gateway: Assisted, sdk: OpenAI, session: str, expected: set[str]
) -> None:
    assert found(assistant_gateway, sdk, "sessions", session) == expected


@pytest.mark.usefixtures("store")
def test_the_session_may_be_in_the_body_and_the_header_counts_first(assistant_gateway: Assisted, sdk: OpenAI) -> None:
    assert found(assistant_gateway, sdk, "sessions", "", metadata={"session_id": "s-1"}) == {"s-1", "GLOBAL"}
    assert found(assistant_gateway, sdk, "sessions", "", extra_body={"session_id": "s-1"}) == {"s-1", "GLOBAL"}
    assert found(assistant_gateway, sdk, "sessions", "s-2", metadata={"session_id": "s-1"}) == {"s-2", "GLOBAL"}


def test_the_filter_of_a_base_holds_for_each_search_of_it(assistant_gateway: Assisted, sdk: OpenAI) -> None:
    path = assistant_gateway.created("/ragstore/rags", {"name": "own-uploads", "where": OWN}).partition("?")[0]
    base = path.rpartition("/")[2]
    assistant_gateway.assistant("own-sessions", workflow=["own-uploads"])
    for owner in ("s-1", "s-2", "GLOBAL"):
        upload(sdk, base, owner)
    assert found(assistant_gateway, sdk, "own-sessions", "s-2") == {"s-2", "GLOBAL"}
    searched = sdk.vector_stores.search(base, query=QUESTION, extra_headers=headers("s-1"))
    assert {each.filename for each in searched.data} == {"s-1.txt", "GLOBAL.txt"}
    other = {"type": "eq", "key": "session_id", "value": "s-2"}
    assert not sdk.vector_stores.search(base, query=QUESTION, filters=other, extra_headers=headers("s-1")).data  # type: ignore[arg-type]  # a comparison
    for body in ({"query": QUESTION}, {"query": QUESTION, "where": {"session_id": "s-2"}}):
        response = assistant_gateway.call("ann", "POST", f"{path}/query", json=body, headers=headers("s-1"))
        names = {each["metadata"]["document_name"] for each in response.json()["results"]}
        assert names == ({"s-1.txt", "GLOBAL.txt"} if "where" not in body else set())


def test_a_chat_without_what_its_filter_needs_has_no_sources(
    assistant_gateway: Assisted, sdk: OpenAI, store: VectorStore
) -> None:
    task = {"id": "answer", "enableWorkflowRag": True, "where": {"session_id": "{session_id}"}}
    assistant_gateway.assistant("only-own", workflow=["uploads"], tasks=[task])
    response = assistant_gateway.ask("only-own", QUESTION)
    assert (response.headers["x-rag-sources"], response.headers["x-rag-reason"]) == ("0", "no_sources")


def test_the_key_the_user_and_the_conversation_are_variables(
    assistant_gateway: Assisted, sdk: OpenAI, store: VectorStore
) -> None:
    base = sdk.vector_stores.create(name="by-caller").id
    file = sdk.files.create(file=("root.txt", note("root").encode()), purpose="assistants")
    attached = sdk.vector_stores.files.create_and_poll(
        file.id,
        vector_store_id=base,
        attributes={"key": "{key}", "conversation": "{conversation_id}", "user": "ann"},
        poll_interval_ms=50,
        extra_headers={"X-Conversation-Id": "c-1"},
    )
    assert attached.attributes == {"key": "root", "conversation": "c-1", "user": "ann"}
    for name, where in {
        "by-key": {"key": "{key}"},
        "by-user": {"user": "{user}"},
        "by-conversation": {"conversation": "{conversation_id}"},
    }.items():
        task = {"id": "answer", "enableWorkflowRag": True, "where": where}
        assistant_gateway.assistant(name, workflow=["by-caller"], tasks=[task])
    assert found(assistant_gateway, sdk, "by-key", "") == {"root"}
    assistant_gateway.ask("by-key", QUESTION, key="ann")
    assert note("root") not in json.dumps(assistant_gateway.upstream.chats()[-1].json)
    assert found(assistant_gateway, sdk, "by-user", "", user="ann") == {"root"}
    assert found(assistant_gateway, sdk, "by-user", "", metadata={"user_id": "ann"}) == {"root"}
    assert found(assistant_gateway, sdk, "by-user", "", user="bob") == set()
    assert found(assistant_gateway, sdk, "by-conversation", "", metadata={"conversation_id": "c-1"}) == {"root"}
    assert found(assistant_gateway, sdk, "by-conversation", "") == set()


def test_changed_attributes_move_a_document_to_another_session(
    assistant_gateway: Assisted, sdk: OpenAI, store: VectorStore
) -> None:
    file_id = upload(sdk, store.id, "ann")
    assert "ann" not in found(assistant_gateway, sdk, "sessions", "s-9")
    sdk.vector_stores.files.update(file_id, vector_store_id=store.id, attributes={"session_id": "s-9"})
    changed = sdk.vector_stores.files.poll(file_id, vector_store_id=store.id, poll_interval_ms=50)
    assert (changed.status, changed.attributes) == ("completed", {"session_id": "s-9"})
    assert "ann" in found(assistant_gateway, sdk, "sessions", "s-9")
    assert "ann" not in found(assistant_gateway, sdk, "sessions", "ann")
    sdk.vector_stores.files.delete(file_id, vector_store_id=store.id)


def test_a_file_for_a_session_that_the_request_does_not_name_is_400(sdk: OpenAI, store: VectorStore) -> None:
    file = sdk.files.create(file=("a.txt", b"tea"), purpose="assistants")
    with pytest.raises(BadRequestError) as error:
        sdk.vector_stores.files.create(store.id, file_id=file.id, attributes={"session_id": "{session_id}"})
    assert error.value.param == "attributes.session_id"
    assert sdk.vector_stores.retrieve(store.id).file_counts.total == 3


def test_a_document_keeps_its_metadata_when_its_base_is_indexed_again(assistant_gateway: Assisted) -> None:
    path = assistant_gateway.base("indexed-again", {})
    for owner in ("s-1", "s-2"):
        assistant_gateway.ingested(path, f"{owner}.txt", note(owner), metadata=json.dumps({"session_id": owner}))
    body = {"name": "indexed-again", "where": OWN, "chunkSize": 300, "maxResults": 10}
    response = assistant_gateway.call("root", "PUT", f"{path}?version=1", json=body)
    assert response.status_code == 200, response.text
    deadline = time.monotonic() + 60
    while any(assistant_gateway.call("root", "GET", f"{path}/ingestions").json()[each] for each in STATES):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    response = assistant_gateway.call("ann", "POST", f"{path}/query", json={"query": QUESTION}, headers=headers("s-2"))
    assert [each["metadata"]["session_id"] for each in response.json()["results"]] == ["s-2"]


def test_the_same_content_with_other_metadata_is_another_content(assistant_gateway: Assisted) -> None:
    path = assistant_gateway.base("other-metadata", {})
    for owner, unchanged in (("s-1", False), ("s-1", True), ("s-2", False)):
        status = assistant_gateway.ingested(path, "a.txt", "tea", metadata=json.dumps({"session_id": owner}))
        assert status["unchanged"] is unchanged
    text = assistant_gateway.call("root", "GET", f"{path}/texts/a.txt").json()
    assert text["metadata"] == {"session_id": "s-2"}


@pytest.mark.parametrize("body", ["raw", "form", "batch"])
def test_documents_are_ingested_with_metadata_of_the_request(assistant_gateway: Assisted, body: str) -> None:
    path = assistant_gateway.created("/ragstore/rags", {"name": f"metadata-{body}"}).partition("?")[0]
    metadata = json.dumps({"session_id": "{session_id}", "year": 2026})
    sent: dict[str, Any] = {"headers": headers("s-1")}
    if body == "raw":
        sent |= {"params": {"documentName": "a.txt", "metadata": metadata}, "content": b"tea"}
        sent["headers"]["Content-Type"] = "text/plain"
    elif body == "form":
        sent |= {"files": {"file": ("a.txt", b"tea", "text/plain")}, "data": {"metadata": metadata}}
    else:
        line = {"documentName": "a.txt", "text": "tea", "metadata": json.loads(metadata)}
        sent |= {"content": json.dumps(line).encode()}
        sent["headers"]["Content-Type"] = "application/x-ndjson"
    response = assistant_gateway.call("root", "POST", f"{path}/ingest{'/batch' if body == 'batch' else ''}", **sent)
    assert response.status_code == 202, response.text
    document = assistant_gateway.call("root", "GET", f"{path}/documents/a.txt").json()
    assert document["metadata"] == {"session_id": "s-1", "year": 2026}


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ('{"session_id": "{session_id}"}', "$.metadata.session_id"),
        ('{"a": "{nobody}"}', "$.metadata.a"),
        ('{"document_id": "x"}', "$.metadata.document_id"),
        ('{"chroma:x": 1}', "$.metadata.chroma:x"),
        ('{"a": "\\u0000"}', "$.metadata.a"),
        ('{"a": 1e999}', "$.metadata"),
        ('{"a": [1]}', "$.metadata"),
        ("[]", "$.metadata"),
        ("{", "$.metadata"),
    ],
)
def test_metadata_that_cannot_be_stored_is_400_and_stores_nothing(
    assistant_gateway: Assisted, store: VectorStore, metadata: str, path: str
) -> None:
    base = f"/ragstore/rags/{store.id}"
    response = assistant_gateway.call(
        "root",
        "POST",
        f"{base}/ingest",
        params={"documentName": "bad.txt", "metadata": metadata},
        content=b"tea",
        headers={"Content-Type": "text/plain"},
    )
    assert response.status_code == 400, response.text
    assert response.json()["errors"][0]["path"] == path
    assert assistant_gateway.call("root", "GET", f"{base}/documents/bad.txt").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("rags", {"name": "bad", "where": {"a": "{nobody}"}}, "$.where.a"),
        ("rags", {"name": "bad", "where": {"a": {"$has": 1}}}, "$.where.a.$has"),
        (
            "assistants",
            {
                "name": "bad",
                "workflow": ["docs"],
                "tasks": [{"enableWorkflowRag": True}, {"enableWorkflowRag": True, "where": {"a": "x{user}"}}],
            },
            "$.tasks[1].where.a",
        ),
    ],
)
def test_a_variable_that_does_not_exist_is_400_when_the_configuration_is_written(
    assistant_gateway: Assisted, path: str, body: dict[str, Any], fault: str
) -> None:
    response = assistant_gateway.call("root", "POST", f"/ragstore/{path}", json=body)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (400, fault)


@pytest.fixture(scope="module")
@starts_process
def bound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str], FakeUpstream]]:
    """A gateway whose plain models have a filter, and whose sessions are keys."""
    folder: Path = tmp_path_factory.mktemp("bound")
    keys = {name: f"rsk_{name}" for name in ("ann", "root")}
    scopes = {"gateway": {"role": "writer"}, "store": {"role": "writer"}}
    entries = [
        {"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest(), "scopes": scopes}
        for name, key in keys.items()
    ]
    (folder / "keys").write_text("".join(json.dumps(each) + "\n" for each in entries))
    (folder / "keys").chmod(0o600)
    with fake_upstream() as upstream:
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_SESSION_FROM": "key",
            "RAGSTORE_GATEWAY_RAG_WHERE": json.dumps(OWN),
        }
        with running(start_gateway(folder, environ)) as served:
            yield served, keys, upstream


def test_with_sessions_from_keys_no_caller_chooses_its_session(
    bound: tuple[Served, dict[str, str], FakeUpstream],
) -> None:
    served, keys, upstream = bound
    for owner, key in keys.items():
        with OpenAI(base_url=served.url + "/v1", api_key=key, max_retries=0) as sdk:
            memory = next(each for each in sdk.vector_stores.list() if each.name == "memory")
            upload(sdk, memory.id, owner)
    with OpenAI(base_url=served.url + "/v1", api_key=keys["ann"], max_retries=0) as sdk:
        sdk.chat.completions.create(
            model="rag/m", messages=[{"role": "user", "content": QUESTION}], extra_headers=headers("root")
        )
    prompt = json.dumps(upstream.chats()[-1].json["messages"])
    assert note("ann") in prompt
    assert note("root") not in prompt


@pytest.mark.process
def test_a_filter_of_plain_models_with_an_unknown_variable_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="RAGSTORE_GATEWAY_RAG_WHERE is wrong"):
        start_gateway(tmp_path, {"RAGSTORE_GATEWAY_RAG_WHERE": '{"a": "{nobody}"}'})
