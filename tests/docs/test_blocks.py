"""Every block of code in every page is run unchanged and prints what the page shows, or says why it is not run."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from scripts.render_manifests import kustomize, render
from tests.support.clones import Clone
from tests.support.page_output import values
from tests.support.page_runner import Reader, run_with_make
from tests.support.pages import ANSWER, DIRECTIVES, LANGUAGES, PAGES, ROOT, RUN, Block, blocks_of, stands_alone
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served

CLIENT_README = "clients/python/README.md"
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@pytest.fixture(scope="module")
@starts_process
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


@pytest.mark.parametrize("page", [page for page in PAGES if any(not block.reason for block in blocks_of(page))])
# A page's example may leave a client open until the interpreter ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_page_works_when_it_is_pasted(page: str, emptied: Served, tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(Clone(tmp_path, stack, emptied), stack)
        for block in blocks_of(page):
            if not block.reason and not stands_alone(block) and block.language not in DIRECTIVES:
                reader.read(block)


def faults(fault: Callable[[Block], str | None]) -> str:
    """The faults of all blocks, one line each."""
    return "\n".join(f"{block.place}: {found}" for block in BLOCKS if (found := fault(block)))


def test_each_block_is_of_a_language_that_is_tested() -> None:
    found = faults(lambda block: None if block.language in LANGUAGES else "fence it, and name its language")
    assert not found, found


def _answer_fault(block: Block) -> str | None:
    if block.language not in ANSWER or block.reason or stands_alone(block):
        return None
    before = [other for other in blocks_of(block.page) if other.line < block.line]
    follows = before and before[-1].language in RUN and not before[-1].reason
    return None if follows else "an answer without a block that is run before it"


def test_each_answer_follows_what_it_answers() -> None:
    found = faults(_answer_fault)
    assert not found, found


def _data_fault(block: Block) -> str | None:
    try:
        if block.language == "json" and stands_alone(block):
            return None if list(values(block.code)) else "no value"
        if block.language == "yaml":
            list(yaml.safe_load_all(block.code))
    except (ValueError, yaml.YAMLError) as error:
        return str(error)
    return None


def test_all_data_can_be_read() -> None:
    found = faults(_data_fault)
    assert not found, found


def _name_fault(block: Block) -> str | None:
    if not block.reason or block.language != "sh":
        return None
    for path in re.findall(
        r"(?:^|[ =])((?:k8s|requirements|examples|clients|tests|service|docs)/[\w./-]+)", block.code
    ):
        if not (ROOT / path).exists():
            return f"there is no {path}"
    # A command may have several lines: ends with a backslash, or has a quoted text of several.
    try:
        words = shlex.split(block.code.replace("\\\n", " "), comments=True)
        if "kubectl" in words and kustomize():
            for option, path in itertools.pairwise(words):
                if option == "-k":
                    render(ROOT / path)
    except (ValueError, subprocess.CalledProcessError) as error:
        return str(error)
    return None


def test_the_tests_that_run_a_block_elsewhere_exist() -> None:
    named = [(block, path) for block in BLOCKS for path in re.findall(r"\btests/[\w/.-]*\w", block.reason)]
    assert named
    assert [f"{block.place}: there is no {path}" for block, path in named if not (ROOT / path).exists()] == []


@pytest.mark.process
def test_what_is_not_run_names_what_exists() -> None:
    found = faults(_name_fault)
    assert not found, found


@pytest.mark.parametrize("name", ["NewDocument", "ContextBuilder"])
def test_the_first_examples_of_the_python_client_have_ten_lines(name: str) -> None:
    first = next(block for block in blocks_of(CLIENT_README) if block.language == "python" and name in block.code)
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 10
