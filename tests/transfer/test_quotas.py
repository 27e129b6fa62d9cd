"""Exports, imports and streams through a Chroma with the quotas of Chroma Cloud, of which the service knows none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import lines_of
from tests.support.quota_proxy import RECORDS, quota_proxy
from tests.support.servers import Served, running, start_service
from tests.support.streams import response_lines, stream
from tests.support.transfers import Store, document, exported, ragstore, read_export

COUNT = 2 * RECORDS + 100


@pytest.fixture(scope="module", params=["refusing", "truncating"])
def limited(
    request: pytest.FixtureRequest, chroma: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A service over a proxy with quotas."""
    with quota_proxy(chroma.url, request.param) as (url, _):
        environ = {
            "RAGSTORE_CHROMA_URL": url,
            "RAGSTORE_CHROMA_DATABASE": f"quotas_{request.param}",
            "RAGSTORE_CHROMA_CONNECTIONS": "5",
        }
        with running(start_service(tmp_path_factory.mktemp("limited"), environ)) as served, Store.of(served) as store:
            yield store


def test_a_stream_is_stored_in_batches_within_the_quota(limited: Store, name: str) -> None:
    limited.create(name)
    lines = lines_of(*(document(number, [1.0, number]) for number in range(COUNT)))
    end = response_lines(stream(limited.http, name, lines))[-1]
    assert (end["status"], end["count"]) == ("done", COUNT)
    assert limited.count(name) == COUNT


def test_an_import_and_an_export_may_be_longer_than_the_quota(
    embedded: Store, limited: Store, name: str, tmp_path: Path
) -> None:
    embedded.fill(name, COUNT, 4, "l2")
    before = exported(embedded, name, tmp_path / "before.jsonl")
    run = ragstore("import", tmp_path / "before.jsonl", "--url", limited.url, "--verify", "--batch", "500")
    assert run.exit_code == 0, run.output
    assert exported(limited, name, tmp_path / "after.jsonl", "--batch", "700") == before
    assert len(read_export(tmp_path / "after.jsonl")[1]) == COUNT


def test_a_write_beyond_the_quota_is_rejected_with_the_limit(limited: Store, name: str) -> None:
    limited.create(name)
    body = json.dumps({"documents": [document(number, [1.0, number]) for number in range(RECORDS + 1)]})
    response = limited.http.post(f"/collections/{name}/documents", content=body)
    assert response.status_code == 400
    assert (response.json()["code"], str(RECORDS) in response.json()["detail"]) == ("batch_too_large", True)
    assert limited.count(name) == 0
