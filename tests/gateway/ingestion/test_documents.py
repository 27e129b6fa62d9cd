"""Documents of knowledge bases: accepted, searched, replaced, deleted; each by the routes of a running gateway."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.gateway.ingestion.conftest import new_base
from tests.support.ingestion import Base, EmbeddingServer, State, collection_names, text_of, until
from tests.support.ledger import all_documents
from tests.support.servers import Served

pytestmark = pytest.mark.process

FILES = Path(__file__).parents[1] / "extraction" / "files"


async def test_an_accepted_document_has_the_response_of_the_contract(base: Base) -> None:
    response = await base.client.post(
        base.path + "/ingest?version=1&kbId=alias&documentName=readme.txt",
        content="Tea is brewed in the kitchen.",
        headers={"Content-Type": "text/plain"},
    )
    body = response.json()
    assert response.status_code == 202
    assert body == {"ingestionId": body["ingestionId"], "kbId": "alias", "status": "pending"}
    location = response.headers["Location"]
    assert location == f"{base.path}/ingestion/{body['ingestionId']}/status"
    found = await base.ended(body["ingestionId"])
    assert (await base.client.get(location)).json() == found
    assert found["ingestionId"] == body["ingestionId"]
    assert (found["status"], found["kbId"], found["documentName"]) == ("completed", "alias", "readme.txt")
    assert (found["chunks"], found["progress"]) == (1, 1.0)
    assert found["createdOn"] <= found["finishedOn"]


async def test_an_alias_never_makes_documents_unfindable(base: Base) -> None:
    response = await base.client.post(
        base.path + "/ingest?kbId=elsewhere&documentName=a", content="tea", headers={"Content-Type": "text/plain"}
    )
    await base.ended(response.json()["ingestionId"])
    assert [hit["text"] for hit in await base.query("tea")] == ["tea"]


async def test_the_alias_is_the_name_of_the_base_by_default(base: Base) -> None:
    response = await base.post("a", "tea")
    name = (await base.client.get(base.path)).json()["name"]
    assert response.json()["kbId"] == name


@pytest.mark.parametrize(("parameter", "length"), [("kbId", 129), ("documentName", 513)])
async def test_a_parameter_that_is_too_long_is_reported_by_its_name_in_the_request(
    base: Base, parameter: str, length: int
) -> None:
    response = await base.client.post(base.path + "/ingest", params={parameter: "a" * length}, content=b"tea")
    assert response.status_code == 400
    assert [error["path"] for error in response.json()["errors"]] == [f"$.{parameter}"]
    assert await base.documents() == []


@pytest.mark.parametrize("content", [b"", b"  \n\t"])
async def test_empty_content_is_rejected(base: Base, content: bytes) -> None:
    response = await base.post("a", content)
    assert response.status_code == 400
    assert response.json()["detail"] == "Document content is required"
    assert await base.documents() == []


async def test_content_of_an_unknown_type_is_rejected(base: Base) -> None:
    response = await base.post("a", b"\x00\x01", "image/png")
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported_media_type"


async def test_a_form_with_a_file_is_ingested_by_the_name_of_the_file(base: Base) -> None:
    file = {"file": ("plan.md", b"# Plan\n\nDrink tea.", "text/markdown")}
    response = await base.client.post(base.path + "/ingest", files=file)
    assert response.status_code == 202, response.text
    found = await base.ended(response.json()["ingestionId"])
    assert (found["status"], found["documentName"]) == ("completed", "plan.md")
    listed = (await base.documents())[0]
    assert (listed["name"], listed["type"]) == ("plan.md", "text/markdown")


async def test_a_form_without_a_file_is_rejected(base: Base) -> None:
    response = await base.client.post(base.path + "/ingest", files={"note": (None, b"no file")})
    assert response.status_code == 400
    assert response.json()["detail"] == "Document content is required"


async def test_a_pdf_file_is_ingested_with_its_pages(base: Base) -> None:
    pdf = FILES / "manual.pdf"
    await base.completed("manual.pdf", pdf.read_bytes(), "application/pdf")
    assert {hit["metadata"]["page_number"] for hit in await base.query("tea")} >= {1}


async def test_an_unknown_base_and_an_unknown_version_are_404(base: Base) -> None:
    unknown = Base(base.client, "00000000-0000-0000-0000-000000000000")
    assert (await unknown.post("a", "tea")).status_code == 404
    response = await base.client.post(
        base.path + "/ingest?version=9", content="tea", headers={"Content-Type": "text/plain"}
    )
    assert response.status_code == 404


async def test_an_ingestion_of_another_base_is_404(
    base: Base, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    other = await new_base(client, server)
    ingestion = await other.ingest("a", "tea")
    response = await client.get(f"{base.path}/ingestion/{ingestion}/status")
    assert (response.status_code, response.json()["code"]) == (404, "ingestion_not_found")
    assert (await client.get(f"{base.path}/ingestion/none/status")).status_code == 404


async def test_each_chunk_has_its_metadata_and_is_a_span_of_the_text(base: Base) -> None:
    text = text_of("span", 3)
    status = await base.completed("spans.txt", text)
    listed = (await base.documents())[0]
    hits = sorted(await base.query("span"), key=lambda hit: int(hit["metadata"]["chunk_index"]))
    assert [hit["metadata"]["chunk_index"] for hit in hits] == [0, 1, 2]
    for hit in hits:
        metadata = hit["metadata"]
        assert text[metadata["char_start"] : metadata["char_end"]] == hit["text"]
        assert (metadata["document_id"], metadata["document_name"]) == (listed["id"], "spans.txt")
        assert (metadata["content_hash"], metadata["revision"]) == (listed["hash"], status["ingestionId"])
        assert metadata["token_count"] > 0
        assert metadata["ingested_at"].startswith("20")


async def test_a_name_with_several_slashes_is_that_of_its_own_document_only(base: Base) -> None:
    url = "https://example.org//tea"
    for name in (url, "https:/example.org/tea"):
        await base.ended((await base.post(name, name)).json()["ingestionId"])
    path = f"{base.path}/documents/{quote(url, safe='')}"
    assert (await base.client.get(path)).json()["name"] == url
    assert (await base.client.delete(path)).status_code == 204
    assert [each["name"] for each in await base.documents()] == ["https:/example.org/tea"]


@pytest.mark.parametrize("parameter", ["kbId", "documentName"])
@pytest.mark.parametrize("name", ["a\x85b", "a\u2028b", "\u202etxt.a", "a\ufeff"])
async def test_a_name_with_a_character_that_nobody_sees_is_reported_by_its_parameter(
    base: Base, parameter: str, name: str
) -> None:
    response = await base.client.post(
        base.path + "/ingest", params={parameter: name}, content="tea", headers={"Content-Type": "text/plain"}
    )
    assert response.status_code == 400
    assert [error["path"] for error in response.json()["errors"]] == [f"$.{parameter}"]
    form = await base.client.post(base.path + "/ingest", files={"file": ("a\u202eb.txt", b"tea", "text/plain")})
    assert [error["path"] for error in form.json()["errors"]] == ["$.file"]
    assert await base.documents() == []


@pytest.mark.parametrize("name", [".", "..", "a/../b", "./a", "a%0Ab"])
async def test_a_name_that_leads_to_another_path_or_has_control_characters_is_rejected(base: Base, name: str) -> None:
    response = await base.client.post(
        f"{base.path}/ingest?documentName={name}", content="tea", headers={"Content-Type": "text/plain"}
    )
    assert response.status_code == 400
    assert await base.documents() == []


@pytest.mark.parametrize(("body", "path"), [({}, "$.query"), ({"query": "tea", "top_k": 5}, "$.top_k")])
async def test_a_missing_and_an_unknown_field_of_a_query_are_named(base: Base, body: object, path: str) -> None:
    response = await base.client.post(f"{base.path}/query", json=body)
    assert response.status_code == 400
    assert [error["path"] for error in response.json()["errors"]] == [path]


async def test_a_list_of_documents_has_pages(base: Base) -> None:
    for name in ("c", "a", "b"):
        await base.completed(name, f"tea {name}")
    response = (await base.client.get(base.path + "/documents", params={"limit": 2, "index": 1})).json()
    assert response["total"] == 3
    assert [each["name"] for each in response["documents"]] == ["c"]
    first = (await base.documents(limit=1))[0]
    assert (first["name"], first["bytes"], first["chunks"], first["status"]) == ("a", 5, 1, "completed")


async def test_a_document_of_the_same_name_is_replaced_without_a_gap(
    base: Base, server: EmbeddingServer, ingesting: Served
) -> None:
    await base.completed("doc", text_of("old", 3))
    old = {hit["text"] for hit in await base.query("x")}
    server.held = "new"
    ingestion = await base.ingest("doc", text_of("new", 2))
    await base.embedding(ingestion, server)
    assert {hit["text"] for hit in await base.query("x")} == old
    server.held = "\0"
    await base.ended(ingestion)
    hits = await base.query("x")
    assert {hit["text"].split()[0] for hit in hits} == {"new"}
    assert len(hits) == 2
    collection = _collection_of(ingesting, base)
    # Old chunks are removed after the new ones are visible.
    await until(lambda: len(all_documents(ingesting.url, collection)) == 2)
    chunks = all_documents(ingesting.url, collection)
    assert {chunk["metadata"]["revision"] for chunk in chunks} == {ingestion}


async def test_the_content_that_was_accepted_last_wins(base: Base, server: EmbeddingServer) -> None:
    server.held = "first"
    first = await base.ingest("doc", "first")
    second = await base.ingest("doc", "second")
    await base.ended(second)
    server.held = "\0"
    assert {(await base.ended(each))["status"] for each in (first, second)} == {"completed"}
    assert [hit["text"] for hit in await base.query("x")] == ["second"]


async def test_equal_content_is_not_embedded_again(base: Base, server: EmbeddingServer) -> None:
    await base.completed("doc", "the same content")
    before = server.texts["the same content"]
    found = await base.completed("doc", "the same content")
    assert (found["unchanged"], found["chunks"]) == (True, 1)
    assert server.texts["the same content"] == before
    assert len(await base.query("x")) == 1


async def test_a_deleted_document_is_not_found_and_leaves_no_vectors(base: Base, ingesting: Served) -> None:
    await base.completed("folder/doc one.txt", "tea")
    await base.completed("other", "coffee")
    assert (await base.delete("folder/doc one.txt")).status_code == 204
    assert [hit["text"] for hit in await base.query("tea")] == ["coffee"]
    assert [each["name"] for each in await base.documents()] == ["other"]
    chunks = all_documents(ingesting.url, _collection_of(ingesting, base))
    assert [chunk["text"] for chunk in chunks] == ["coffee"]
    assert (await base.delete("folder/doc one.txt")).status_code == 404


async def test_a_document_that_is_deleted_during_its_ingestion_stays_deleted(
    base: Base, server: EmbeddingServer, ingesting: Served
) -> None:
    await base.completed("other", "coffee")
    server.held = "tea"
    ingestion = await base.ingest("doc", "tea")
    await base.embedding(ingestion, server)
    assert (await base.delete("doc")).status_code == 204
    server.held = "\0"
    assert (await base.ended(ingestion))["status"] == "failed: The document was deleted"
    assert [each["name"] for each in await base.documents()] == ["other"]


async def test_a_cancelled_ingestion_leaves_the_document_as_it_was(base: Base, server: EmbeddingServer) -> None:
    await base.completed("doc", "before")
    server.held = "after"
    ingestion = await base.ingest("doc", "after")
    await base.embedding(ingestion, server)
    response = await base.client.delete(f"{base.path}/ingestion/{ingestion}")
    server.held = "\0"
    assert response.status_code == 204
    assert (await base.status(ingestion))["status"] == "failed: The ingestion was cancelled"
    assert (await base.client.delete(f"{base.path}/ingestion/{ingestion}")).status_code == 204
    assert [hit["text"] for hit in await base.query("x")] == ["before"]


async def test_a_completed_ingestion_cannot_be_cancelled(base: Base) -> None:
    found = await base.completed("doc", "tea")
    response = await base.client.delete(f"{base.path}/ingestion/{found['ingestionId']}")
    assert (response.status_code, response.json()["code"]) == (409, "ingestion_ended")


async def test_a_poisoned_document_fails_alone_without_its_content_in_the_message(
    base: Base, server: EmbeddingServer, ingesting: Served
) -> None:
    server.rejected = "poison"
    bad = await base.ingest("bad", "a poison of the canary")
    good = await base.ingest("good", "tea")
    assert (await base.ended(good))["status"] == "completed"
    status = (await base.ended(bad))["status"]
    server.rejected = "\0"
    assert status.startswith("failed: ")
    assert "413" in status
    log = ingesting.log.read_text()
    for text in ("canary", "poison"):
        assert text not in status
        assert text not in log
    assert [hit["text"] for hit in await base.query("x")] == ["tea"]


async def test_a_document_without_text_and_one_with_too_many_chunks_fail_with_a_message(base: Base) -> None:
    scan = await base.ingest("scan", (FILES / "scan.pdf").read_bytes(), "application/pdf")
    large = await base.ingest("large", text_of("large", 501))
    assert (await base.ended(scan))["status"].startswith("failed: ")
    assert (await base.ended(large))["status"] == "failed: The document has more than 500 chunks, which is the maximum"


async def test_one_document_of_a_base_is_not_delayed_by_many_of_another(
    base: Base, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    other = await new_base(client, server)
    server.held = "tea"
    many = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(40)]
    one = await other.ingest("one", "coffee")
    assert (await other.ended(one))["status"] == "completed"
    states = [(await base.status(each))["status"] for each in many]
    server.held = "\0"
    assert states.count("completed") < 20
    for each in many:
        await client.delete(f"{base.path}/ingestion/{each}")


async def test_a_duplicate_of_a_base_has_no_documents(base: Base) -> None:
    await base.completed("doc", "tea")
    response = await base.client.post(base.path + "?version=1")
    copy = Base(base.client, response.headers["Location"].rpartition("/")[2].partition("?")[0])
    assert await copy.documents() == []
    assert await copy.query("tea") == []


async def test_a_deleted_base_refuses_documents(base: Base, server: EmbeddingServer) -> None:
    await base.completed("doc", "tea")
    assert (await base.client.delete(base.path + "?version=1")).status_code == 200
    response = await base.post("doc", "tea")
    assert (response.status_code, response.json()["code"]) == (404, "configuration_not_found")


async def test_permanent_deletion_of_a_base_removes_documents_texts_vectors_and_jobs(
    base: Base, server: EmbeddingServer, ingesting: Served, state: State
) -> None:
    await base.completed("doc", "tea")
    collection = _collection_of(ingesting, base)
    server.held = "coffee"
    ingestion = await base.ingest("next", "coffee")
    await base.embedding(ingestion, server)
    assert (await base.client.delete(base.path + "?version=1&permanent=true")).status_code == 200
    server.held = "\0"
    assert (await base.ended(ingestion))["status"] == "failed: The knowledge base was deleted"
    await until(lambda: collection not in collection_names(ingesting.url))
    assert base.id not in state.base_ids()


async def test_metrics_show_the_outcomes_the_steps_and_the_queue(base: Base) -> None:
    await base.completed("doc", "tea")
    metrics = (await base.client.get("/metrics")).text
    assert 'ragstore_gateway_ingestions_total{outcome="completed"}' in metrics
    assert 'ragstore_gateway_ingestion_step_seconds_count{step="embed"}' in metrics
    assert 'ragstore_gateway_ingestion_queue_length{state="pending"}' in metrics


def _collection_of(served: Served, base: Base) -> str:
    prefix = f"kb_{base.id.replace('-', '')}"
    return next(name for name in collection_names(served.url) if name.startswith(prefix))
