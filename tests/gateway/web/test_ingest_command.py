"""`kb ingest` with pages of the web, which the gateway reads; its store is another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from click.testing import CliRunner, Result

from ragstore_gateway.commands.cli import main
from tests.gateway.extraction import documents
from tests.gateway.web.articles import COFFEE, TEA
from tests.gateway.web.conftest import WebGateway
from tests.support.servers import Served, inherited_environ

pytestmark = pytest.mark.process

TIMEOUT_SECONDS = 120


def kb(web: WebGateway, command: str, *words: str, key: str = "writer") -> Result:
    """Run a command in this process."""
    environ = {"RAGSTORE_GATEWAY_URL": web.url, "RAGSTORE_GATEWAY_API_KEY": web.keys[key]}
    return CliRunner().invoke(main, ["kb", command, *words], env=environ)


def lines(output: str) -> list[dict[str, Any]]:
    """The lines of `--json`."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def name(web: WebGateway) -> str:
    """A new knowledge base."""
    name = f"pages-{uuid4().hex[:8]}"
    created = kb(web, "create", name, "--set", "minScore=0", "--set", "chunkStrategy=markdown", key="admin")
    assert created.exit_code == 0, created.output
    return name


def test_pages_are_documents_named_by_their_urls_and_one_bad_url_does_not_end_the_others(
    web: WebGateway, name: str
) -> None:
    urls = [web.site.page("tea", TEA), "http://10.0.0.1/x", f"{web.site.origin}/absent", web.site.page("c", COFFEE)]
    ended = kb(web, "ingest", name, "--json", *urls)
    assert ended.exit_code == 1
    found = lines(ended.stdout)
    assert [(line["name"], line["ok"]) for line in found] == list(zip(urls, (True, False, False, True), strict=True))
    assert "not public" in found[1]["error"]
    assert "404" in found[2]["error"]
    passages = lines(kb(web, "query", name, "tea and coffee", "--json").stdout)
    assert {passage["metadata"]["document_name"] for passage in passages} == {urls[0], urls[3]}
    assert not [passage for passage in passages if "navigation" in passage["text"]]


def test_a_page_keeps_its_headings(web: WebGateway, name: str) -> None:
    url = web.site.page("tea", TEA)
    assert kb(web, "ingest", name, url).exit_code == 0
    (best, *_) = lines(kb(web, "query", name, "How is tea brewed?", "--json").stdout)
    assert best["metadata"]["section_heading"] == "Brewing tea"


def test_a_pdf_file_of_a_site_is_ingested_as_the_text_that_extract_returns(web: WebGateway, name: str) -> None:
    content = (documents.FILES / "manual.pdf").read_bytes()
    url = web.site.page("manual.pdf", content, "Content-Type: application/pdf")
    assert kb(web, "ingest", name, url).exit_code == 0
    text = web.extract([url])[0]["text"]
    base = lines(kb(web, "list", "--filter", name, "--json").stdout)[0]["id"]
    kept = web.call("GET", f"/ragstore/rags/{base}/texts/{httpx.QueryParams({'u': url})['u']}", "writer").json()
    assert kept["text"].split() == text.split()


def test_a_second_run_ingests_only_what_changed(web: WebGateway, name: str, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"Document {number} is about tea. " * 80)
    words = ("ingest", name, "--json", str(tmp_path), web.site.page("tea", TEA))
    assert kb(web, *words).exit_code == 0
    again = kb(web, *words)
    assert again.exit_code == 0
    assert [line["unchanged"] for line in lines(again.stdout)] == [True] * 4
    (tmp_path / "1.txt").write_text("Short now.")
    changed = lines(kb(web, *words).stdout)
    assert [line.get("unchanged", False) for line in changed] == [True, False, True, True]
    assert changed[1]["chunks"] == 1


def test_an_interrupted_run_is_continued_by_the_same_command(gateway: Served, tmp_path: Path) -> None:
    name = f"interrupted-{uuid4().hex[:8]}"
    httpx.post(f"{gateway.url}/ragstore/rags", json={"name": name}).raise_for_status()
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text(f"Document {number} is about tea.")
    command = [sys.executable, "-m", "ragstore_gateway", "kb", "ingest", name, "--json", str(tmp_path)]
    environ = {**inherited_environ(), "RAGSTORE_GATEWAY_URL": gateway.url}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as interrupted:
        assert interrupted.stdout is not None
        ingested = lines("".join(interrupted.stdout.readline() for _ in range(3)))
        interrupted.send_signal(signal.SIGINT)
        others, complaint = interrupted.communicate(timeout=TIMEOUT_SECONDS)
    assert interrupted.returncode == 1
    assert complaint == "Error: interrupted; the same command continues\n"
    assert [line["ok"] for line in ingested] == [True] * 3
    assert len(ingested) + len(lines(others)) < 200
    ended = CliRunner().invoke(main, command[3:], env={"RAGSTORE_GATEWAY_URL": gateway.url})
    assert ended.exit_code == 0
    found = lines(ended.stdout)
    assert [line["name"] for line in found] == [f"{number:03}.txt" for number in range(200)]
    assert [line["unchanged"] for line in found[:3]] == [True] * 3
