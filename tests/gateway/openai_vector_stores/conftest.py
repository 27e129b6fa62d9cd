"""Fixtures: OpenAI's SDK on a running gateway, and a vector store with files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from openai import OpenAI
from openai.types import FileObject, VectorStore
from openai.types.vector_stores import VectorStoreFile

from tests.support.servers import Served

BOILER = "The boiler is serviced every October by the caretaker."
KEYS = "Keys are handed over against a receipt at the front desk."
RENT = "Rent is due on the third day of each month."
SECONDS = 60


@dataclass(frozen=True)
class Handbook:
    """A vector store with three files, whose ingestion has completed.

    Attributes:
        store: the vector store.
        files: the uploaded files by name.
    """

    store: VectorStore
    files: dict[str, FileObject]


@dataclass(frozen=True)
class Api:
    """A gateway, and a key of it."""

    url: str
    key: str = "sk-caller"


@pytest.fixture(scope="module")
def api(gateway: Served) -> Api:
    """The shared gateway, which has no keys. A file of tests may replace it."""
    return Api(gateway.url)


@pytest.fixture(scope="module")
def sdk(api: Api) -> Iterator[OpenAI]:
    """OpenAI's SDK."""
    with OpenAI(base_url=api.url + "/v1", api_key=api.key, max_retries=0, timeout=SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
def plain(api: Api) -> Iterator[httpx.Client]:
    """A plain HTTP client on the same gateway."""
    with httpx.Client(base_url=api.url, headers={"X-API-Key": api.key}, timeout=SECONDS) as client:
        yield client


@pytest.fixture
def store(sdk: OpenAI) -> Iterator[VectorStore]:
    """A new vector store."""
    created = sdk.vector_stores.create()
    yield created
    sdk.vector_stores.delete(created.id)


def upload(sdk: OpenAI, name: str, text: str | bytes) -> FileObject:
    """Upload a file."""
    content = text if isinstance(text, bytes) else text.encode()
    return sdk.files.create(file=(name, content), purpose="assistants")


def attach(
    sdk: OpenAI, store_id: str, name: str, text: str | bytes, **attributes: str | float | bool
) -> VectorStoreFile:
    """Upload a file, attach it, and wait for the end of its ingestion."""
    file = upload(sdk, name, text)
    return sdk.vector_stores.files.create_and_poll(
        file.id, vector_store_id=store_id, attributes=attributes, poll_interval_ms=50
    )


@pytest.fixture(scope="module")
def handbook(sdk: OpenAI) -> Iterator[Handbook]:
    """A vector store with files. Tests do not change it."""
    created = sdk.vector_stores.create(name="handbook", metadata={"team": "housing"}, description="For tenants")
    texts = {"boiler.txt": BOILER, "keys.md": KEYS, "rent.html": f"<html><body><p>{RENT}</p></body></html>"}
    attributes: dict[str, dict[str, str | float | bool]] = {
        "boiler.txt": {"topic": "heating", "year": 2020, "public": True},
        "keys.md": {"topic": "access", "year": 2024.5, "public": False},
        "rent.html": {"topic": "money", "year": 2022},
    }
    files = {name: upload(sdk, name, text) for name, text in texts.items()}
    batch = sdk.vector_stores.file_batches.create_and_poll(
        created.id,
        files=[{"file_id": files[name].id, "attributes": attributes[name]} for name in texts],
        poll_interval_ms=50,
    )
    assert (batch.status, batch.file_counts.completed) == ("completed", 3)
    yield Handbook(sdk.vector_stores.retrieve(created.id), files)
    sdk.vector_stores.delete(created.id)
