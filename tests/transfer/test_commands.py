"""The commands as a person, or a timer, meets them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ragstore.transfer.commands import COMMANDS
from tests.support.keyed_services import keyed_service
from tests.support.servers import free_port, running, start_chroma, start_service
from tests.support.transfers import RAGSTORE, Store, exported, ragstore, start


def test_a_copy_needs_no_file(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    run = ragstore("copy", filled, "--from", embedded.url, "--to", remote.url, "--verify", "--batch", "20")
    assert run.exit_code == 0, run.output
    assert exported(remote, filled, tmp_path / "r.jsonl") == exported(embedded, filled, tmp_path / "e.jsonl")


def test_a_copy_under_another_name_may_stay_in_the_service(embedded: Store, filled: str) -> None:
    assert ragstore("copy", filled, "--from", embedded.url, "--to", embedded.url).exit_code == 1
    run = ragstore("copy", filled, "--from", embedded.url, "--to", embedded.url, "--into", f"{filled}-2")
    assert run.exit_code == 0
    assert embedded.listed(f"{filled}-2") == embedded.listed(filled)


def test_a_copy_that_is_run_again_skips_existing_documents(embedded: Store, remote: Store, filled: str) -> None:
    command = ("copy", filled, "--from", embedded.url, "--to", remote.url)
    assert ragstore(*command).exit_code == 0
    assert ragstore(*command).exit_code == 1
    assert "50 of them existed already" in ragstore(*command, "--resume").stderr


def test_stats_show_each_collection_and_the_totals(tmp_path: Path) -> None:
    with running(start_service(tmp_path)) as served, Store.of(served) as store:
        store.fill("handbook", 3, 4, "l2")
        store.create("emptyone", "ip")
        table = ragstore("stats", "--url", store.url)
        figures = msgspec.json.decode(ragstore("stats", "--url", store.url, "--json").stdout)
    rows = [row.split() for row in table.stdout.splitlines()]
    assert rows[1] == ["emptyone", "0", "-", "ip", "0.0", "MiB"]
    assert rows[2] == ["handbook", "3", "4", "l2", "0.0", "MiB"]
    assert rows[3] == ["2", "collections", "3", "0.0", "MiB"]
    handbook = {"name": "handbook", "count": 3, "dimension": 4, "distance": "l2", "embedding_bytes": 48}
    assert figures["collections"][1] == {**handbook, "metadata_keys": ["pages", "public", "share", "team"]}
    assert (figures["total_collections"], figures["total_documents"], figures["total_embedding_bytes"]) == (2, 3, 48)


def test_an_existing_file_is_replaced_only_with_force(embedded: Store, filled: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("mine")
    run = ragstore("export", filled, tmp_path / "x.jsonl", "--url", embedded.url)
    assert run.exit_code == 1
    assert (tmp_path / "x.jsonl").read_text() == "mine"
    assert exported(embedded, filled, tmp_path / "x.jsonl", "--force") != b"mine"


def test_a_missing_collection_is_reported_and_leaves_no_file(embedded: Store, name: str, tmp_path: Path) -> None:
    run = ragstore("export", name, tmp_path / "x.jsonl", "--url", embedded.url)
    assert run.exit_code == 1
    assert f"Collection '{name}' not found (404)" in run.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [["copy", "handbook"], ["export", "handbook"], ["import"], ["stats", "--batch", "5"]]
)
def test_a_wrong_command_line_ends_with_2(command: list[str]) -> None:
    assert ragstore(*command).exit_code == 2


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "http://user:secret@host", "http://"])
def test_an_invalid_address_is_rejected_and_not_repeated(url: str) -> None:
    run = ragstore("stats", "--url", url)
    assert run.exit_code == 1
    assert "Expected an address like http://127.0.0.1:8080" in run.stderr
    assert "secret" not in run.stderr


def test_keys_come_from_variables_one_for_each_side(tmp_path: Path, embedded: Store, filled: str) -> None:
    with keyed_service(tmp_path, {"admin": {"role": "admin"}, "reader": {}}) as there:
        url, admin, reader = there.served.url, there.keys["admin"], there.keys["reader"]
        copy = ("copy", filled, "--from", embedded.url, "--to", url)
        refused = ragstore(*copy, RAGSTORE_SOURCE_API_KEY=admin, RAGSTORE_API_KEY=admin)
        assert refused.exit_code == 1
        assert "(401)" in refused.stderr
        assert "(403)" in ragstore(*copy, RAGSTORE_TARGET_API_KEY=reader).stderr
        assert ragstore(*copy, RAGSTORE_TARGET_API_KEY=admin).exit_code == 0
        assert "(401)" in ragstore("stats", "--url", url).stderr
        stats = ragstore("stats", RAGSTORE_URL=url, RAGSTORE_API_KEY=reader)
        assert stats.exit_code == 0
        assert admin not in stats.output + refused.output
        back = ("copy", filled, "--from", url, "--to", embedded.url, "--into", f"{filled}-2")
        assert ragstore(*back, RAGSTORE_SOURCE_API_KEY=reader).exit_code == 0


def test_no_command_takes_a_key_on_its_command_line() -> None:
    options = [option for command in COMMANDS for parameter in command.params for option in parameter.opts]
    assert options
    assert not [option for option in options if "key" in option]


def test_a_command_waits_for_a_service_whose_chroma_is_unavailable(tmp_path: Path) -> None:
    port = free_port()
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{port}"}
    with running(start_service(tmp_path, environ, ready=False)) as served:
        hasty = ragstore("stats", "--url", served.url, "--patience", "0")
        assert hasty.exit_code == 1
        assert "(503)" in hasty.stderr
        waiting = start("stats", "--url", served.url, stdout=subprocess.PIPE)
        with running(start_chroma(tmp_path, port)):
            assert waiting.wait(60) == 0
            waiting.communicate()


def test_an_unreachable_service_is_reported() -> None:
    run = ragstore("stats", "--url", f"http://127.0.0.1:{free_port()}", "--patience", "0")
    assert run.exit_code == 1
    assert "cannot be reached" in run.stderr


def test_a_broken_pipe_ends_the_export_without_a_traceback(embedded: Store, name: str) -> None:
    embedded.fill(name, 1000, 32, "l2")
    reading = start("export", name, "-", "--url", embedded.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reading.stdout is not None
    reading.stdout.close()
    assert reading.stderr is not None
    with reading.stderr as stderr:
        message = stderr.read()
    assert reading.wait(60) == 1
    assert message.startswith(b"Error: Broken pipe")
    assert len(message.splitlines()) == 1


def test_one_line_is_printed_if_standard_error_is_not_a_terminal(embedded: Store, filled: str, tmp_path: Path) -> None:
    run = ragstore("export", filled, tmp_path / "x.jsonl", "--url", embedded.url)
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("exported 50 documents: ")


def test_progress_is_shown_on_a_terminal(embedded: Store, filled: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environ: dict[str, Any] = {**os.environ, "TERM": "xterm"}
    command = [RAGSTORE, "export", filled, str(tmp_path / "x.jsonl"), "--url", embedded.url]
    run = subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, env=environ, timeout=60, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert b"50/50" in shown
    assert run.stdout == b""


def test_serving_does_not_import_what_only_these_commands_need() -> None:
    late = ["ragstore_client", "ragstore.transfer.service", "ragstore.transfer.progress", "zstandard", "rich.progress"]
    program = f"import ragstore.cli, sys; print([name for name in {late!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
