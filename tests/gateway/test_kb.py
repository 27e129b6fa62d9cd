"""`ragstore-gateway kb` against running gateways."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from ragstore_gateway.commands.cli import main
from tests.gateway.extraction import documents
from tests.support.fake_gateways import found_base
from tests.support.fake_providers import Received, fake_provider, json_response
from tests.support.gateways import start_gateway
from tests.support.servers import Served, free_port, inherited_environ, running
from tests.support.terminals import run_on_terminal

pytestmark = pytest.mark.process


def kb(url: str, *words: str, stdin: bytes = b"", key: str = "") -> Result:
    """Run a command against a gateway, in this process: starting one takes longer than all that it does."""
    environ = {"RAGSTORE_GATEWAY_URL": url, "RAGSTORE_GATEWAY_API_KEY": key}
    return CliRunner().invoke(main, ["kb", *words], input=stdin, env=environ)


def done(url: str, *words: str, stdin: bytes = b"", key: str = "") -> str:
    """The output of a command that succeeds."""
    run = kb(url, *words, stdin=stdin, key=key)
    assert run.exit_code == 0, run.output
    return run.stdout


def lines(output: str) -> list[dict[str, Any]]:
    """The lines of `--json`."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def name(gateway: Served) -> str:
    """A new knowledge base."""
    name = f"kb-{uuid4().hex[:8]}"
    done(gateway.url, "create", name, "--set", "minScore=0", "--set", "chunkStrategy=markdown")
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with documents, one of which is bad."""
    (tmp_path / "docs/sub").mkdir(parents=True)
    (tmp_path / "docs/kettle.md").write_text("# Kettle\n\n## Care\n\nDescale the kettle every month.")
    (tmp_path / "docs/sub/lift.txt").write_text("The lift is tested every year.")
    (tmp_path / "docs/bad.pdf").write_bytes((documents.FILES / "scan.pdf").read_bytes())
    return tmp_path / "docs"


@dataclass(frozen=True)
class Keyed:
    """A gateway that needs a key."""

    url: str
    key: str
    reader: str


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """Another gateway, with keys."""
    folder = tmp_path_factory.mktemp("other")
    keys = folder / "keys"
    key, reader = (
        CliRunner().invoke(main, ["keys", "new", role, "--role", role, "--file", str(keys)]).stdout.strip()
        for role in ("admin", "reader")
    )
    with running(start_gateway(folder, {"RAGSTORE_GATEWAY_KEYS_FILE": str(keys)})) as served:
        yield Keyed(served.url, key, reader)


def test_a_created_base_is_listed_and_shown_by_name_and_by_id(gateway: Served, name: str) -> None:
    (listed,) = lines(done(gateway.url, "list", "--filter", name, "--json"))
    assert (listed["name"], listed["version"]) == (name, 1)
    assert name in done(gateway.url, "list")
    shown = json.loads(done(gateway.url, "show", listed["id"]))
    assert shown == json.loads(done(gateway.url, "show", name, "--version", "1"))
    assert (shown["chunkStrategy"], shown["minScore"]) == ("markdown", 0)


def test_a_base_is_created_from_a_file_with_its_configuration(gateway: Served) -> None:
    name = f"kb-{uuid4().hex[:8]}"
    content = json.dumps({"name": "another", "description": "lifts"}).encode()
    (line,) = lines(done(gateway.url, "create", name, "--config", "-", "--json", stdin=content))
    assert line["name"] == name
    assert json.loads(done(gateway.url, "show", name))["description"] == "lifts"


def test_files_folders_and_standard_input_are_ingested_and_a_bad_file_does_not_end_the_others(
    gateway: Served, name: str, folder: Path
) -> None:
    words = ("ingest", name, str(folder), "-", "--recursive", "--document-name", "note.txt", "--json")
    run = kb(gateway.url, *words, str(folder / "missing.txt"), stdin=b"Keys are at the office.")
    assert run.exit_code == 1
    found = {line["name"]: line for line in lines(run.stdout)}
    assert {each: line["ok"] for each, line in found.items()} == {
        "kettle.md": True,
        "sub/lift.txt": True,
        "bad.pdf": False,
        "note.txt": True,
        "missing.txt": False,
    }
    assert "no text layer" in found["bad.pdf"]["error"]
    assert found["missing.txt"]["error"] == "No such file or directory"
    assert found["kettle.md"]["chunks"] == 1

    again = lines(done(gateway.url, "ingest", name, str(folder / "kettle.md"), "--json"))
    assert again[0]["unchanged"] is True
    shown = done(gateway.url, "show", name, "--documents")
    assert [line.split("\t")[0] for line in shown.splitlines()] == ["bad.pdf", "kettle.md", "note.txt", "sub/lift.txt"]


def test_a_query_prints_the_passages_with_scores_and_sources(gateway: Served, name: str, folder: Path) -> None:
    done(gateway.url, "ingest", name, str(folder / "kettle.md"), str(folder / "sub/lift.txt"))
    best, other = lines(done(gateway.url, "query", name, "How often is the lift tested?", "--json"))
    assert best["text"] == "The lift is tested every year."
    assert 1 >= best["score"] > other["score"] >= 0
    printed = done(gateway.url, "query", name, "descale the kettle", "--max-results", "1")
    assert printed.startswith("[1] 0.")
    assert " kettle.md, Care\n# Kettle\n\n## Care\n\nDescale the kettle every month.\n" in printed
    filtered = ("--where", '{"document_name": "kettle.md"}', "--json")
    assert [hit["metadata"]["document_name"] for hit in lines(done(gateway.url, "query", name, "lift", *filtered))] == [
        "kettle.md"
    ]


def test_an_export_is_imported_by_another_gateway_which_finds_the_same_passages(
    gateway: Served, other: Keyed, name: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "manual.pdf").write_bytes((documents.FILES / "manual.pdf").read_bytes())
    sources = [str(folder / each) for each in ("kettle.md", "manual.pdf")]
    done(gateway.url, "ingest", name, *sources)
    archive = tmp_path / "archive.jsonl"

    done(gateway.url, "export", name, str(archive))

    assert [line["kind"] for line in lines(archive.read_text())] == ["knowledge base", "document", "document", "end"]
    refused = kb(other.url, "import", str(archive))
    assert (refused.exit_code, "401" in refused.stderr) == (1, True)
    imported = lines(done(other.url, "import", str(archive), "--json", key=other.key))
    assert {line["name"]: line["ok"] for line in imported} == {"kettle.md": True, "manual.pdf": True}
    assert json.loads(done(other.url, "show", name, key=other.key)) == json.loads(done(gateway.url, "show", name))
    question = ("query", name, "How often is the kettle descaled?", "--json")
    here = lines(done(gateway.url, *question))
    there = lines(done(other.url, *question, key=other.key))
    assert [(hit["text"], round(hit["score"], 4)) for hit in there] == [
        (hit["text"], round(hit["score"], 4)) for hit in here
    ]
    places = ("document_name", "page_number", "section_heading", "char_start")
    assert [[hit["metadata"].get(key) for key in places] for hit in there] == [
        [hit["metadata"].get(key) for key in places] for hit in here
    ]
    assert "page_number" in {key for hit in there for key in hit["metadata"]}
    copy = done(other.url, "export", name, "-", key=other.key)
    assert lines(copy)[1:] == lines(archive.read_text())[1:]


def test_an_incomplete_archive_creates_nothing(gateway: Served, name: str, folder: Path) -> None:
    done(gateway.url, "ingest", name, str(folder / "kettle.md"))
    archive = done(gateway.url, "export", name, "-")
    cut = "".join(archive.splitlines(keepends=True)[:-1]).encode()
    run = kb(gateway.url, "import", "-", "--name", f"{name}-copy", stdin=cut)
    assert (run.exit_code, "incomplete" in run.stderr) == (1, True)
    assert done(gateway.url, "list", "--filter", f"{name}-copy") == ""
    twice = kb(gateway.url, "import", "-", stdin=archive.encode())
    assert (twice.exit_code, "409" in twice.stderr) == (1, True)
    assert done(gateway.url, "import", "-", "--name", f"{name}-copy", stdin=archive.encode()) == "kettle.md: 1 chunks\n"


def test_a_document_without_a_text_is_named_and_the_exit_code_is_1(gateway: Served, name: str, folder: Path) -> None:
    assert kb(gateway.url, "ingest", name, str(folder / "bad.pdf")).exit_code == 1
    run = kb(gateway.url, "export", name, "-")
    assert run.exit_code == 1
    assert "bad.pdf: not exported: it is not searchable" in run.stderr
    assert [line["kind"] for line in lines(run.stdout)] == ["knowledge base", "end"]


@pytest.mark.parametrize(
    "words",
    [
        ("ingest", "{name}"),
        ("ingest", "{name}", "{empty}"),
        ("ingest", "{name}", "{folder}/kettle.md", "{empty}/kettle.md"),
        ("create",),
        ("create", "x", "--set", "chunkSise=3"),
        ("query", "{name}", "q", "--where", "["),
        ("nothing",),
    ],
)
def test_wrong_usage_has_exit_code_2(gateway: Served, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    known = {"name": "any", "empty": str(tmp_path / "empty"), "folder": str(tmp_path)}
    assert kb(gateway.url, *(word.format(**known) for word in words)).exit_code == 2


def test_what_the_gateway_rejects_is_one_line_with_exit_code_1(gateway: Served) -> None:
    unknown = kb(gateway.url, "show", "no-such-base")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (1, 1)
    assert "There is no knowledge base 'no-such-base': `ragstore-gateway kb list` lists" in unknown.stderr
    invalid = kb(gateway.url, "create", "bad", "--set", "chunkSize=0")
    assert invalid.exit_code == 1
    assert "400" in invalid.stderr
    away = kb(f"http://127.0.0.1:{free_port()}", "list")
    assert (away.exit_code, "cannot be reached" in away.stderr, away.stderr.count("\n")) == (1, True, 1)


def test_a_terminal_has_a_progress_bar_with_rate_and_remaining_time(gateway: Served, name: str, folder: Path) -> None:
    command = [sys.executable, "-m", "ragstore_gateway", "kb", "ingest", name, str(folder)]
    code, printed, shown = run_on_terminal(command, {**inherited_environ(), "RAGSTORE_GATEWAY_URL": gateway.url})
    assert code == 1
    assert sorted(line.partition(b":")[0] for line in printed.splitlines()) == [b"bad.pdf", b"kettle.md"]
    assert b"2/2" in shown
    assert b"documents/s" in shown
    assert b"0:00:00" in shown


def test_the_text_of_a_document_is_read_by_writers_only(gateway: Served, other: Keyed, name: str, folder: Path) -> None:
    (folder / "bad.pdf").unlink()
    done(gateway.url, "ingest", name, str(folder), "--recursive")
    (base,) = lines(done(gateway.url, "list", "--filter", name, "--json"))
    texts = f"{gateway.url}/ragstore/rags/{base['id']}/texts"
    assert httpx.get(f"{texts}/sub/lift.txt").json() == {
        "name": "sub/lift.txt",
        "type": "text/plain",
        "title": "",
        "language": "",
        "published": "",
        "text": "The lift is tested every year.",
        "pages": [],
        "headings": [],
        "metadata": {},
    }
    assert httpx.get(f"{texts}/nothing").json()["code"] == "document_not_found"
    reader = {"Authorization": f"Bearer {other.reader}"}
    assert httpx.get(f"{other.url}/ragstore/rags/any/texts/any", headers=reader).status_code == 403


async def test_a_full_queue_and_a_gateway_that_restarts_end_no_ingestion(folder: Path) -> None:
    failures = {"POST": [("queue_full", 503)] * 2, "GET": [("internal_error", 502), ("not_ready", 503)]}
    states = ["pending", "processing", "completed"]

    async def respond(received: Received) -> web.StreamResponse:
        if (found := found_base(received, "b")) is not None:
            return found
        if failures[received.method]:
            code, status = failures[received.method].pop()
            return json_response({"code": code, "detail": "later"}, status, {"Retry-After": "0"})
        if received.method == "POST":
            return json_response({"ingestionId": "i"}, 202)
        state = {"ingestionId": "i", "status": states.pop(0), "chunks": 1, "progress": 0.5, "unchanged": False}
        return json_response({"waitingFor": {}, "ingestions": [state]})

    async with fake_provider(respond) as fake:
        output = await asyncio.to_thread(done, fake.url, "ingest", "b", str(folder / "kettle.md"))
    assert output == "kettle.md: 1 chunks\n"
    assert not states
    assert not any(failures.values())
    sent = [received.body for received in fake.received if received.method == "POST"]
    assert sent == [(folder / "kettle.md").read_bytes()] * 3


@pytest.mark.parametrize("command", ["export", "ingest"])
async def test_an_interrupted_command_ends_without_a_traceback_and_leaves_no_archive(
    folder: Path, tmp_path: Path, command: str
) -> None:
    held = asyncio.Event()

    async def respond(received: Received) -> web.StreamResponse:
        if (found := found_base(received, "b")) is not None:
            return found
        if received.path.partition("?")[0].endswith("/documents"):
            return json_response({"documents": [{"name": "a", "status": "completed", "chunks": 1}], "total": 1})
        held.set()
        await asyncio.sleep(60)
        return json_response({})

    words = {"export": ["b", str(tmp_path / "archive")], "ingest": ["b", str(folder / "kettle.md")]}[command]
    async with fake_provider(respond) as fake:
        run = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ragstore_gateway", "kb", command, *words),
            env={**inherited_environ(), "RAGSTORE_GATEWAY_URL": fake.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            await held.wait()
            run.send_signal(signal.SIGINT)
            _, stderr = await run.communicate()
    assert run.returncode not in (0, None)
    assert b"Traceback" not in stderr
    assert not any(name.startswith("archive") for name in os.listdir(tmp_path))
