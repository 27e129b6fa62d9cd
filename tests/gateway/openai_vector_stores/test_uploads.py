"""Files that are uploaded in parts, with OpenAI's SDK."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types import Upload, VectorStore

from tests.gateway.openai_vector_stores.conftest import BOILER, Api
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served

TEXT: Final = "".join(f"Line {number} of the manual. {BOILER}\n" for number in range(200))
NEW: Final = {"filename": "manual.txt", "purpose": "assistants", "bytes": 6, "mime_type": "text/plain"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
@starts_process
def api(request: pytest.FixtureRequest) -> Api:
    """A gateway over SQLite, and one of two replicas over PostgreSQL."""
    if request.param == "sqlite":
        gateway: Served = request.getfixturevalue("gateway")
        return Api(gateway.url)
    replicas = request.getfixturevalue("replicas")
    return Api(replicas.gateways[0].url, replicas.keys["writer"])


@pytest.fixture
def upload(sdk: OpenAI) -> Upload:
    """An upload of six bytes."""
    return sdk.uploads.create(filename="manual.txt", purpose="assistants", bytes=6, mime_type="text/plain")


def part(sdk: OpenAI, upload: Upload, content: bytes) -> str:
    return sdk.uploads.parts.create(upload.id, data=content).id


def test_a_file_in_parts_is_the_file(sdk: OpenAI) -> None:
    content = TEXT.encode()
    completed = sdk.uploads.upload_file_chunked(
        file=content,
        filename="folder/manual.md",
        bytes=len(content),
        mime_type="text/markdown",
        purpose="assistants",
        part_size=4000,
        md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
    )
    assert (completed.status, completed.bytes) == ("completed", len(content))
    assert completed.file is not None
    assert (completed.file.filename, completed.file.purpose, completed.file.bytes) == (
        "manual.md",
        "assistants",
        len(content),
    )
    assert sdk.files.content(completed.file.id).read() == content


def test_a_file_in_parts_can_be_searched(gateway: Served) -> None:
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-any", max_retries=0) as sdk:
        completed = sdk.uploads.upload_file_chunked(
            file=BOILER.encode(), filename="boiler.txt", bytes=len(BOILER), mime_type="text/plain", purpose="assistants"
        )
        store: VectorStore = sdk.vector_stores.create()
        assert completed.file is not None
        sdk.vector_stores.files.create_and_poll(completed.file.id, vector_store_id=store.id, poll_interval_ms=50)
        [found] = sdk.vector_stores.search(store.id, query="boiler").data
        assert (found.filename, found.content[0].text) == ("boiler.txt", BOILER)
        sdk.vector_stores.delete(store.id)


def test_parts_are_joined_in_the_order_of_the_completion(sdk: OpenAI, upload: Upload) -> None:
    second, first = part(sdk, upload, b"ttle"), part(sdk, upload, b"ke")
    completed = sdk.uploads.complete(upload.id, part_ids=[first, second])
    assert completed.file is not None
    assert sdk.files.content(completed.file.id).read() == b"kettle"


def test_an_upload_ends_after_an_hour(upload: Upload) -> None:
    assert (upload.status, upload.expires_at - upload.created_at, upload.file) == ("pending", 3600, None)


def test_the_file_of_an_upload_may_expire(sdk: OpenAI) -> None:
    upload = sdk.uploads.create(
        filename="a.txt",
        purpose="assistants",
        bytes=1,
        mime_type="text/plain",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    completed = sdk.uploads.complete(upload.id, part_ids=[part(sdk, upload, b"x")])
    assert completed.file is not None
    assert completed.file.expires_at == completed.file.created_at + 3600


@pytest.mark.parametrize(
    ("parts", "body", "message"),
    [
        ([b"ket", b"tle"], {"part_ids": [0]}, "409.*3 bytes"),
        ([b"ket"], {"part_ids": [0, 0]}, "400.*twice"),
        ([b"ket"], {"part_ids": [0, "part_absent"]}, "409.*no part of the id 'part_absent'"),
        ([b"kettle"], {"part_ids": [0], "md5": "0" * 32}, "409.*MD5"),
    ],
)
def test_a_completion_that_does_not_fit_is_refused_and_changes_nothing(
    sdk: OpenAI, upload: Upload, parts: list[bytes], body: dict[str, Any], message: str
) -> None:
    ids = [part(sdk, upload, content) for content in parts]
    chosen = [ids[each] if isinstance(each, int) else each for each in body["part_ids"]]
    with pytest.raises(openai.APIStatusError, match=message):
        sdk.uploads.complete(upload.id, part_ids=chosen, **{name: body[name] for name in body.keys() & {"md5"}})
    rest = [part(sdk, upload, b"tle")] if sum(map(len, parts)) == 3 else []
    assert sdk.uploads.complete(upload.id, part_ids=[*ids, *rest]).status == "completed"


def test_parts_have_at_most_the_size_of_the_upload(sdk: OpenAI, upload: Upload) -> None:
    part(sdk, upload, b"kett")
    with pytest.raises(openai.ConflictError, match="6 bytes"):
        part(sdk, upload, b"les")


def test_an_upload_that_has_ended_takes_nothing(sdk: OpenAI, upload: Upload) -> None:
    own = part(sdk, upload, b"kettle")
    assert sdk.uploads.cancel(upload.id).status == "cancelled"
    with pytest.raises(openai.ConflictError, match="cancelled"):
        sdk.uploads.complete(upload.id, part_ids=[own])
    with pytest.raises(openai.ConflictError, match="cancelled"):
        part(sdk, upload, b"kettle")
    with pytest.raises(openai.ConflictError, match="cancelled"):
        sdk.uploads.cancel(upload.id)


def test_an_upload_that_does_not_exist_is_404(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.uploads.parts.create("upload_absent", data=b"x")
    with pytest.raises(openai.NotFoundError):
        sdk.uploads.complete("upload_absent", part_ids=["part"])
    with pytest.raises(openai.NotFoundError):
        sdk.uploads.cancel("upload_absent")


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"purpose": "batch"}, 400, "purpose"),
        ({"bytes": 0}, 400, "bytes"),
        ({"bytes": 2**40}, 413, None),
        ({"filename": "a\u202eb.txt"}, 400, "filename"),
        ({"expires_after": {"seconds": 60}}, 400, "expires_after.seconds"),
    ],
)
def test_an_upload_that_is_not_possible_is_refused_before_its_parts(
    plain: httpx.Client, fields: dict[str, object], status: int, param: str | None
) -> None:
    response = plain.post("/v1/uploads", json={**NEW, **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_a_part_that_is_no_file_is_400(plain: httpx.Client, upload: Upload) -> None:
    path = f"/v1/uploads/{upload.id}/parts"
    assert plain.post(path, files={"data": b""}).json()["error"]["param"] == "data"
    assert plain.post(path, files={"other": b"x"}).json()["error"]["param"] == "data"
    assert plain.post(path, json={}).status_code == 400
