"""`ragstore-gateway ingest` with files of every format: a bad file does not end the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragstore_client import Client
from tests.gateway.extraction import documents
from tests.support.servers import Served

pytestmark = pytest.mark.process


def ingest(*arguments: str) -> tuple[int, dict[str, dict[str, str | int | bool]]]:
    """Run the command; the exit code, and the lines by the names of the files."""
    command = [sys.executable, "-m", "ragstore_gateway", "ingest", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {Path(line["name"]).name: line for line in lines}


def test_a_folder_with_files_of_every_format_is_ingested_and_bad_files_are_reported(
    gateway: Served, tmp_path: Path
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
        "j.txt": (b" \n", "no text"),
    }
    for name, content in (*good.items(), *((name, content) for name, (content, _) in bad.items())):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "k.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    code, lines = ingest("--url", gateway.url, "--collection", "formats", str(tmp_path))

    assert code == 1
    assert lines.keys() == good.keys() | bad.keys()
    assert all(lines[name]["ok"] for name in good)
    for name, (_, message) in bad.items():
        assert message in str(lines[name]["error"])
    with Client(gateway.url) as client:
        page = client.list_documents("formats", limit=100)
        sources = {str(document.metadata["source"]) for document in page.documents}
        texts = " ".join(document.text for document in page.documents)
    assert sources == good.keys()
    assert "Limescale is excluded." in texts
    assert "handle\t4" in texts


def test_a_file_that_is_named_is_read_whatever_its_extension(tmp_path: Path) -> None:
    file = tmp_path / "manual.bin"
    file.write_bytes((documents.FILES / "manual.pdf").read_bytes())
    assert ingest("--dry-run", str(file)) == (0, {"manual.bin": {"name": str(file), "ok": True, "chunks": 1}})
