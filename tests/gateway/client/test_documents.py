"""The client's calls of documents, and its searches."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import IO

import pytest

from ragstore_client import BadRequest, NotFound
from ragstore_client.gateway import (
    MEDIA_TYPES,
    DocumentFailed,
    DocumentProgress,
    FileDocument,
    GatewayClient,
    KnowledgeBase,
    NewContent,
    Stored,
    TextDocument,
)
from ragstore_gateway.extraction import formats
from tests.support.servers import free_port

LIFT = "The lift is tested every year."
KETTLE = "# Kettle\n\n## Care\n\nDescale the kettle every month."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with documents, and a file that is none."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "kettle.md").write_text(KETTLE)
    (tmp_path / "sub/lift.txt").write_text(LIFT)
    (tmp_path / "program.bin").write_bytes(b"\x00\x01")
    return tmp_path


def test_an_ingested_text_is_found_and_read(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    done = client.ingest_text(base, "lift.txt", LIFT, metadata={"floor": 3})
    assert (done.ok, done.chunks, done.unchanged) == (True, 1, False)
    (hit,) = client.search(base, "How often is the lift tested?")
    assert (hit.text, hit.source, hit.metadata["floor"]) == (LIFT, "lift.txt", 3)
    assert 0 <= hit.score <= 1
    assert client.read_passage(base, hit.id) == f"lift.txt\n\n{LIFT}"
    text = client.document_text(base, "lift.txt")
    assert (text.text, text.type, text.metadata) == (LIFT, "text/plain", {"floor": 3})


def test_the_same_content_is_unchanged_and_another_one_replaces_it(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    client.ingest_text(base, "lift.txt", LIFT)
    assert client.ingest_text(base, "lift.txt", LIFT).unchanged
    assert not client.ingest_text(base, "lift.txt", "The lift is out of order.").unchanged
    assert [hit.text for hit in client.search(base, "lift")] == ["The lift is out of order."]


def test_a_folder_is_ingested_with_the_paths_of_its_documents(
    client: GatewayClient, base: Stored[KnowledgeBase], folder: Path
) -> None:
    report = client.ingest_folder(base, folder)
    report.raise_for_failures()
    assert [each.name for each in report.documents] == ["kettle.md", "sub/lift.txt"]
    listed = client.list_documents(base)
    assert [(each.name, each.type, each.status) for each in listed.documents] == [
        ("kettle.md", "text/markdown", "completed"),
        ("sub/lift.txt", "text/plain", "completed"),
    ]
    assert listed.total == 2
    assert client.get_document(base, "sub/lift.txt").searchable
    assert [each.name for each in client.iter_documents(base, page_size=1)] == ["kettle.md", "sub/lift.txt"]
    client.delete_document(base, "sub/lift.txt")
    assert [each.name for each in client.iter_documents(base, "lift")] == []


def test_the_outcomes_have_the_order_of_the_documents_and_a_failure_does_not_end_the_others(
    client: GatewayClient, base: Stored[KnowledgeBase], tmp_path: Path
) -> None:
    documents: list[NewContent] = [
        TextDocument("a.txt", "The first text."),
        FileDocument(tmp_path / "missing.txt"),
        TextDocument("large.txt", "A long text. " * 40_000),
        TextDocument("blank.txt", "   "),
        TextDocument("z.txt", "The last text."),
    ]
    outcomes = list(client.ingest(base, documents, concurrency=2))
    assert [(each.name, each.ok) for each in outcomes] == [
        ("a.txt", True),
        ("missing.txt", False),
        ("large.txt", True),
        ("blank.txt", False),
        ("z.txt", True),
    ]
    assert outcomes[1].error == "No such file or directory"
    with pytest.raises(DocumentFailed, match=r"missing\.txt: No such file") as raised:
        client.ingest_all(base, documents).raise_for_failures()
    assert [each.name for each in raised.value.failures] == ["missing.txt", "blank.txt"]


def test_progress_reports_the_end_of_each_document_once(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    steps: list[DocumentProgress] = []
    documents = [TextDocument(f"{number}.txt", f"Text {number}.") for number in range(70)]
    client.ingest_all(base, documents, progress=steps.append).raise_for_failures()
    assert sorted(each.name for each in steps if each.ended) == sorted(each.name for each in documents)


def test_a_document_of_the_callers_own_kind_is_ingested(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    class Row:
        name = "row-1"
        media_type = "text/plain"
        metadata = {"table": "lifts"}

        def open(self) -> IO[bytes]:
            return BytesIO(LIFT.encode())

    client.ingest_all(base, [Row()]).raise_for_failures()
    (hit,) = client.search(base, "lift", where={"table": "lifts"})
    assert hit.text == LIFT
    assert client.search(base, "lift", where={"table": "other"}) == []


def test_a_named_pipe_is_ingested(client: GatewayClient, base: Stored[KnowledgeBase], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=(LIFT,))
    writer.start()
    assert client.ingest_file(base, pipe).ok
    writer.join()
    assert client.document_text(base, "pipe.txt").text == LIFT


def test_a_page_that_cannot_be_read_is_a_failure_with_the_reason(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    with pytest.raises(DocumentFailed, match="127"):
        client.ingest_page(base, f"http://127.0.0.1:{free_port()}/page")


def test_a_missing_document_a_missing_base_and_a_wrong_filter_have_their_codes(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    with pytest.raises(NotFound) as document:
        client.get_document(base, "nothing.txt")
    assert document.value.code == "document_not_found"
    with pytest.raises(NotFound) as unknown:
        client.search("nothing", "lift")
    assert unknown.value.code == "configuration_not_found"
    with pytest.raises(BadRequest) as invalid:
        client.search(base, "lift", where={"floor": {"$near": 3}})
    assert invalid.value.code == "invalid_filter"


def test_the_state_of_an_ingestion_can_be_read(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    client.ingest_text(base, "lift.txt", LIFT)
    id = client.get_document(base, "lift.txt").ingestion_id
    assert client.ingestion_status(base, id).has_ended
    progress = client.ingestion_progress(base, [id])
    assert [(each.ingestion_id, each.status, each.error) for each in progress.ingestions] == [(id, "completed", "")]
    assert (progress.waiting, progress.processing) == (0, 0)


def test_a_call_without_a_method_of_its_own_is_sent_with_request(client: GatewayClient) -> None:
    assert client.request("GET", "/health/live", dict[str, str]) == {"status": "alive"}
    with pytest.raises(NotFound):
        client.request("GET", "/nothing", dict[str, str])


def test_media_types_of_files_are_those_of_the_gateway() -> None:
    known = {extension: formats.MEDIA_TYPES[name] for extension, name in formats.EXTENSIONS.items()}
    assert known == MEDIA_TYPES
