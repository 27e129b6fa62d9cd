"""The environment of the Python client's page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ragstore_client import Client, NewDocument
from tests.client.corpus import chunk
from tests.client.fake_servers import FakeEmbeddings, LocalServer
from tests.support.pages import ROOT
from tests.support.servers import Served


@contextmanager
def archive_environment(service: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An endpoint that embeds, an archive, and the handbook."""
    with LocalServer(FakeEmbeddings().respond) as server, Client(service.url) as store:
        monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", server.url)
        store.create_collection("repo_readme")
        store.upsert_documents(
            "repo_readme",
            [
                chunk(0, "Die Heizung wird im Herbst gewartet.", heading="Heizung", page=3),
                chunk(1, "Den Termin nennt der Aushang.", heading="Heizung", page=3),
                chunk(2, "Die Miete ist am Monatsanfang fällig.", heading="Miete", page=4),
            ],
        )
        store.create_collection("property")
        lines = (ROOT / "examples/handbook/passages.jsonl").read_text().splitlines()
        passages = [NewDocument(**json.loads(line)) for line in lines]
        store.upsert_documents("property", [each for each in passages if ":chunk:" in (each.id or "")])
        yield
