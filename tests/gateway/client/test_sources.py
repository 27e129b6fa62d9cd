"""The client's calls of sources and their runs, and of the audit ledger."""

from __future__ import annotations

import json

import pytest

from ragstore_client import BadRequest, Conflict, NotFound
from ragstore_client.gateway import (
    GatewayClient,
    KnowledgeBase,
    Source,
    SourceRun,
    Stored,
    TextDocument,
)
from tests.client.fake_servers import LocalServer, Response
from tests.gateway.client.conftest import GatewayClientFactory

ENTRY = {"id": "i", "createdOn": "2026-11-26T00:00:00Z", "kind": "retrieval", "hash": "h"}
LIFT = TextDocument("lift.txt", "The lift is tested every year.")


@pytest.fixture
def files(client: GatewayClient, base: Stored[KnowledgeBase]) -> Stored[KnowledgeBase]:
    """The base, with a source of uploaded files."""
    return client.bases.update(base, KnowledgeBase(sources=[Source(name="files", type="upload")]))


def test_uploaded_files_are_found_after_a_run_of_their_source(
    client: GatewayClient, files: Stored[KnowledgeBase]
) -> None:
    assert client.upload_file(files, "files", LIFT).name == "lift.txt"
    assert [(each.name, each.status) for each in client.iter_files(files, "files")] == [("lift.txt", "waiting")]
    states: list[SourceRun] = []
    run = client.run_source(files, "files", progress=states.append)
    assert (run.status, run.added, run.failed, run.has_ended) == ("completed", 1, 0, True)
    assert states[-1] == run
    assert [hit.text for hit in client.search(files, "lift")] == [LIFT.text]
    assert [(each.name, each.status) for each in client.iter_files(files, "files")] == [("lift.txt", "indexed")]


def test_runs_are_listed_newest_first_and_read_by_id(client: GatewayClient, files: Stored[KnowledgeBase]) -> None:
    first, second = (client.run_source(files, "files") for _ in range(2))
    assert [run.run_id for run in client.iter_runs(files, "files", page_size=1)] == [second.run_id, first.run_id]
    assert client.get_run(files, "files", first.run_id) == first


def test_the_documents_and_the_files_of_a_source_can_be_deleted(
    client: GatewayClient, files: Stored[KnowledgeBase]
) -> None:
    client.upload_file(files, "files", LIFT)
    client.run_source(files, "files")
    client.purge_source(files, "files")
    assert client.search(files, "lift") == []
    client.delete_file(files, "files", "lift.txt")
    assert list(client.iter_files(files, "files")) == []


def test_a_name_with_quotes_is_kept_and_an_empty_file_is_rejected(
    client: GatewayClient, files: Stored[KnowledgeBase]
) -> None:
    assert client.upload_file(files, "files", TextDocument('a "new" lift.txt', "A text.")).name == 'a "new" lift.txt'
    with pytest.raises(BadRequest):
        client.upload_file(files, "files", TextDocument("empty.txt", ""))


def test_a_missing_source_and_a_source_that_is_not_enabled_have_their_codes(
    client: GatewayClient, files: Stored[KnowledgeBase]
) -> None:
    with pytest.raises(NotFound) as missing:
        client.run_source(files, "absent")
    assert missing.value.code == "source_not_found"
    client.bases.update(files, KnowledgeBase(sources=[Source(name="files", type="upload", enabled=False)]))
    with pytest.raises(Conflict) as disabled:
        client.run_source(files, "files")
    assert disabled.value.code == "source_disabled"


def test_the_audit_ledger_is_read_by_pages(make_gateway_client: GatewayClientFactory) -> None:
    pages = iter(
        [
            Response(body={"entries": [{**ENTRY, "sequence": 1}], "head": None, "next": 1}),
            Response(body={"entries": [{**ENTRY, "sequence": 2}], "head": None}),
        ]
    )
    with LocalServer(lambda _: next(pages)) as server:
        found = make_gateway_client(server.url).iter_audit_entries(
            conversation="c", kind="feedback", key="", page_size=1
        )
        entries = list(found)
    assert [(each.sequence, each.kind) for each in entries] == [(1, "retrieval"), (2, "retrieval")]
    assert [request.path for request in server.requests] == [
        "/audit?conversation=c&kind=feedback&key=&limit=1",
        "/audit?conversation=c&kind=feedback&key=&after=1&limit=1",
    ]


def test_feedback_on_a_reply_is_sent_with_its_comment(make_gateway_client: GatewayClientFactory) -> None:
    stored = {"step": "s", "helpful": False, "commentKept": True}
    with LocalServer(lambda _: Response(body=stored)) as server:
        found = make_gateway_client(server.url).give_feedback("c", "r", helpful=False, comment="five years")
    assert (found.step, found.helpful, found.comment_kept) == ("s", False, True)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/conversations/c/feedback")
    assert json.loads(request.body) == {"requestId": "r", "helpful": False, "comment": "five years"}


def test_feedback_on_an_unknown_reply_is_not_found(client: GatewayClient) -> None:
    with pytest.raises(NotFound) as missing:
        client.give_feedback("absent", "r", helpful=True)
    assert missing.value.code == "step_not_found"


def test_the_audit_ledger_of_a_gateway_has_no_entry_of_an_unknown_conversation(client: GatewayClient) -> None:
    assert list(client.iter_audit_entries(conversation="absent")) == []
