"""An interrupted transfer can be continued, with the result of an uninterrupted one."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.transfers import Store, exported, ragstore, start


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
def test_an_interrupted_file_is_continued(
    embedded: Store, filled: str, tmp_path: Path, ending: str, share: float
) -> None:
    whole = exported(embedded, filled, tmp_path / f"whole{ending}", "--batch", "7")
    (tmp_path / f"x{ending}.part").write_bytes(whole[: int(len(whole) * share)])
    run = ragstore("export", filled, tmp_path / f"x{ending}", "--url", embedded.url, "--batch", "7")
    assert run.exit_code == 0
    assert "of them by an earlier run" in run.stderr
    assert (tmp_path / f"x{ending}").read_bytes() == whole
    assert not (tmp_path / f"x{ending}.part").exists()


def test_documents_added_since_the_interruption_are_left_out(embedded: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    (tmp_path / "x.jsonl.part").write_bytes(whole[:2000])
    embedded.put(filled, {"id": "later", "text": "", "embedding": [1, 2, 3, 4]})
    assert exported(embedded, filled, tmp_path / "x.jsonl") == whole


@pytest.mark.parametrize("left", ["something else\n", "", "before the documents were deleted", "another collection"])
def test_an_export_starts_over_when_the_partial_file_cannot_be_continued(
    embedded: Store, filled: str, tmp_path: Path, left: str
) -> None:
    if left == "before the documents were deleted":
        before = exported(embedded, filled, tmp_path / "before.jsonl")[:4000].decode()
        left = before.replace("Text 3:", "Text 3, as it was:")
        first = embedded.listed(filled)[0]["id"]
        embedded.http.delete(f"/collections/{filled}/documents", params={"ids": first}).raise_for_status()
        embedded.put(filled, {"id": "new", "text": "", "embedding": [1, 2, 3, 4]})
    if left == "another collection":
        embedded.create(f"{filled}-2")
        left = exported(embedded, f"{filled}-2", tmp_path / "other.jsonl").decode()
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    (tmp_path / "x.jsonl.part").write_text(left)
    assert exported(embedded, filled, tmp_path / "x.jsonl") == whole


def test_restart_ignores_the_partial_file(embedded: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    (tmp_path / "x.jsonl.part").write_bytes(whole[:4000].replace(b"Text 3:", b"Text 0:"))
    assert exported(embedded, filled, tmp_path / "x.jsonl", "--restart") == whole


def test_an_interrupted_export_can_be_continued(embedded: Store, name: str, tmp_path: Path) -> None:
    embedded.fill(name, 1000, 4, "l2")
    whole = exported(embedded, name, tmp_path / "whole.jsonl")
    part = tmp_path / "x.jsonl.part"
    command = ("export", name, tmp_path / "x.jsonl", "--url", embedded.url)
    running = start(*command, "--batch", "1", stderr=subprocess.PIPE)
    _interrupt(running, lambda: part.exists() and part.stat().st_size > 5000)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"running the same command again continues it" in message
    assert b"Traceback" not in message
    assert not (tmp_path / "x.jsonl").exists()
    run = ragstore(*command)
    assert "of them by an earlier run" in run.stderr
    assert (tmp_path / "x.jsonl").read_bytes() == whole


def test_an_interrupted_import_can_be_continued(embedded: Store, remote: Store, name: str, tmp_path: Path) -> None:
    embedded.fill(name, 1000, 4, "l2")
    whole = exported(embedded, name, tmp_path / "whole.jsonl")
    command = ("import", tmp_path / "whole.jsonl", "--url", remote.url)
    running = start(*command, "--batch", "1", stderr=subprocess.PIPE)

    def has_written() -> bool:
        there = remote.http.get(f"/collections/{name}")
        return there.is_success and there.json()["count"] > 5

    _interrupt(running, has_written)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"running the same command again with --resume continues it" in message
    acknowledged = int(message.split(b"Interrupted: at least ")[1].split()[0])
    assert 0 < acknowledged <= remote.count(name) < 1000
    run = ragstore(*command, "--resume")
    assert run.exit_code == 0
    skipped = int(run.stderr.split("imported 1000 documents, ")[1].split()[0])
    assert skipped >= acknowledged
    assert exported(remote, name, tmp_path / "after.jsonl") == whole


def test_an_interruption_on_a_terminal_is_reported_on_a_line_of_its_own_below_the_bar(
    embedded: Store, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.fill(name, 1000, 4, "l2")
    ours, theirs = pty.openpty()
    part = tmp_path / "x.jsonl.part"
    command = ("export", name, tmp_path / "x.jsonl", "--url", embedded.url, "--batch", "1")
    monkeypatch.setenv("TERM", "xterm")
    running = start(*command, stderr=theirs)
    os.close(theirs)
    with ThreadPoolExecutor() as pool:
        shown = pool.submit(_read_all, ours)
        _interrupt(running, lambda: part.exists() and part.stat().st_size > 5000)
        assert running.wait(60) == 130
        lines = re.sub(rb"\x1b\[[^a-zA-Z]*[a-zA-Z]|\r", b"", shown.result(60)).rstrip().split(b"\n")
    assert lines[-1].startswith(b"Error: Interrupted: ")
    assert b"/1000" in lines[-2]


def _read_all(terminal: int) -> bytes:
    """Everything that is written to a terminal, until its other side is closed."""
    shown = b""
    try:
        while more := os.read(terminal, 65536):
            shown += more
    except OSError:  # EIO: Linux's end of file of a terminal
        pass
    os.close(terminal)
    return shown


def _interrupt(process: subprocess.Popen[bytes], when: Callable[[], bool]) -> None:
    while not when():
        assert process.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
