"""The conversations that chats with assistants leave, and the audit ledger: who reads and deletes what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.gateway.retrieval.conftest import Assisted, http_calls
from tests.support.fake_upstream import Exchange

pytestmark = pytest.mark.process


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


def test_the_audit_ledger_is_searched_by_its_fields_and_from_its_end(assistant_gateway: Assisted) -> None:
    assistant_gateway.ask("support", conversation="c-fields", key="bob")

    def found(query: str) -> list[dict[str, Any]]:
        response = assistant_gateway.call("root", "GET", f"/audit?conversation=c-fields&{query}")
        assert response.status_code == 200, response.text
        entries: list[dict[str, Any]] = response.json()["entries"]
        return entries

    (entry,) = found("key=bob&assistant=support&kind=retrieval")
    for query in ("key=ann", "assistant=suppor", "kind=feedback", f"until={entry['createdOn']}"):
        assert found(query) == []
    assistant_gateway.ask("support", conversation="c-fields", key="bob")
    assert [each["sequence"] for each in found("order=newest")][1] == entry["sequence"]
    assert found(f"order=newest&after={entry['sequence'] + 1}") == [entry]


def test_the_audit_ledger_is_verified_also_with_a_head_of_elsewhere(assistant_gateway: Assisted) -> None:
    def verified(body: dict[str, str]) -> dict[str, Any]:
        response = assistant_gateway.call("root", "POST", "/audit/verification", json=body)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    assistant_gateway.ask("support")
    first = verified({})
    assert (first["intact"], first["problems"]) == (True, [])
    assistant_gateway.ask("support")
    second = verified({"head": first["head"]})
    assert second["intact"]
    assert second["entries"] == first["entries"] + 1
    rewritten = verified({"head": f"{first['entries']}:{'0' * 64}"})
    assert not rewritten["intact"]
    assert [each["sequence"] for each in rewritten["problems"]] == [first["entries"]]
    assert assistant_gateway.call("ann", "POST", "/audit/verification", json={}).status_code == 403
    wrong: list[object] = [{"head": "7"}, {"head": first["head"] + "\n"}, {"heads": ""}, []]
    for body in wrong:
        assert assistant_gateway.call("root", "POST", "/audit/verification", json=body).status_code == 400


def test_an_exported_ledger_is_verified_by_the_command(assistant_gateway: Assisted, tmp_path: Path) -> None:
    assistant_gateway.ask("support", conversation="c-export")
    assert assistant_gateway.call("ann", "GET", "/audit/export").status_code == 403
    response = assistant_gateway.call("root", "GET", "/audit/export")
    assert response.status_code == 200
    file = tmp_path / "audit.jsonl"
    file.write_bytes(response.content)
    command = ["audit", "verify", "--file", str(file), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["intact"] is True
    assert json.loads(file.read_text().splitlines()[-1]) == {"head": json.loads(result.output)["head"]}
    assert "c-export" in file.read_text()
    assert "CANARY" not in file.read_text()


def test_a_key_lists_its_own_conversations_and_an_admin_all(assistant_gateway: Assisted) -> None:
    for key, conversation in (("ann", "c-list-1"), ("bob", "c-list-2"), ("ann", "c-list-1")):
        assistant_gateway.ask("support", conversation=conversation, key=key)

    def listed(key: str) -> dict[str, int]:
        found = assistant_gateway.call(key, "GET", "/conversations?limit=1000").json()["conversations"]
        return {each["conversationId"]: each["steps"] for each in found if each["conversationId"].startswith("c-list")}

    assert listed("ann") == {"c-list-1": 2}
    assert listed("bob") == {"c-list-2": 1}
    assert list(listed("root")) == ["c-list-1", "c-list-2"]
    page = assistant_gateway.call("root", "GET", "/conversations?limit=1").json()
    assert [each["conversationId"] for each in page["conversations"]] == ["c-list-1"]
    page = assistant_gateway.call("root", "GET", f"/conversations?limit=1&after={page['next']}").json()
    assert [each["conversationId"] for each in page["conversations"]] == ["c-list-2"]


def test_a_caller_says_whether_its_reply_was_helpful(assistant_gateway: Assisted) -> None:
    reply = assistant_gateway.ask("support", conversation="c-helpful", key="ann")
    path = "/conversations/c-helpful/feedback"
    body = {"requestId": reply.headers["X-Request-ID"], "helpful": False, "comment": "CANARY-COMMENT"}
    assert assistant_gateway.call("bob", "POST", path, json=body).status_code == 404
    response = assistant_gateway.call("ann", "POST", path, json=body)
    assert response.status_code == 200, response.text
    assert (response.json()["helpful"], response.json()["commentKept"]) == (False, True)
    data = assistant_gateway.data("c-helpful")
    assert data["rag:feedback"]["helpful"] is False
    assert data["rag:feedback:comment"] == "CANARY-COMMENT"
    response = assistant_gateway.call("root", "GET", "/audit?conversation=c-helpful&kind=feedback")
    (entry,) = response.json()["entries"]
    assert (entry["key"], entry["assistant"]) == ("ann", "support")
    (step,) = assistant_gateway.call("ann", "GET", "/conversations/c-helpful").json()["steps"]
    assert entry["data"] == {"step": step["id"], "helpful": False}
    assert "CANARY" not in response.text
    assert "CANARY-COMMENT" not in assistant_gateway.served.log.read_text()
    unknown = {**body, "requestId": "absent"}
    assert assistant_gateway.call("ann", "POST", path, json=unknown).json()["code"] == "step_not_found"
    for wrong in (
        {"helpful": True},
        {**body, "helpful": 1},
        {**body, "comment": "x" * 4097},
        {**body, "comment": "\0"},
    ):
        assert assistant_gateway.call("ann", "POST", path, json=wrong).status_code == 400


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
        "until=yesterday",
        "order=random",
        "kind=other",
        f"key={'k' * 129}",
        f"assistant={'a' * 129}",
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
