"""The conversations that chats with assistants leave, and the audit ledger: who reads and deletes what."""

from __future__ import annotations

import json

import pytest

from tests.gateway.retrieval.conftest import Assisted, http_calls
from tests.support.fake_upstream import Exchange


@pytest.mark.parametrize("name", ["metadata", "header"])
def test_a_request_names_its_conversation(assistant_gateway: Assisted, name: str) -> None:
    metadata = {"conversation_id": "c-metadata"} if name == "metadata" else {}
    assistant_gateway.ask("support", conversation="" if metadata else "c-header", metadata=metadata)
    data = assistant_gateway.data(f"c-{name}")
    assert set(data) == {"rag:trace:answer", "rag:context:answer"}
    trace = data["rag:trace:answer"][0]
    assert (trace["kb"], trace["provider"], trace["storeType"]) == ("docs", "local", "ragstore")
    assert (trace["maxResults"], trace["minScore"], trace["retrievedCount"]) == (5, 0.5, 2)
    assert 0.5 <= trace["passages"][0]["score"] <= 1
    assert data["rag:context:answer"] in assistant_gateway.system
    sent = assistant_gateway.upstream.chats()[-1].json
    assert sent["metadata"] == metadata


def test_a_conversation_id_of_another_form_is_400_and_nothing_is_sent(assistant_gateway: Assisted) -> None:
    before = len(assistant_gateway.upstream.chats())
    response = assistant_gateway.ask("support", conversation="a b")
    assert response.status_code == 400
    assert len(assistant_gateway.upstream.chats()) == before
    assert assistant_gateway.call("ann", "GET", "/conversations/a%20b").status_code == 400


def test_a_key_reads_and_deletes_its_own_steps_and_an_admin_all(assistant_gateway: Assisted) -> None:
    assistant_gateway.ask("support", conversation="c-shared", key="ann")
    assistant_gateway.ask("support", conversation="c-shared", key="bob")

    def keys(key: str) -> list[str]:
        response = assistant_gateway.call(key, "GET", "/conversations/c-shared")
        return [step["key"] for step in response.json().get("steps", [])]

    assert [keys("ann"), keys("bob"), keys("root")] == [["ann"], ["bob"], ["ann", "bob"]]
    assert assistant_gateway.call("bob", "DELETE", "/conversations/c-shared").status_code == 204
    assert [keys("ann"), keys("bob"), keys("root")] == [["ann"], [], ["ann"]]
    assert assistant_gateway.call("bob", "DELETE", "/conversations/c-shared").status_code == 404
    assert assistant_gateway.call("root", "DELETE", "/conversations/c-shared").status_code == 204
    assert assistant_gateway.call("ann", "GET", "/conversations/c-shared").status_code == 404


def test_steps_are_paged(assistant_gateway: Assisted) -> None:
    for _ in range(3):
        assistant_gateway.ask("support", conversation="c-pages")
    pages = [
        assistant_gateway.call("ann", "GET", f"/conversations/c-pages?limit=2&index={index}").json()["steps"]
        for index in range(3)
    ]
    assert [len(page) for page in pages] == [2, 1, 0]


def test_the_audit_ledger_is_for_admins_and_has_no_content(assistant_gateway: Assisted) -> None:
    assistant_gateway.ask("support", conversation="c-audit")
    assistant_gateway.call("ann", "DELETE", "/conversations/c-audit")
    assert assistant_gateway.call("ann", "GET", "/audit").status_code == 403
    response = assistant_gateway.call("root", "GET", "/audit?conversation=c-audit")
    entries = response.json()["entries"]
    assert [(each["kind"], each["key"], each["conversation"]) for each in entries] == [
        ("retrieval", "ann", "c-audit"),
        ("deletion", "ann", "c-audit"),
    ]
    assert [each["kb"] for each in entries[0]["data"]["rag:trace:answer"]] == ["docs", "faq"]
    assert "CANARY" not in response.text
    later = assistant_gateway.call("root", "GET", f"/audit?since={entries[1]['createdOn']}").json()["entries"]
    assert entries[1] in later
    assert entries[0] not in later


def test_the_audit_ledger_is_paged_and_has_its_head(assistant_gateway: Assisted) -> None:
    for _ in range(2):
        assistant_gateway.ask("support")
    first = assistant_gateway.call("root", "GET", "/audit?limit=1").json()
    second = assistant_gateway.call("root", "GET", f"/audit?limit=1&after={first['next']}").json()
    assert [first["entries"][0]["sequence"], second["entries"][0]["sequence"]] == [1, 2]
    assert second["entries"][0]["previousHash"] == first["entries"][0]["hash"]
    last = assistant_gateway.call("root", "GET", f"/audit?after={first['head']['count'] - 1}").json()
    assert last["entries"][0]["hash"] == last["head"]["hash"]
    assert "next" not in last


@pytest.mark.parametrize(
    ("since", "is_found"),
    [
        ("0000-01-01T00:00:00Z", True),
        ("2001-12-31t23:59:60.123456789-23:59", True),
        ("9999-12-31T23:59:59-23:59", False),
        ("0001-01-01T00:00:00%2B23:59", True),
    ],
)
def test_any_time_of_rfc_3339_is_accepted(assistant_gateway: Assisted, since: str, is_found: bool) -> None:
    response = assistant_gateway.call("root", "GET", f"/audit?since={since}")
    assert response.status_code == 200
    assert bool(response.json()["entries"]) == is_found


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=2026-11-22T10:00:00",
        "since=7",
        "limit=0",
        "limit=1001",
        "after=-1",
        "conversation=a%20b",
    ],
)
def test_wrong_parameters_of_the_ledger_are_400(assistant_gateway: Assisted, query: str) -> None:
    assert assistant_gateway.call("root", "GET", f"/audit?{query}").status_code == 400


def test_no_secret_is_anywhere_and_content_only_where_it_is_allowed(assistant_gateway: Assisted) -> None:
    task = {"id": "t", "enableWorkflowRag": True, "httpCallRag": "search-api"}
    assistant_gateway.assistant(
        "canary",
        workflow=["docs"],
        tasks=[task],
        httpCalls=http_calls(assistant_gateway),
        systemMessage="CANARY-SYSTEM",
    )
    question = "kettle CANARY-QUESTION"
    responses = [
        assistant_gateway.ask("canary", question, conversation="c-canary"),
        assistant_gateway.ask("canary", question, conversation="c-canary", stream=True),
        assistant_gateway.call("root", "GET", "/audit?limit=1000"),
        assistant_gateway.call("root", "GET", "/metrics"),
        assistant_gateway.call("root", "GET", "/health"),
        assistant_gateway.call("root", "GET", "/ragstore/assistants/descriptors"),
    ]
    call = next(each for each in reversed(assistant_gateway.upstream.requests) if "/find/api" in each.target)
    assert call.header("authorization") == ["Bearer CANARY-SECRET-8431"]
    for response in responses:
        assert response.status_code == 200
        # The debug output shows its own caller the text that was searched for.
        assert "CANARY" not in response.text.replace(question, "")
    # The contexts are kept here, and their owner reads them.
    steps = assistant_gateway.call("ann", "GET", "/conversations/c-canary").text
    assert "CANARY-TEXT-DOCS" in steps
    for word in ("CANARY-SECRET", "CANARY-SYSTEM", "CANARY-QUESTION"):
        assert word not in steps
    log = assistant_gateway.served.log.read_text()
    assert "CANARY" not in log
    files = {file.name: file.read_bytes() for file in (assistant_gateway.folder / "data").glob("gateway.db*")}
    assert not [name for name, content in files.items() if b"CANARY-SECRET" in content or b"CANARY-QUEST" in content]


def test_an_upstream_that_fails_leaves_a_step(assistant_gateway: Assisted) -> None:
    async def failing(exchange: Exchange) -> None:
        await exchange.respond(json.dumps({"error": "no"}).encode(), status="500 Internal Server Error")

    assistant_gateway.upstream.on("m", failing)
    assert assistant_gateway.ask("support", conversation="c-upstream").status_code == 500
    assistant_gateway.upstream.off("m")
    assert "rag:trace:answer" in assistant_gateway.data("c-upstream")
