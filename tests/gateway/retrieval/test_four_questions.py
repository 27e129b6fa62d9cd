"""The four questions of docs/logs-and-traces.md, by the log, the status and the ledger alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.gateway.retrieval.conftest import Assisted
from tests.support.keyed_services import eventually
from tests.support.log_lines import log_line, log_lines

pytestmark = pytest.mark.process

QUESTION = "CANARY-QUESTION about the colour of a bicycle"
AWAY = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": "http://127.0.0.1:1"}}
"""A base whose provider of embeddings does not listen."""


def chat_line(assisted: Assisted, request_id: str) -> dict[str, Any]:
    """The log line of a chat."""
    return log_line(assisted.served.log, "request", request_id=request_id, path="/v1/chat/completions")


def log_of(assisted: Assisted) -> Path:
    return assisted.served.log


def test_why_was_this_question_answered_without_sources(assistant_gateway: Assisted) -> None:
    assistant_gateway.assistant("helpful", workflow=["docs"], systemMessage="You help.")
    path = assistant_gateway.base("strict-docs", {"warranty.txt": "The kettle."}, minScore=0.99)
    assistant_gateway.assistant("picky", workflow=["strict-docs"])
    response = assistant_gateway.ask("picky", QUESTION, conversation="c-picky")
    assert response.headers["X-RAG-Sources"] == "0"

    line = chat_line(assistant_gateway, response.headers["X-Request-ID"])
    assert (line["model"], line["upstream_model"], line["key"]) == ("rag/picky", "m", "ann")
    assert (line["assistant"], line["assistant_version"], line["conversation"]) == ("picky", 1, "c-picky")
    assert (line["sources"], line["reason"], line["bases"]) == (0, "no_match", path.rpartition("/")[2])

    entries = assistant_gateway.call("root", "GET", "/audit?conversation=c-picky").json()["entries"]
    (entry,) = [each for each in entries if each["id"] == line["step"]]
    assert entry["assistantId"] == line["assistant_id"]
    (searched,) = entry["data"]["rag:trace:answer"]
    assert searched["minScore"] == 0.99
    assert {each["fate"] for each in searched["passages"]} == {"below_min_score"}
    assert "CANARY" not in log_of(assistant_gateway).read_text()


@pytest.mark.parametrize(("question", "reason"), [("thanks", "short_question"), ("### Task: make a title", "task")])
def test_a_chat_that_searches_nothing_has_its_reason_in_the_log(
    assistant_gateway: Assisted, question: str, reason: str
) -> None:
    response = assistant_gateway.ask("support", question)
    line = chat_line(assistant_gateway, response.headers["X-Request-ID"])
    assert (line["assistant"], line["sources"], line["reason"]) == ("support", 0, reason)
    assert "step" not in line


def test_a_plain_model_leaves_a_step_and_a_ledger_entry_as_an_assistant_does(assistant_gateway: Assisted) -> None:
    response = assistant_gateway.ask("m", QUESTION, conversation="c-plain")
    line = chat_line(assistant_gateway, response.headers["X-Request-ID"])
    assert (line["model"], line["key"], line["reason"]) == ("rag/m", "ann", response.headers["X-RAG-Reason"])
    assert "assistant" not in line
    (entry,) = assistant_gateway.call("root", "GET", "/audit?conversation=c-plain").json()["entries"]
    assert (entry["id"], entry["key"], entry["assistant"]) == (line["step"], "ann", "")
    assert "rag:trace:rag" in entry["data"]


def test_a_chat_that_passes_through_has_its_model_and_its_key_in_the_log(assistant_gateway: Assisted) -> None:
    response = assistant_gateway.call(
        "bob", "POST", "/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "x"}]}
    )
    line = chat_line(assistant_gateway, response.headers["X-Request-ID"])
    assert (line["model"], line["key"]) == ("m", "bob")


def test_which_ingestion_is_stuck_and_why_and_who_deleted_it(assistant_gateway: Assisted) -> None:
    path = assistant_gateway.created("/ragstore/rags", {"name": f"away-{uuid4().hex}", **AWAY}).partition("?")[0]
    base = path.rpartition("/")[2]
    response = assistant_gateway.call(
        "root",
        "POST",
        f"{path}/ingest?documentName=k0.txt",
        content=b"CANARY-TEXT-STUCK",
        headers={"Content-Type": "text/plain", "X-Request-ID": f"send-{base}"},
    )
    ingestion = response.json()["ingestionId"]
    document = assistant_gateway.call("root", "GET", f"{path}/documents/k0.txt").json()["id"]
    ids = {"ingestion": ingestion, "base": base, "document": document}
    log = log_of(assistant_gateway)

    # The wait is in the progress of its base, in its status, and in the log.
    def waiting() -> Any:
        return assistant_gateway.call("root", "GET", f"{path}/ingestion/{ingestion}/status").json().get("waitingFor")

    assert eventually(lambda: waiting() == "embedding_unavailable")
    progress = assistant_gateway.call("root", "GET", f"{path}/ingestions").json()
    assert progress["waitingFor"] == {"embedding_unavailable": 1}
    assert log_line(log, "ingestion accepted", **ids)["request_id"] == f"send-{base}"
    assert log_line(log, "ingestion started", **ids)["attempt"] == 1
    waits = eventually(lambda: log_lines(log, "ingestion waits", **ids))
    assert (waits[0]["waiting_for"], waits[0]["step"], waits[0]["attempt"]) == ("embedding_unavailable", "embed", 1)

    # The audit record has the key that deleted it.
    assistant_gateway.call("root", "DELETE", f"{path}/documents/k0.txt", headers={"X-Request-ID": f"delete-{base}"})
    audit = log_line(log, "audit", request_id=f"delete-{base}")
    assert (audit["who"], audit["operation"], audit["status"]) == ("root", "deleteKnowledgeBaseDocument", 204)
    assert audit["resource"] == f"ragstore/rags/{base}/documents/k0.txt"
    assert log_line(log, "documents deleted", base=base)["documents"] == [document]
    assert log_line(log, "documents deleted", base=base)["request_id"] == f"delete-{base}"
    ended = log_line(log, "ingestion ended", **ids)
    assert (ended["state"], ended["error"]) == ("cancelled", "The document was deleted")
    assert "CANARY" not in log.read_text()


def test_a_completed_ingestion_is_logged_with_its_chunks_and_a_failed_one_with_its_step(
    assistant_gateway: Assisted,
) -> None:
    path = assistant_gateway.base(f"events-{uuid4().hex}", {"tea.txt": "Tea is hot."})
    base = path.rpartition("/")[2]
    ended = log_line(log_of(assistant_gateway), "ingestion ended", base=base)
    assert (ended["state"], ended["chunks"], ended["level"]) == ("completed", 1, "info")
    assistant_gateway.ingested(path, "tea.txt", "Tea is hot.")
    log_line(log_of(assistant_gateway), "ingestion ended", base=base, state="unchanged")
    assistant_gateway.call(
        "root",
        "POST",
        f"{path}/ingest?documentName=broken.pdf",
        content=b"%PDF-1.7 broken",
        headers={"Content-Type": "application/pdf"},
    )
    failed = log_line(log_of(assistant_gateway), "ingestion ended", base=base, state="failed")
    assert (failed["step"], failed["level"]) == ("extract", "warning")


def test_what_was_slow_in_a_chat(assistant_gateway: Assisted) -> None:
    response = assistant_gateway.ask("support")
    line = chat_line(assistant_gateway, response.headers["X-Request-ID"])
    assert 0 <= line["retrieval_ms"] <= line["ms"] + 1
    assert 0 <= line["upstream_ms"] <= line["ms"]
