"""Files: uploaded, attached, listed, read, detached, deleted; and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types import VectorStore

from tests.gateway.openai_vector_stores.conftest import BOILER, KEYS, RENT, Handbook, attach, upload


def test_a_file_is_uploaded_read_downloaded_and_deleted(sdk: OpenAI) -> None:
    content = bytes(range(256))
    file = upload(sdk, "raw data.bin", content)
    assert (file.object, file.bytes, file.filename, file.purpose) == ("file", 256, "raw data.bin", "assistants")
    assert sdk.files.retrieve(file.id) == file
    assert sdk.files.content(file.id).read() == content
    deleted = sdk.files.delete(file.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (file.id, True, "file")
    for call in (sdk.files.retrieve, sdk.files.content, sdk.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(file.id)


def test_files_are_listed_by_purpose_in_pages(sdk: OpenAI) -> None:
    files = [sdk.files.create(file=(f"{n}.txt", b"text"), purpose="user_data") for n in range(4)]
    ids = [file.id for file in files]
    page = sdk.files.list(purpose="user_data", limit=3)
    assert [file.id for file in page.data] == ids[:0:-1]
    assert page.has_more
    assert [file.id for file in sdk.files.list(purpose="user_data", limit=3)] == ids[::-1]
    ascending = sdk.files.list(purpose="user_data", order="asc", after=ids[1])
    assert [file.id for file in ascending.data] == ids[2:]
    assert not set(ids) & {file.id for file in sdk.files.list(purpose="assistants")}
    for file_id in ids:
        sdk.files.delete(file_id)


@pytest.mark.parametrize(
    ("data", "file", "param"),
    [
        ({"purpose": "fine-tune"}, ("a.txt", b"x"), "purpose"),
        ({}, ("a.txt", b"x"), "purpose"),
        ({"purpose": "assistants"}, None, "file"),
        ({"purpose": "assistants"}, ("a.txt", b""), "file"),
    ],
)
def test_an_upload_that_is_not_supported_is_400(
    plain: httpx.Client, data: dict[str, str], file: tuple[str, bytes] | None, param: str
) -> None:
    files: Any = {"file": file} if file else {"other": (None, "x")}
    response = plain.post("/v1/files", data=data, files=files)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("second", ["file", "other"])
def test_an_upload_of_two_files_is_400_and_stores_none(plain: httpx.Client, second: str) -> None:
    before = plain.get("/v1/files").json()["data"]
    files = [("file", ("a.txt", b"tea")), (second, ("b.txt", b"coffee"))]
    response = plain.post("/v1/files", data={"purpose": "assistants"}, files=files)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "file")
    assert plain.get("/v1/files").json()["data"] == before


def test_an_invalid_state_of_files_is_reported_by_the_name_of_the_parameter(
    plain: httpx.Client, store: VectorStore
) -> None:
    response = plain.get(f"/v1/vector_stores/{store.id}/files", params={"filter": "lost"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "filter")


def test_an_upload_that_is_no_form_is_400(plain: httpx.Client) -> None:
    assert plain.post("/v1/files", json={"purpose": "assistants"}).status_code == 400


def test_an_attached_file_is_ingested_and_its_text_can_be_read(sdk: OpenAI, store: VectorStore) -> None:
    file = upload(sdk, "page.html", f"<html><body><p>{RENT}</p></body></html>")
    attached = sdk.vector_stores.files.create(store.id, file_id=file.id, attributes={"n": 1})
    assert (attached.object, attached.id, attached.vector_store_id) == ("vector_store.file", file.id, store.id)
    done = sdk.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    assert (done.status, done.last_error, done.attributes, done.usage_bytes) == (
        "completed",
        None,
        {"n": 1},
        file.bytes,
    )
    [content] = sdk.vector_stores.files.content(file.id, vector_store_id=store.id).data
    assert (content.type, (content.text or "").strip()) == ("text", RENT)


def test_a_file_whose_text_cannot_be_extracted_is_failed_and_harms_no_other(sdk: OpenAI, store: VectorStore) -> None:
    broken = attach(sdk, store.id, "broken.pdf", b"%PDF-1.7 nothing")
    assert broken.status == "failed"
    assert broken.last_error is not None
    assert broken.last_error.code == "invalid_file"
    good = attach(sdk, store.id, "good.txt", BOILER)
    assert good.status == "completed"
    counts = sdk.vector_stores.retrieve(store.id).file_counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    failed = sdk.vector_stores.files.list(store.id, filter="failed")
    assert [file.id for file in failed] == [broken.id]
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.files.content(broken.id, vector_store_id=store.id)


def test_two_files_of_one_name_are_two_documents(sdk: OpenAI, store: VectorStore) -> None:
    first = attach(sdk, store.id, "same.txt", BOILER)
    second = attach(sdk, store.id, "same.txt", KEYS)
    found = sdk.vector_stores.search(store.id, query="boiler and keys")
    assert {(result.file_id, result.filename, result.content[0].text) for result in found} == {
        (first.id, "same.txt", BOILER),
        (second.id, "same.txt", KEYS),
    }


def test_attaching_a_file_again_replaces_its_attributes_and_not_its_chunks(sdk: OpenAI, store: VectorStore) -> None:
    file = upload(sdk, "a.txt", BOILER)
    for number in (1, 2):
        attached = sdk.vector_stores.files.create_and_poll(
            file.id, vector_store_id=store.id, attributes={"n": number}, poll_interval_ms=50
        )
        assert (attached.status, attached.attributes) == ("completed", {"n": number})
    assert len(sdk.vector_stores.search(store.id, query="boiler").data) == 1
    assert sdk.vector_stores.retrieve(store.id).file_counts.total == 1


def test_a_removed_file_is_not_found_by_the_next_search(sdk: OpenAI, store: VectorStore) -> None:
    file = attach(sdk, store.id, "a.txt", BOILER)
    deleted = sdk.vector_stores.files.delete(file.id, vector_store_id=store.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (file.id, True, "vector_store.file.deleted")
    assert sdk.vector_stores.search(store.id, query="boiler").data == []
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
    assert sdk.files.retrieve(file.id).id == file.id


def test_deleting_an_uploaded_file_removes_it_from_all_vector_stores(sdk: OpenAI, store: VectorStore) -> None:
    other = sdk.vector_stores.create()
    file = upload(sdk, "a.txt", BOILER)
    for store_id in (store.id, other.id):
        sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store_id, poll_interval_ms=50)
    sdk.files.delete(file.id)
    for store_id in (store.id, other.id):
        assert sdk.vector_stores.search(store_id, query="boiler").data == []
        assert sdk.vector_stores.retrieve(store_id).file_counts.total == 0
    sdk.vector_stores.delete(other.id)


def test_documents_without_an_upload_are_files_with_their_document_id(
    sdk: OpenAI, plain: httpx.Client, store: VectorStore
) -> None:
    path = f"/ragstore/rags/{store.id}"
    accepted = plain.post(f"{path}/ingest?documentName=own.txt", content=BOILER, headers={"Content-Type": "text/plain"})
    accepted.raise_for_status()
    document = plain.get(f"{path}/documents/own.txt").json()
    done = sdk.vector_stores.files.poll(document["id"], vector_store_id=store.id, poll_interval_ms=50)
    assert (done.id, done.status, done.attributes) == (document["id"], "completed", {})
    [found] = sdk.vector_stores.search(store.id, query="boiler").data
    assert (found.file_id, found.filename) == (document["id"], "own.txt")
    changed = sdk.vector_stores.files.update(done.id, vector_store_id=store.id, attributes={"topic": "x"})
    assert changed.attributes == {"topic": "x"}
    # An uploaded file of the same name does not replace it.
    attach(sdk, store.id, "own.txt", KEYS)
    assert sdk.vector_stores.retrieve(store.id).file_counts.completed == 2
    sdk.vector_stores.files.delete(done.id, vector_store_id=store.id)
    assert plain.get(f"{path}/documents/own.txt").status_code == 404


def test_files_of_a_store_are_listed_in_pages_by_cursor(sdk: OpenAI, handbook: Handbook) -> None:
    ids = [handbook.files[name].id for name in ("boiler.txt", "keys.md", "rent.html")]
    page = sdk.vector_stores.files.list(handbook.store.id, limit=2)
    assert [file.id for file in page.data] == [ids[2], ids[1]]
    assert page.has_more
    assert [file.id for file in sdk.vector_stores.files.list(handbook.store.id, limit=2)] == ids[::-1]
    ascending = sdk.vector_stores.files.list(handbook.store.id, order="asc", after=ids[0], filter="completed")
    assert [file.id for file in ascending.data] == ids[1:]
    before = sdk.vector_stores.files.list(handbook.store.id, order="asc", before=ids[2], limit=1)
    assert [file.id for file in before.data] == [ids[1]]
    assert sdk.vector_stores.files.list(handbook.store.id, filter="failed").data == []


@pytest.mark.parametrize(
    "attributes",
    [
        {f"k{n}": 1 for n in range(17)},
        {"k" * 65: 1},
        {"k": "v" * 513},
        {"k": [1]},
        {"k": None},
        {"": 1},
    ],
)
def test_attributes_beyond_openais_limits_are_400(
    plain: httpx.Client, sdk: OpenAI, handbook: Handbook, attributes: dict[str, Any]
) -> None:
    file = handbook.files["keys.md"]
    path = f"/v1/vector_stores/{handbook.store.id}/files"
    for response in (
        plain.post(path, json={"file_id": file.id, "attributes": attributes}),
        plain.post(f"{path}/{file.id}", json={"attributes": attributes}),
    ):
        assert response.status_code == 400
        assert response.json()["error"]["param"].startswith("attributes")
    kept = sdk.vector_stores.files.retrieve(file.id, vector_store_id=handbook.store.id)
    assert (kept.attributes or {})["topic"] == "access"


def test_what_does_not_exist_is_404(sdk: OpenAI, store: VectorStore) -> None:
    file = upload(sdk, "a.txt", BOILER)
    calls: list[Callable[[], object]] = [
        lambda: sdk.vector_stores.files.create("nowhere", file_id=file.id),
        lambda: sdk.vector_stores.files.retrieve(file.id, vector_store_id=store.id),
        lambda: sdk.vector_stores.files.delete(file.id, vector_store_id=store.id),
        lambda: sdk.vector_stores.file_batches.retrieve("vsfb_nowhere", vector_store_id=store.id),
        lambda: sdk.vector_stores.file_batches.cancel("vsfb_nowhere", vector_store_id=store.id),
    ]
    for call in calls:
        with pytest.raises(openai.NotFoundError):
            call()
    assert sdk.vector_stores.retrieve(store.id).file_counts.total == 0


def test_a_body_with_a_file_that_does_not_exist_is_404_and_attaches_nothing(sdk: OpenAI, store: VectorStore) -> None:
    file = upload(sdk, "a.txt", BOILER)
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.files.create(store.id, file_id="file-nowhere")
    with pytest.raises(openai.NotFoundError):
        sdk.vector_stores.file_batches.create(store.id, file_ids=[file.id, "file-nowhere"])
    assert sdk.vector_stores.retrieve(store.id).file_counts.total == 0


# Batches


def test_a_batch_attaches_files_and_one_bad_file_harms_no_other(sdk: OpenAI, store: VectorStore) -> None:
    good = [upload(sdk, "a.txt", BOILER), upload(sdk, "b.txt", KEYS)]
    broken = upload(sdk, "c.pdf", b"%PDF-1.7 nothing")
    unsupported = upload(sdk, "d.png", b"\x89PNG\r\n\x1a\n")
    ids = [good[0].id, broken.id, unsupported.id, good[1].id]
    batch = sdk.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=ids, attributes={"batch": "one"}, poll_interval_ms=50
    )
    counts = batch.file_counts
    assert (batch.object, batch.vector_store_id, batch.status) == ("vector_store.files_batch", store.id, "completed")
    assert (counts.total, counts.completed, counts.failed, counts.in_progress) == (4, 2, 2, 0)
    files = {file.id: file for file in sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)}
    assert {id: file.status for id, file in files.items()} == {
        good[0].id: "completed",
        good[1].id: "completed",
        broken.id: "failed",
        unsupported.id: "failed",
    }
    codes = {id: file.last_error.code for id, file in files.items() if file.last_error}
    assert codes == {broken.id: "invalid_file", unsupported.id: "unsupported_file"}
    assert files[good[0].id].attributes == {"batch": "one"}


def test_the_files_of_a_batch_are_listed_by_state_in_pages(sdk: OpenAI, store: VectorStore) -> None:
    files = [upload(sdk, f"{number}.txt", f"{BOILER} {number}") for number in range(3)]
    ids = [file.id for file in files]
    batch = sdk.vector_stores.file_batches.create_and_poll(store.id, file_ids=ids, poll_interval_ms=50)
    listing = sdk.vector_stores.file_batches.list_files
    page = listing(batch.id, vector_store_id=store.id, limit=2, order="asc", filter="completed")
    assert [file.id for file in page.data] == ids[:2]
    assert page.has_more
    following = listing(batch.id, vector_store_id=store.id, order="asc", after=ids[1])
    assert [file.id for file in following.data] == ids[2:]
    assert listing(batch.id, vector_store_id=store.id, filter="in_progress").data == []


def test_a_batch_can_be_cancelled(sdk: OpenAI, store: VectorStore) -> None:
    files = [upload(sdk, f"{number}.txt", f"{BOILER} {number} " * 2000) for number in range(6)]
    batch = sdk.vector_stores.file_batches.create(store.id, file_ids=[file.id for file in files])
    cancelled = sdk.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert cancelled.file_counts.in_progress == 0
    assert cancelled.file_counts.cancelled + cancelled.file_counts.completed == 6
    assert cancelled.status in ("cancelled", "completed")
    again = sdk.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
    assert again.file_counts == cancelled.file_counts


@pytest.mark.parametrize("body", [{}, {"file_ids": []}, {"file_ids": ["a"], "files": [{"file_id": "a"}]}])
def test_a_batch_needs_either_ids_or_files(plain: httpx.Client, store: VectorStore, body: dict[str, Any]) -> None:
    response = plain.post(f"/v1/vector_stores/{store.id}/file_batches", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "file_ids")
