"""Commands that read JSON end with one line where it is nested too deeply for Python."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from ragstore_gateway.commands.kb import archive
from tests.client.fake_servers import LocalServer, Response
from tests.support.nested import NESTED

HEADER = archive.line(archive.Header({"name": "tea"}))


@pytest.mark.parametrize(
    ("content", "line"),
    [(NESTED, 1), (HEADER + NESTED, 2), (HEADER + b'{"kind": "document", "name": ' + NESTED.strip() + b"}\n", 2)],
)
def test_an_archive_is_rejected_with_its_line(content: bytes, line: int) -> None:
    with pytest.raises(archive.BadArchive, match=f"Line {line} is no line"):
        archive.opened(io.BytesIO(content))


def test_kb_import_is_one_line_and_sends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    file.write_bytes(HEADER + NESTED)
    # Nothing listens there.
    run = CliRunner().invoke(main, ["kb", "import", str(file), "--url", "http://127.0.0.1:1"])
    assert run.exit_code == 1
    assert run.stderr == "Error: Line 2 is no line of an archive of format 1 to 2\n"


def test_a_configuration_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "configuration"
    file.write_bytes(NESTED)
    run = CliRunner().invoke(main, ["kb", "create", "--config", str(file), "--url", "http://127.0.0.1:1"])
    assert run.exit_code == 2
    assert "this is not a JSON object" in run.stderr


def test_the_value_of_a_field_is_a_text() -> None:
    run = CliRunner().invoke(
        main, ["kb", "create", "x", "--set", f"description={NESTED.decode().strip()}", "--url", "http://127.0.0.1:1"]
    )
    assert run.exit_code == 1
    assert "cannot be reached" in run.stderr


def test_a_file_of_a_ledger_is_rejected_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_bytes(NESTED)
    run = CliRunner().invoke(main, ["audit", "verify", "--file", str(file)])
    assert (run.exit_code, run.output) == (1, "Error: Line 1 is not an entry of an audit ledger\n")


@pytest.mark.parametrize("status", [200, 500])
def test_a_response_is_not_one_of_a_gateway(status: int) -> None:
    with LocalServer(lambda _: Response(status, NESTED)) as server:
        run = CliRunner().invoke(main, ["kb", "list", "--url", server.url])
    assert (run.exit_code, run.stderr.count("\n")) == (1, 1)
    assert "is it a ragstore-gateway" in run.stderr
