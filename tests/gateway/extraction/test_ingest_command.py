"""`kb ingest` with files of every format: the gateway extracts them, and a bad file does not end the others."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.gateway.extraction import documents
from tests.support.servers import Served

pytestmark = pytest.mark.process


@pytest.fixture
def name(gateway: Served) -> str:
    """A new knowledge base."""
    name = f"formats-{uuid4().hex[:8]}"
    body = {"name": name, "minScore": 0, "maxResults": 100}
    httpx.post(f"{gateway.url}/ragstore/rags", json=body).raise_for_status()
    return name


def kb(gateway: Served, command: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Run a command; the exit code, and the lines that it printed."""
    environ = {"RAGSTORE_GATEWAY_URL": gateway.url}
    ended = CliRunner().invoke(main, ["kb", command, "--json", *words], env=environ)
    return ended.exit_code, [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_folder_with_files_of_every_format_is_ingested_and_bad_files_are_reported(
    gateway: Served, name: str, tmp_path: Path
) -> None:
    good = {
        "a.md": b"# The kettle\n\nIt boils.",
        "b.html": documents.PAGE.encode(),
        "c.pdf": (documents.FILES / "manual.pdf").read_bytes(),
        "d.docx": documents.word(),
        "e.xlsx": documents.excel(),
        "f.pptx": documents.powerpoint(),
        "g.csv": b"part,price\nhandle,4\n",
    }
    bad = {
        "h.pdf": ((documents.FILES / "scan.pdf").read_bytes(), "no text layer"),
        "i.docx": ((documents.FILES / "encrypted.docx").read_bytes(), "password"),
        "j.txt": (b" \n", "content is required"),
        "k.txt": (b"", "content is required"),
    }
    for file, content in (*good.items(), *((file, content) for file, (content, _) in bad.items())):
        (tmp_path / file).write_bytes(content)
    (tmp_path / "l.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    code, lines = kb(gateway, "ingest", name, str(tmp_path))

    assert code == 1
    assert [line["name"] for line in lines] == [*good, *bad]
    assert [line["ok"] for line in lines] == [True] * len(good) + [False] * len(bad)
    for line, (_, message) in zip(lines[len(good) :], bad.values(), strict=True):
        assert message in line["error"]
    _, passages = kb(gateway, "query", name, "limescale of the kettle")
    assert {passage["metadata"]["document_name"] for passage in passages} == good.keys()
    texts = " ".join(passage["text"] for passage in passages)
    assert "Limescale is excluded." in texts
    assert "handle\t4" in texts
    assert {
        passage["metadata"]["page_number"] for passage in passages if passage["metadata"]["document_name"] == "c.pdf"
    }


def test_a_file_that_is_named_is_sent_whatever_its_extension(gateway: Served, name: str, tmp_path: Path) -> None:
    file = tmp_path / "manual.bin"
    file.write_bytes((documents.FILES / "manual.pdf").read_bytes())
    code, lines = kb(gateway, "ingest", name, str(file))
    assert (code, lines[0]["name"], lines[0]["ok"]) == (0, "manual.bin", True)


def test_a_file_whose_name_is_not_utf_8_does_not_end_the_others(gateway: Served, name: str, tmp_path: Path) -> None:
    for file in (b"a\xff.txt", b"b\n.txt", b"c.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + file)).write_text("Tea.")
    code, lines = kb(gateway, "ingest", name, str(tmp_path))
    assert code == 1
    assert [(line["name"], line["ok"]) for line in lines] == [
        ("a\ufffd.txt", True),
        ("b\n.txt", False),
        ("c.txt", True),
    ]


def test_a_named_pipe_is_read_to_its_end(gateway: Served, name: str, tmp_path: Path) -> None:
    pipe = tmp_path / "tea.txt"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("Tea is brewed for five minutes.",))
    writer.start()
    code, lines = kb(gateway, "ingest", name, str(pipe))
    writer.join()
    assert (code, lines) == (0, [{"name": "tea.txt", "ok": True, "chunks": 1}])
