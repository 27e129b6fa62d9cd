"""Every block of code in every page is run unchanged and prints what the page shows, or says why it is not run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from ragstore_client import Client, NewDocument
from scripts.render_manifests import kustomize, render
from tests.client.corpus import chunk
from tests.client.fake_servers import FakeEmbeddings, LocalServer
from tests.support.page_output import values
from tests.support.page_runner import Reader, run_with_make
from tests.support.pages import ANSWER, LANGUAGES, PAGES, ROOT, RUN, Block, blocks_of
from tests.support.servers import Served

CLIENT_README = "clients/python/README.md"
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

every_block = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)


@pytest.fixture(scope="module")
def pages_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service of `make run`, for all pages."""
    with run_with_make(tmp_path_factory.mktemp("pages"), {}) as served:
        yield served


@pytest.fixture
def emptied(pages_service: Served) -> Served:
    """The service, with no collections."""
    with httpx.Client(base_url=pages_service.url) as http:
        for collection in http.get("/collections").json()["collections"]:
            http.delete(f"/collections/{collection['name']}").raise_for_status()
    return pages_service


@pytest.fixture
def archives(emptied: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of the Python client's page: an endpoint that embeds, an archive, and the handbook."""
    with LocalServer(FakeEmbeddings().respond) as server, Client(emptied.url) as store:
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


def stands_alone(block: Block) -> bool:
    """Whether a block is data, and not the output of the block before it."""
    before = [other for other in blocks_of(block.page) if other.line < block.line]
    answers = bool(before) and before[-1].language in RUN and not before[-1].reason
    return block.language == "yaml" or (block.language == "json" and not answers)


@pytest.mark.parametrize("page", [page for page in PAGES if any(not block.reason for block in blocks_of(page))])
def test_a_page_works_when_it_is_pasted(
    page: str, emptied: Served, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if page == CLIENT_README:
        request.getfixturevalue("archives")
    with ExitStack() as stack:
        reader = Reader(page, tmp_path, emptied, stack)
        for block in blocks_of(page):
            if not block.reason and not stands_alone(block):
                reader.read(block)


@every_block
def test_a_block_is_of_a_language_that_is_tested(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block.place}: fence it, and name its language"


@every_block
def test_an_answer_follows_what_it_answers(block: Block) -> None:
    if block.language not in ANSWER or block.reason or stands_alone(block):
        return
    before = [other for other in blocks_of(block.page) if other.line < block.line]
    assert before, block.place
    assert before[-1].language in RUN, block.place
    assert not before[-1].reason, block.place


@every_block
def test_data_can_be_read(block: Block) -> None:
    if block.language == "json" and stands_alone(block):
        assert list(values(block.code))
    if block.language == "yaml":
        list(yaml.safe_load_all(block.code))


@every_block
@pytest.mark.process
def test_what_is_not_run_names_what_exists(block: Block) -> None:
    if not block.reason or block.language != "sh":
        return
    for path in re.findall(
        r"(?:^|[ =])((?:k8s|requirements|examples|clients|tests|service|docs)/[\w./-]+)", block.code
    ):
        assert (ROOT / path).exists(), f"{block.place}: {path}"
    for line in block.code.splitlines():
        words = shlex.split(line, comments=True)
        if "-k" in words and words[0] == "kubectl" and kustomize():
            render(ROOT / words[words.index("-k") + 1])


@pytest.mark.parametrize("name", ["NewDocument", "ContextBuilder"])
def test_the_first_examples_of_the_python_client_have_ten_lines(name: str) -> None:
    first = next(block for block in blocks_of(CLIENT_README) if block.language == "python" and name in block.code)
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 10
