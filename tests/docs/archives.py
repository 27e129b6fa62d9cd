"""The environment of the Python client's page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ragstore_client import Base64, Client
from tests.support.pages import ROOT
from tests.support.servers import Served


@contextmanager
def archive_environment(service: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The handbook, and the service as the variable `RAGSTORE_URL`."""
    with Client(service.url) as store:
        store.create_collection("property")
        lines = (ROOT / "examples/handbook/passages.jsonl").read_text().splitlines()
        passages = [{**row, "embedding": Base64(row["embedding"])} for row in map(json.loads, lines)]
        store.upsert_documents("property", [each for each in passages if ":chunk:" in each["id"]])
        monkeypatch.setenv("RAGSTORE_URL", service.url)
        yield
