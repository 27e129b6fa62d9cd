"""`ragstore-gateway ingest` with pages of the web: replaced, unchanged, interrupted and continued."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstore_client import Client
from ragstore_gateway.commands.ingest import in_order
from tests.gateway.web.articles import COFFEE, TEA, article
from tests.gateway.web.conftest import WebGateway
from tests.support.fake_upstream import Exchange
from tests.support.metric_samples import samples
from tests.support.servers import Served
from tests.support.terminals import run_on_terminal

TIMEOUT_SECONDS = 120


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ragstore_gateway", "ingest", *arguments]


def _environ(web: WebGateway | None = None, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    if web is not None:
        own |= {"RAGSTORE_GATEWAY_URL": web.url, "RAGSTORE_GATEWAY_API_KEY": web.keys["writer"]}
        own |= {"RAGSTORE_URL": web.store_url}
    return {**own, **more}


def _ingest(environ: Mapping[str, str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        _command("--json", *arguments),
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    print(done.stderr)  # noqa: T201  # pytest shows it
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def _embedded(url: str) -> float:
    """The number of texts that a gateway was sent for embedding."""
    with httpx.Client(base_url=url) as http:
        return sum(
            value for name, value in samples(http).items() if name.startswith("ragstore_gateway_embedding_texts_total")
        )


def test_pages_are_ingested_by_a_running_gateway_and_one_bad_url_does_not_end_the_others(web: WebGateway) -> None:
    urls = [web.site.page("tea", TEA), "http://10.0.0.1/", f"{web.site.origin}/absent", web.site.page("coffee", COFFEE)]
    code, lines = _ingest(_environ(web), "--collection", "pages", *urls)
    assert code == 1
    assert [(line["name"], line["ok"]) for line in lines] == [
        (url, ok) for url, ok in zip(urls, (1, 0, 0, 1), strict=True)
    ]
    assert "not public" in lines[1]["error"]
    assert "404" in lines[2]["error"]
    with Client(web.store_url) as client:
        documents = client.list_documents("pages").documents
    assert {str(document.metadata["url"]) for document in documents} == {urls[0], urls[3]}
    assert {str(document.metadata["source"]) for document in documents} == {urls[0], urls[3]}
    assert not [document for document in documents if "navigation" in document.text]


def test_pages_are_ingested_without_a_gateway(web: WebGateway, gateway: Served, tmp_path: Path) -> None:
    environ = _environ(
        RAGSTORE_URL=gateway.url,
        RAGSTORE_GATEWAY_DATA_PATH=str(tmp_path),
        RAGSTORE_GATEWAY_ALLOW_HOSTS=f"127.0.0.1:{web.site.port}",
    )
    url = web.site.page("tea", TEA)
    code, lines = _ingest(environ, "--collection", "own", url, "http://127.0.0.1/")
    assert code == 1
    assert lines[0] == {"name": url, "ok": True, "chunks": 1}
    assert "not public" in lines[1]["error"]


def test_a_second_run_embeds_only_what_changed(web: WebGateway, gateway: Served, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"Document {number} is about tea. " * 80)
    arguments = ("--collection", "twice", str(tmp_path))
    environ = _environ(RAGSTORE_GATEWAY_URL=gateway.url)
    assert _ingest(environ, *arguments)[0] == 0
    before = _embedded(gateway.url)
    code, lines = _ingest(environ, *arguments)
    assert code == 0
    assert [line["unchanged"] for line in lines] == [True] * 3
    assert _embedded(gateway.url) == before
    (tmp_path / "1.txt").write_text("Short now.")
    lines = _ingest(environ, *arguments)[1]
    assert [line.get("unchanged", False) for line in lines] == [True, False, True]
    assert (lines[1]["chunks"], lines[1]["removed"] > 0) == (1, True)
    assert _embedded(gateway.url) == before + 1
    # Another size of chunks is another document.
    assert not _ingest(environ, "--chunk-size", "300", *arguments)[1][0].get("unchanged", False)


def test_an_interrupted_run_is_continued_by_the_same_command(web: WebGateway, gateway: Served, tmp_path: Path) -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.until_closed()

    first = [
        web.site.page(f"first-{number}", article("Tea", f"Page {number} is about tea. " * 5)) for number in range(3)
    ]
    last = web.site.behave("last", slow)
    command = _command("--json", "--collection", "interrupted", *first, last)
    with subprocess.Popen(
        command, env=_environ(web), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in first]
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=TIMEOUT_SECONDS)
    assert all(line["ok"] for line in lines)
    assert process.returncode == 1
    assert "the same command continues" in complaint
    web.site.page("last", article("Tea", "The last page is about tea, too. " * 5))
    code, lines = _ingest(_environ(web), "--collection", "interrupted", *first, last)
    assert code == 0
    assert [line.get("unchanged", False) for line in lines] == [True, True, True, False]


def test_a_text_is_ingested_in_a_knowledge_base(gateway: Served, tmp_path: Path) -> None:
    created = httpx.post(f"{gateway.url}/ragstore/rags", json={"name": "command-base"})
    assert created.status_code == 201
    file = tmp_path / "tea.md"
    file.write_text("# Tea\n\nBlack tea is brewed for five minutes.")
    environ = _environ(RAGSTORE_GATEWAY_URL=gateway.url)
    code, lines = _ingest(environ, "--kb", "command-base", str(file))
    assert (code, lines[0]["ok"], lines[0]["chunks"]) == (0, True, 1)
    base = created.headers["location"].partition("?")[0]
    query = {"query": "How long is tea brewed?"}
    assert "five minutes" in httpx.post(f"{gateway.url}{base}/query", json=query).text
    assert _ingest(environ, "--kb", "command-base", str(file))[1][0]["unchanged"] is True
    assert _ingest(environ, "--kb", "absent-base", str(file))[0] == 1


@pytest.mark.process
@pytest.mark.parametrize("arguments", [(), ("--kb", "a", "file"), ("--overlap", "9", "--chunk-size", "9", "file")])
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert _ingest(_environ(), *arguments)[0] == 2


async def test_results_are_in_order_and_a_failure_cancels_the_rest() -> None:
    cancelled = []

    async def work(name: str) -> str:
        if name == "bad":
            raise ValueError(name)
        try:
            await asyncio.sleep(0.05 if name == "slow" else 0 if name.islower() else 60)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return name

    assert [name async for name in in_order(["slow", "a", "b", "c"], work, 2)] == ["slow", "a", "b", "c"]
    with pytest.raises(ValueError, match="bad"):
        [name async for name in in_order(["bad", "LATER"], work, 2)]
    assert cancelled == ["LATER"]


def test_a_terminal_has_a_progress_bar_with_rate_and_remaining_time(gateway: Served, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Tea is brewed for five minutes.")
    environ = _environ(RAGSTORE_GATEWAY_URL=gateway.url)
    code, printed, shown = run_on_terminal(_command("--dry-run", str(tmp_path)), environ)
    assert (code, printed.count(b"1 chunks")) == (0, 2)
    assert b"2/2" in shown
    assert b"documents/s" in shown
    # Lines for machines have no bar beside them.
    assert run_on_terminal(_command("--dry-run", "--json", str(tmp_path)), environ)[2] == b""
