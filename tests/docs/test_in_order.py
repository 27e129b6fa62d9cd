"""The first pages of both services work when a newcomer pastes them one after the other, in one clone."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support.clones import Clone
from tests.support.page_runner import Reader
from tests.support.pages import ANSWER, ROOT, RUN, Block, blocks_of, stands_alone, text_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

PAGES: Final = (
    "README.md",
    "docs/getting-started.md",
    "examples/README.md",
    "docs/store.md",
    "clients/python/README.md",
    "clients/node/README.md",
    "docs/gateway.md",
    "gateway/README.md",
    "docs/knowledge-bases.md",
    "docs/knowledge-base-sources.md",
)

LEFT_OUT: Final = {
    "git clone <address of the repository> ragstore": "the address is a placeholder",
    "python3 -m venv own": "needs a package registry",
    "make node": "needs a package registry",
    ".venv/bin/python examples/demo.py --url http://127.0.0.1:9000 --api-key KEY": "placeholders for address and key",
    "python3 -m venv .venv-build": "downloads a model of some gigabytes",
    "pip install ./clients/python                # client and retriever": "needs a package registry",
    "cat > questions.jsonl <<'EOF'": "needs the files that its questions are about",
}
"""The blocks that cannot be run here, by their first line, with the reason. No other block is left out."""

IN_ORDER: Final = {"docs/gateway.md": ("handbook.md: 42 chunks", "handbook.md: unchanged")}
"""Output of a page alone, and in place of it the output after the pages before. The page has both."""


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


def in_order(block: Block) -> Block:
    """A block with the output that it has after the pages before."""
    if block.language not in ANSWER or block.page not in IN_ORDER:
        return block
    alone, later = IN_ORDER[block.page]
    assert f"`{later}`" in text_of(block.page)
    return dataclasses.replace(block, code=block.code.replace(alone, later))


@pytest.mark.process
# A page's example may leave a client open until the interpreter ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_first_pages_can_be_followed_in_order_in_one_clone(tmp_path: Path) -> None:
    with ExitStack() as stack:
        clone = Clone(tmp_path, stack)
        for page in PAGES:
            reader = Reader(clone, stack)
            for block in blocks_of(page):
                if not block.reason and not stands_alone(block):
                    reader.read(in_order(block))


def test_no_block_of_the_first_pages_is_left_out_unless_it_cannot_be_run_here() -> None:
    left_out = [block for page in PAGES for block in blocks_of(page) if block.language in RUN and block.reason]
    assert sorted(block.code.splitlines()[0] for block in left_out) == sorted(LEFT_OUT)


def test_the_demo_says_what_to_do_when_its_collection_holds_other_embeddings(pages_service: Served) -> None:
    with httpx.Client(base_url=pages_service.url) as http:
        http.post("/collections", json={"name": "handbook"}).raise_for_status()
        documents = [{"id": "a", "text": "A", "embedding": [1.0, 0.0, 0.0]}]
        http.put("/collections/handbook/documents", json={"documents": documents}).raise_for_status()
    refused = demo(pages_service.url)
    assert refused.returncode == 1
    assert "--collection handbook-demo" in refused.stderr
    assert demo(pages_service.url, "--collection", "handbook-demo").returncode == 0
