"""Many documents in one request: one outcome for each, and one transaction."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.support.ingestion import Base

pytestmark = pytest.mark.process

TYPE = {"Content-Type": "application/x-ndjson"}


async def send(base: Base, lines: list[Any], **params: str) -> dict[str, Any]:
    """Send documents as lines of JSON."""
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    response = await base.client.post(base.path + "/ingest/batch", content=body, headers=TYPE, params=params)
    assert response.status_code == 202, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_lines_of_json_are_accepted_in_their_order_and_become_visible(base: Base) -> None:
    lines = [
        {"documentName": "text.txt", "text": "tea"},
        {"documentName": "page.html", "contentType": "text/html", "text": "<html><body><p>water</p></body></html>"},
        {"documentName": "bytes.txt", "content": base64.b64encode(b"coffee").decode()},
    ]
    found = await send(base, lines, kbId="alias")
    assert found["kbId"] == "alias"
    assert [(each["documentName"], each["status"]) for each in found["documents"]] == [
        ("text.txt", "pending"),
        ("page.html", "pending"),
        ("bytes.txt", "pending"),
    ]
    for each in found["documents"]:
        assert (await base.ended(each["ingestionId"]))["status"] == "completed"
    assert {hit["text"] for hit in await base.query("tea")} == {"tea", "water", "coffee"}


async def test_the_files_of_a_form_are_documents_with_the_names_of_the_files(base: Base) -> None:
    files = [("file", (f"{name}.md", f"# {name}".encode(), "text/markdown")) for name in ("a", "b")]
    response = await base.client.post(base.path + "/ingest/batch", files=files)
    assert response.status_code == 202, response.text
    for each in response.json()["documents"]:
        assert (await base.ended(each["ingestionId"]))["status"] == "completed"
    assert [each["name"] for each in await base.documents()] == ["a.md", "b.md"]


async def test_a_document_that_is_rejected_harms_no_other(base: Base) -> None:
    lines = [
        {"documentName": "good", "text": "tea"},
        {"documentName": "blank", "text": "  "},
        {"documentName": "image", "contentType": "image/png", "content": base64.b64encode(b"x").decode()},
        {"documentName": "../up", "text": "tea"},
        {"documentName": "nothing"},
        {"documentName": "both", "text": "tea", "content": ""},
        {"documentName": "unknown", "text": "tea", "nmae": "x"},
        "{",
        {"documentName": "also good", "text": "coffee"},
    ]
    documents = (await send(base, lines))["documents"]
    assert [each["status"] for each in documents] == ["pending", *["rejected"] * 7, "pending"]
    codes = [each["code"] for each in documents if each["status"] == "rejected"]
    assert codes == ["invalid_request", "unsupported_media_type", *["invalid_request"] * 5]
    assert documents[1]["detail"] == "Document content is required"
    for each in documents:
        if each["status"] == "pending":
            assert (await base.ended(each["ingestionId"]))["status"] == "completed"
    assert [each["name"] for each in await base.documents()] == ["also good", "good"]


async def test_of_several_documents_with_one_name_the_last_one_wins(base: Base) -> None:
    lines = [{"documentName": "doc", "text": f"version {number}"} for number in range(3)]
    for each in (await send(base, lines))["documents"]:
        assert (await base.ended(each["ingestionId"]))["status"] == "completed"
    assert [hit["text"] for hit in await base.query("version")] == ["version 2"]


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (b"", "application/x-ndjson", 400),
        (b"\n \n", "application/x-ndjson", 400),
        (b"{}\n" * 1001, "application/x-ndjson", 400),
        (b"tea", "text/plain", 415),
        (b"tea", "multipart/form-data; boundary=x", 400),
    ],
)
async def test_a_body_without_documents_or_with_too_many_is_rejected_as_a_whole(
    base: Base, content: bytes, media_type: str, status: int
) -> None:
    headers = {"Content-Type": media_type}
    response = await base.client.post(base.path + "/ingest/batch", content=content, headers=headers)
    assert response.status_code == status
    assert await base.documents() == []


async def test_documents_for_an_unknown_base_are_404(client: httpx.AsyncClient) -> None:
    unknown = Base(client, "00000000-0000-0000-0000-000000000000")
    response = await client.post(unknown.path + "/ingest/batch", content=b'{"text": "tea"}', headers=TYPE)
    assert response.status_code == 404


async def test_documents_of_one_job_are_extracted_and_split_with_one_call_each(base: Base) -> None:
    async def steps(name: str) -> float:
        text = (await base.client.get("/metrics")).text
        line = f'ragstore_gateway_ingestion_step_seconds_count{{step="{name}"}} '
        return next(float(each.removeprefix(line)) for each in text.splitlines() if each.startswith(line))

    before = {name: await steps(name) for name in ("extract", "split", "embed", "publish")}
    lines = [{"documentName": f"doc-{number}", "text": f"tea {number}"} for number in range(30)]
    for each in (await send(base, lines))["documents"]:
        assert (await base.ended(each["ingestionId"]))["status"] == "completed"
    # A job begins as soon as its first documents are accepted, and takes those that are there.
    assert {name: await steps(name) - count <= 3 for name, count in before.items()} == dict.fromkeys(before, True)
