"""The commands of docs/logs-and-traces.md find what the page says, in the log and the ledger of a running gateway."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.gateway.retrieval.conftest import Assisted
from tests.support.keyed_services import eventually
from tests.support.log_lines import log_line, log_lines
from tests.support.page_output import exact_values
from tests.support.pages import blocks_of

pytestmark = pytest.mark.process

MOMENT = "2026-11-25T14:03"
"""The minute that the page's commands look at."""

AWAY = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": "http://127.0.0.1:1"}}
"""A base whose provider of embeddings does not listen."""

WITHOUT_SOURCES, STUCK, DELETED = [
    block.code for block in blocks_of("docs/logs-and-traces.md") if block.language == "sh"
]


@pytest.fixture
def operator(assistant_gateway: Assisted, tmp_path: Path) -> Operator:
    """An operator in the folder of the log."""
    if shutil.which("jq") is None:
        pytest.skip("jq not found")
    (tmp_path / "gateway.log").symlink_to(assistant_gateway.served.log)
    return Operator(assistant_gateway, tmp_path)


class Operator:
    """Pastes the commands of the page into a terminal."""

    def __init__(self, assisted: Assisted, folder: Path) -> None:
        self._assisted = assisted
        self._folder = folder

    def paste(self, code: str, **variables: str) -> list[Any]:
        """Run the commands of a block. All must succeed.

        Args:
            variables: variables of the terminal, beside the gateway's address and the keys.

        Returns:
            The JSON values that they print.
        """
        keys = {"KEY": self._assisted.keys["ann"], "ADMIN_KEY": self._assisted.keys["root"]}
        done = subprocess.run(
            ["bash", "-euc", code],
            cwd=self._folder,
            env={**os.environ, "GATEWAY": self._assisted.served.url, **keys, **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return list(exact_values(done.stdout))


def test_why_a_chat_had_no_sources(assistant_gateway: Assisted, operator: Operator) -> None:
    assistant_gateway.base("page-docs", {"warranty.txt": "The kettle."}, minScore=0.99)
    assistant_gateway.assistant("page-picky", workflow=["page-docs"])
    response = assistant_gateway.ask("page-picky", "the colour of a bicycle")
    ids = {"request_id": response.headers["X-Request-ID"], "path": "/v1/chat/completions"}
    minute = log_line(assistant_gateway.served.log, "request", **ids)["timestamp"][: len(MOMENT)]

    *lines, ledger = operator.paste(WITHOUT_SOURCES.replace(MOMENT, minute))

    (line,) = [line for line in lines if line["request_id"] == ids["request_id"]]
    assert (line["assistant"], line["sources"], line["reason"]) == ("page-picky", 0, "no_match")
    (entry,) = [entry for entry in ledger["entries"] if entry["id"] == line["step"]]
    (searched,) = entry["data"]["rag:trace:answer"]
    assert searched["minScore"] == 0.99
    assert {(each["fate"], each["score"] < 0.99) for each in searched["passages"]} == {("below_min_score", True)}


def test_which_ingestion_is_stuck(assistant_gateway: Assisted, operator: Operator) -> None:
    path = assistant_gateway.created("/ragstore/rags", {"name": f"away-{uuid4().hex}", **AWAY}).partition("?")[0]
    base = path.rpartition("/")[2]
    send = {"params": {"documentName": "k0.txt"}, "content": b"Tea.", "headers": {"Content-Type": "text/plain"}}
    ingestion = assistant_gateway.call("root", "POST", f"{path}/ingest", **send).json()["ingestionId"]
    eventually(lambda: log_lines(assistant_gateway.served.log, "ingestion waits", ingestion=ingestion))

    progress, *lines, status = operator.paste(STUCK, BASE=base, INGESTION=ingestion)

    assert progress["waitingFor"] == {"embedding_unavailable": 1}
    waits = [line for line in lines if line["ingestion"] == ingestion]
    assert (waits[0]["base"], waits[0]["step"], waits[0]["attempt"]) == (base, "embed", 1)
    assert status["waitingFor"] == "embedding_unavailable"
    assistant_gateway.call("root", "DELETE", f"{path}/documents/k0.txt")


def test_who_deleted_a_document(assistant_gateway: Assisted, operator: Operator) -> None:
    path = assistant_gateway.base(f"deleted-{uuid4().hex}", {"handbook.pdf": "The boiler.", "kept.txt": "The roof."})
    document = assistant_gateway.call("root", "GET", f"{path}/documents/handbook.pdf").json()["id"]
    assistant_gateway.call("root", "DELETE", f"{path}/documents/handbook.pdf").raise_for_status()
    base = path.rpartition("/")[2]
    # The last line about the request.
    resource = f"ragstore/rags/{base}/documents/handbook.pdf"
    log_line(assistant_gateway.served.log, "audit", resource=resource, operation="deleteKnowledgeBaseDocument")

    audit, deleted = operator.paste(DELETED, BASE=base, DOCUMENT=document)

    assert (audit["who"], audit["operation"], audit["status"]) == ("root", "deleteKnowledgeBaseDocument", 204)
    assert (deleted["base"], deleted["documents"]) == (base, [document])
    assert deleted["request_id"] == audit["request_id"]
