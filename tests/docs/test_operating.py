"""The blocks of the pages for operators that need other services than a page alone has, run as they are written.

Only the placeholders of addresses are replaced.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ragstore_client import Client, NewDocument
from tests.support.clones import Clone
from tests.support.gateways import start_gateway
from tests.support.page_commands import block_with, run_commands
from tests.support.servers import running, start_service
from tests.support.trace_collector import trace_collector

pytestmark = pytest.mark.process

DOCUMENT = NewDocument(id="heating", text="The boiler.", embedding=[0.6, 0.8], metadata={"page": 3})


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test starts."""
    with ExitStack() as stack:
        yield stack


def folders(parent: Path, number: int) -> Iterator[Path]:
    """New folders."""
    for index in range(number):
        folder = parent / f"service-{index}"
        folder.mkdir()
        yield folder


def add_handbook(url: str) -> None:
    """Create a collection with one document."""
    with Client(url) as client:
        client.create_collection("handbook", metadata={"language": "en"})
        client.upsert_documents("handbook", [DOCUMENT])


def assert_handbook(url: str, name: str = "handbook") -> None:
    """Fail unless a collection has that document."""
    with Client(url) as client:
        assert client.get_collection(name).metadata["language"] == "en"
        found = client.query(name, [0.6, 0.8]).results
    assert [(match.id, match.text, match.metadata) for match in found] == [("heating", "The boiler.", {"page": 3})]


def test_a_service_on_a_copy_of_the_folder_of_a_stopped_one_has_its_documents(tmp_path: Path, stack: ExitStack) -> None:
    clone = Clone(tmp_path, stack)
    with running(start_service(tmp_path)) as served:
        add_handbook(served.url)
        assert served.stop() == 0
    clone.serve(block_with("docs/operating.md", "cp -a data data-backup"))
    assert_handbook(f"http://127.0.0.1:{clone.ports['8081']}")


def test_the_gateway_reads_the_file_of_keys_that_the_commands_for_containers_make(tmp_path: Path) -> None:
    *commands, containers = block_with("docs/operating.md", "mkdir gateway-keys").code.splitlines()
    assert containers == "docker compose --profile gateway up"
    # The key of the chat client is a variable of the shell.
    printed = run_commands("\n".join([*commands, 'echo "$GATEWAY_CHAT_KEY"']), tmp_path)
    admin, chat = re.findall(r"^rsk_[\w-]+$", printed, re.MULTILINE)
    environ = {"RAGSTORE_GATEWAY_KEYS_FILE": str(tmp_path / "gateway-keys/keys.jsonl")}
    with running(start_gateway(tmp_path, environ)) as served:
        assert httpx.get(f"{served.url}/ragstore/rags/descriptors").status_code == 401
        for path, key in (("/ragstore/rags/descriptors", admin), ("/v1/vector_stores", chat)):
            assert httpx.get(f"{served.url}{path}", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_collections_are_moved_by_the_commands_of_the_page(tmp_path: Path, stack: ExitStack) -> None:
    old, new, restored = (stack.enter_context(running(start_service(folder))).url for folder in folders(tmp_path, 3))
    add_handbook(old)
    code = block_with("docs/transfer.md", "ragstore export --all").code
    urls = {"http://old:8080": old, "https://new.example": new, "http://restored:8080": restored}
    for placeholder, url in urls.items():
        assert placeholder in code
        code = code.replace(placeholder, url)
    printed = run_commands(code, tmp_path, RAGSTORE_URL=old)
    assert_handbook(old)
    assert_handbook(old, "handbook-2")
    assert_handbook(new)
    assert_handbook(restored)
    assert_handbook(restored, "handbook-2")
    # The last lines are the table of `stats`, with a total.
    assert [line.split()[0] for line in printed.splitlines()[-3:-1]] == ["handbook", "handbook-2"]


def test_a_service_of_the_page_sends_the_traces_of_requests_whose_parent_is_sampled(
    tmp_path: Path, stack: ExitStack
) -> None:
    collector = stack.enter_context(trace_collector())
    block = block_with("docs/monitoring.md", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318")
    clone = Clone(tmp_path, stack)
    clone.serve(dataclasses.replace(block, code=block.code.replace("http://collector:4318", collector.url)))
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    httpx.get(f"http://127.0.0.1:{clone.ports['8080']}/collections", headers=headers).raise_for_status()
    spans = collector.wait_for(lambda spans: any(span.name == "GET /collections" for span in spans))
    assert {span.trace_id.hex() for span in spans} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
