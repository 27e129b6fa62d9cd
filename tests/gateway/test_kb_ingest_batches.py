"""`kb ingest` sends small files together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

ROOM = 20


@pytest.fixture(scope="module")
@starts_process
def small_queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway whose queue has room for a few documents."""
    environ = {"RAGSTORE_GATEWAY_INGESTION_MAX_WAITING": str(ROOM)}
    with running(start_gateway(tmp_path_factory.mktemp("small"), environ)) as served:
        yield served


def requests_of(served: Served, path: str) -> float:
    """The number of requests of a route."""
    lines = httpx.get(f"{served.url}/metrics").text.splitlines()
    own = [line for line in lines if line.startswith("ragstore_gateway_requests_total") and f'path="{path}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in own)


def test_files_are_sent_together_and_those_without_room_in_the_queue_again(small_queue: Served, tmp_path: Path) -> None:
    names = [f"doc-{number:03}.txt" for number in range(100)]
    for name in names:
        (tmp_path / name).write_text(f"Text of {name}.")
    (tmp_path / "large.txt").write_text("A long text. " * 40_000)
    httpx.post(f"{small_queue.url}/ragstore/rags", json={"name": "handbook"}).raise_for_status()
    environ = {"RAGSTORE_GATEWAY_URL": small_queue.url}
    ended = CliRunner().invoke(main, ["kb", "ingest", "--json", "handbook", str(tmp_path)], env=environ)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(line["name"], line["ok"]) for line in lines] == [(name, True) for name in [*names, "large.txt"]]
    assert ended.exit_code == 0
    assert requests_of(small_queue, "/ragstore/rags/{id}/ingest") == 1
    assert 2 <= requests_of(small_queue, "/ragstore/rags/{id}/ingest/batch") <= 60
