"""A plugin of pytest for openai-python's tests: their placeholder ids become ids of objects in the gateway.

Every test has objects of its own, which are created when a request names them.
"""

from __future__ import annotations

import json
import os
import re
import time
from functools import cached_property
from typing import Any

import httpx
import httpx2
import pytest

from scripts.peer_suites.applicability import NotApplicable, skip_not_applicable

URL = os.environ["TEST_API_BASE_URL"]

NOT_APPLICABLE = (
    NotApplicable(r"", "the response is a mock", fixture="respx2_mock"),
    NotApplicable(r"test_method_list(_files)?_with_all_params", "`limit` is 0, which OpenAI rejects, too"),
    NotApplicable(r"FileBatches::test_\w+_create\b", "neither `file_ids` nor `files`"),
    NotApplicable(r"FileBatches::test_method_create_with_all_params", "both `file_ids` and `files`"),
    NotApplicable(r"Uploads::test_\w+_create(_with_all_params)?\b", "`bytes` is 0"),
    NotApplicable(r"Uploads::test_method_complete_with_all_params", "`md5` is the word md5"),
)
"""Tests whose requests OpenAI rejects, or which send none."""

ATTACH_SECONDS = 60


class Objects:
    """The objects of one test."""

    def __init__(self) -> None:
        self._http = httpx.Client(base_url=URL, headers={"Authorization": "Bearer key"}, timeout=60)

    def _post(self, path: str, **body: Any) -> str:
        response = self._http.post(path, **body)
        response.raise_for_status()
        return str(response.json()["id"])

    @cached_property
    def store(self) -> str:
        """A vector store."""
        return self._post("/vector_stores", json={"name": "suite"})

    @cached_property
    def file(self) -> str:
        """A file, which is not attached."""
        return self._post("/files", files={"file": ("a.txt", b"Example data")}, data={"purpose": "assistants"})

    @cached_property
    def attached(self) -> str:
        """The file, attached to the vector store and ingested."""
        self._post(f"/vector_stores/{self.store}/files", json={"file_id": self.file})
        deadline = time.monotonic() + ATTACH_SECONDS
        while self._status() == "in_progress" and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.file

    def _status(self) -> str:
        response = self._http.get(f"/vector_stores/{self.store}/files/{self.file}")
        return str(response.json()["status"])

    @cached_property
    def batch(self) -> str:
        """A batch with the file."""
        return self._post(f"/vector_stores/{self.store}/file_batches", json={"file_ids": [self.file]})

    @cached_property
    def upload(self) -> str:
        """An upload of 12 bytes."""
        body = {"filename": "a.txt", "purpose": "assistants", "bytes": 12, "mime_type": "text/plain"}
        return self._post("/uploads", json=body)

    @cached_property
    def part(self) -> str:
        """A part with the bytes of the upload."""
        return self._post(f"/uploads/{self.upload}/parts", files={"data": b"Example data"})


def real_path(path: str, objects: Objects) -> str:
    """A path with ids of objects in the place of placeholders."""
    path = re.sub("vector_store_id|vs_abc123", lambda _: objects.store, path)
    path = re.sub("batch_id|vsfb_abc123", lambda _: objects.batch, path)
    path = re.sub("upload_abc123", lambda _: objects.upload, path)
    in_store = "vector_stores" in path
    return re.sub(r"(?<=/)(file_id|file-abc123)(?=/|$)", lambda _: objects.attached if in_store else objects.file, path)


def real_body(body: Any, objects: Objects, key: str = "") -> Any:
    """A body with ids of objects in the place of placeholders."""
    if isinstance(body, dict):
        return {name: real_body(value, objects, name) for name, value in body.items()}
    if isinstance(body, list):
        return [real_body(each, objects, key) for each in body]
    if isinstance(body, str) and key in ("file_id", "file_ids"):
        return objects.file
    if isinstance(body, str) and key == "part_ids":
        return objects.part
    return body


def real_request(request: httpx2.Request, objects: Objects) -> httpx2.Request:
    """A request for objects that exist."""
    url = request.url.copy_with(path=real_path(request.url.path, objects))
    if request.headers.get("content-type") != "application/json" or not request.content:
        request.url = url
        return request
    content = json.dumps(real_body(json.loads(request.content), objects)).encode()
    headers = {**request.headers, "content-length": str(len(content))}
    return httpx2.Request(request.method, url, headers=headers, content=content, extensions=request.extensions)


@pytest.fixture(autouse=True)
def objects_of_gateway(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every request for objects that exist."""
    skip_not_applicable(request, NOT_APPLICABLE)
    objects = Objects()
    send, send_async = httpx2.Client.send, httpx2.AsyncClient.send

    def sent(self: httpx2.Client, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return send(self, real_request(request, objects), **options)

    async def sent_async(self: httpx2.AsyncClient, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return await send_async(self, real_request(request, objects), **options)

    monkeypatch.setattr(httpx2.Client, "send", sent)
    monkeypatch.setattr(httpx2.AsyncClient, "send", sent_async)
