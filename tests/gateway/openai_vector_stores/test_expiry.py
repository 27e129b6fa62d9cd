"""Vector stores and files expire. The tests move their times into the past."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.vector_store_create_params import ExpiresAfter

from tests.gateway.openai_vector_stores.conftest import BOILER, KEYS, Api, attach, upload
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import running

WAIT_SECONDS: Final = 60
ONE_DAY: Final[ExpiresAfter] = {"anchor": "last_active_at", "days": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the gateway."""
    return tmp_path_factory.mktemp("expiry")


@pytest.fixture(scope="module")
@starts_process
def api(folder: Path) -> Iterator[Api]:
    """A gateway over SQLite."""
    with running(start_gateway(folder)) as served:
        yield Api(served.url)


def execute(folder: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(folder / "data" / "gateway.db", timeout=30)) as connection:
        connection.execute(statement, values)
        connection.commit()


def make_old(folder: Path, store_id: str) -> None:
    """Move all that has happened to a vector store two days into the past."""
    past = stored(datetime.now(UTC) - timedelta(days=2))
    execute(folder, "UPDATE vector_store SET active_on = ? WHERE base_id = ?", past, store_id)
    execute(folder, "UPDATE configuration SET modified_on = ? WHERE id = ?", past, store_id)
    execute(folder, "UPDATE document SET modified_on = ? WHERE base_id = ?", past, store_id)


def stored(moment: datetime) -> str:
    """A time as it is in SQLite."""
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the sweep changed nothing"
        time.sleep(0.2)


def test_the_expiry_of_a_vector_store_is_counted_from_its_last_activity(sdk: OpenAI, plain: httpx.Client) -> None:
    store = sdk.vector_stores.create(expires_after={"anchor": "last_active_at", "days": 7})
    assert store.expires_after is not None
    assert store.expires_after.days == 7
    assert store.expires_at == (store.last_active_at or 0) + 7 * 86_400
    assert sdk.vector_stores.update(store.id, metadata={"a": "b"}).expires_at is not None
    changed = sdk.vector_stores.update(store.id, expires_after={"anchor": "last_active_at", "days": 30})
    assert (changed.expires_at or 0) > store.expires_at + 22 * 86_400
    assert changed.metadata == {"a": "b"}
    assert sdk.vector_stores.update(store.id, expires_after=None).expires_at is None
    plain.delete(f"/v1/vector_stores/{store.id}").raise_for_status()


@pytest.mark.parametrize("expires_after", [{"days": 0}, {"days": 366}, {"days": 1, "anchor": "created_at"}, "never"])
def test_an_expiry_that_is_not_possible_is_400(plain: httpx.Client, expires_after: object) -> None:
    response = plain.post("/v1/vector_stores", json={"expires_after": expires_after})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("expires_after")


def test_an_expired_vector_store_has_no_documents_and_is_not_searched(
    sdk: OpenAI, plain: httpx.Client, folder: Path
) -> None:
    store = sdk.vector_stores.create(name="passing", expires_after=ONE_DAY)
    attach(sdk, store.id, "boiler.txt", BOILER)
    other = upload(sdk, "keys.txt", KEYS)
    make_old(folder, store.id)
    # From its time on, even before the sweep.
    with pytest.raises(openai.BadRequestError, match="expired"):
        sdk.vector_stores.search(store.id, query="boiler")
    wait_until(lambda: not list(sdk.vector_stores.files.list(store.id)))
    expired = sdk.vector_stores.retrieve(store.id)
    assert (expired.status, expired.file_counts.total) == ("expired", 0)
    assert plain.post(f"/ragstore/rags/{store.id}/query", json={"query": "boiler"}).json()["results"] == []
    with pytest.raises(openai.BadRequestError, match="expired"):
        sdk.vector_stores.files.create(store.id, file_id=other.id)
    with pytest.raises(openai.BadRequestError, match="expired"):
        sdk.vector_stores.file_batches.create(store.id, file_ids=[other.id])
    # Its owner may use it again.
    sdk.vector_stores.update(store.id, expires_after=ONE_DAY)
    assert sdk.vector_stores.files.create_and_poll(other.id, vector_store_id=store.id).status == "completed"
    assert sdk.vector_stores.retrieve(store.id).status == "completed"


@pytest.mark.parametrize("activity", ["search", "upload", "change"])
def test_an_activity_postpones_the_expiry(sdk: OpenAI, plain: httpx.Client, folder: Path, activity: str) -> None:
    store = sdk.vector_stores.create(expires_after=ONE_DAY)
    attach(sdk, store.id, "boiler.txt", BOILER)
    make_old(folder, store.id)
    past = stored(datetime.now(UTC) - timedelta(hours=23, minutes=55))
    execute(folder, "UPDATE vector_store SET active_on = ? WHERE base_id = ?", past, store.id)
    before = sdk.vector_stores.retrieve(store.id).last_active_at or 0
    if activity == "search":
        plain.post(f"/ragstore/rags/{store.id}/query", json={"query": "boiler"}).raise_for_status()
    elif activity == "upload":
        attach(sdk, store.id, "keys.txt", KEYS)
    else:
        sdk.vector_stores.update(store.id, name="renamed by activity")
    wait_until(lambda: (sdk.vector_stores.retrieve(store.id).last_active_at or 0) > before + 3600)
    assert sdk.vector_stores.retrieve(store.id).status == "completed"


def test_a_document_that_came_by_another_call_postpones_the_expiry(
    sdk: OpenAI, plain: httpx.Client, folder: Path
) -> None:
    store = sdk.vector_stores.create(expires_after=ONE_DAY)
    accepted = plain.post(f"/ragstore/rags/{store.id}/ingest", params={"documentName": "a"}, content=BOILER)
    accepted.raise_for_status()
    wait_until(lambda: sdk.vector_stores.retrieve(store.id).file_counts.completed == 1)
    past = stored(datetime.now(UTC) - timedelta(days=2))
    execute(folder, "UPDATE vector_store SET active_on = ? WHERE base_id = ?", past, store.id)
    wait_until(lambda: sdk.vector_stores.retrieve(store.id).status == "completed")
    assert sdk.vector_stores.retrieve(store.id).file_counts.completed == 1


def test_an_expired_file_is_deleted_and_removed_from_vector_stores(sdk: OpenAI, folder: Path) -> None:
    file = sdk.files.create(
        file=("boiler.txt", BOILER.encode()),
        purpose="assistants",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.expires_at == file.created_at + 3600
    lasting = upload(sdk, "keys.txt", KEYS)
    store = sdk.vector_stores.create(file_ids=[file.id, lasting.id])
    execute(folder, "UPDATE file SET expires_on = ? WHERE id = ?", stored(datetime.now(UTC)), file.id)
    wait_until(lambda: file.id not in [each.id for each in sdk.files.list()])
    assert [each.id for each in sdk.vector_stores.files.list(store.id)] == [lasting.id]


def test_an_upload_that_was_not_completed_in_time_is_deleted(sdk: OpenAI, folder: Path) -> None:
    upload = sdk.uploads.create(filename="a.txt", purpose="assistants", bytes=6, mime_type="text/plain")
    part = sdk.uploads.parts.create(upload.id, data=b"kettle")
    past = stored(datetime.now(UTC) - timedelta(minutes=61))
    execute(folder, "UPDATE upload SET created_on = ? WHERE id = ?", past, upload.id)
    with pytest.raises(openai.NotFoundError):
        sdk.uploads.complete(upload.id, part_ids=[part.id])
    with closing(sqlite3.connect(folder / "data" / "gateway.db", timeout=30)) as connection:
        wait_until(lambda: connection.execute("SELECT count(*) FROM upload_part").fetchone() == (0,))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"expires_after[seconds]": "3600"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600.5"}, "expires_after.seconds"),
        ({"expires_after": "3600"}, "expires_after.anchor"),
    ],
)
def test_an_expiry_of_a_file_that_is_not_possible_is_400(
    plain: httpx.Client, fields: dict[str, str], param: str
) -> None:
    response = plain.post("/v1/files", data={"purpose": "assistants", **fields}, files={"file": ("a.txt", b"x")})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
