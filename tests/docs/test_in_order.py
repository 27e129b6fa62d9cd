"""The first pages of a newcomer work when they are pasted one after the other into one service."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.docs.archives import archive_environment
from tests.support.page_runner import Reader
from tests.support.pages import ROOT, RUN, Block, blocks_of, stands_alone
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

DEMO: Final = "examples/README.md"
PAGES: Final = ("docs/getting-started.md", DEMO, "clients/python/README.md", "clients/node/README.md")


OTHER_SERVICES: Final = re.compile(r"\bmake \w|\bserve\b|\b809\d\b|\bragstore-gateway\b")
"""Blocks that start a service, or use the gateway, which is another one."""


@pytest.fixture
@starts_process
def pages_service(tmp_path: Path) -> Iterator[Served]:
    """One service for all pages."""
    with running(start_service(tmp_path)) as served:
        yield served


def demo(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run what `make demo` runs."""
    command = [sys.executable, "examples/demo.py", "--url", url, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def followed(page: str) -> Iterator[Block]:
    """The blocks of a page that use the one service, with their output.

    Services of other ports, and commands that fail, concern one page: test_blocks.py runs them.
    """
    is_run = False
    for block in blocks_of(page):
        if block.language in RUN:
            is_run = not (block.reason or block.fails or OTHER_SERVICES.search(block.code))
        if is_run and not stands_alone(block):
            yield block


# A page's example may leave a client open until the interpreter ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_first_pages_can_be_followed_in_order_in_one_service(
    pages_service: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        stack.enter_context(archive_environment(pages_service, monkeypatch))
        for number, page in enumerate(PAGES):
            folder = tmp_path / str(number)
            folder.mkdir()
            reader = Reader(page, folder, pages_service, stack)
            for block in followed(page):
                reader.read(block)
            if page == DEMO:
                run = demo(pages_service.url)
                assert run.returncode == 0, run.stderr
                assert "11 of 12 questions found their section first" in run.stdout


def test_the_demo_says_what_to_do_when_its_collection_holds_other_embeddings(pages_service: Served) -> None:
    with httpx.Client(base_url=pages_service.url) as http:
        http.post("/collections", json={"name": "handbook"}).raise_for_status()
        documents = [{"id": "a", "text": "A", "embedding": [1.0, 0.0, 0.0]}]
        http.put("/collections/handbook/documents", json={"documents": documents}).raise_for_status()
    refused = demo(pages_service.url)
    assert refused.returncode == 1
    assert "--collection handbook-demo" in refused.stderr
    assert demo(pages_service.url, "--collection", "handbook-demo").returncode == 0
