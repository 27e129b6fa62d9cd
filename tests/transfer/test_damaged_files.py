"""A file that is not whole is noticed, and changes nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.transfers import Store, exported, ragstore, start


def _reordered(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut within a line": (lambda whole: whole[:2000], "cut short"),
    "cut after a line": (lambda whole: whole[: whole.index(b"\n", 2000) + 1], "cut short"),
    "cut in the first line": (lambda whole: whole[:20], "cut short"),
    "a letter changed": (lambda whole: whole.replace(b"Text 7:", b"Text 8:"), "checksum"),
    "a line lost": (lambda whole: whole[: whole.index(b"\n") + 1] + whole[whole.index(b"\n", 2000) + 1 :], "says 50"),
    "lines exchanged": (_reordered, "checksum"),
    "no JSON": (lambda whole: whole.replace(b'{"id":', b'{"id"', 1), "line 2"),
    "another dimension": (lambda whole: whole.replace(b'"dimension":4', b'"dimension":5'), "another dimension"),
    "something behind": (lambda whole: whole + b"\n", "follows"),
    "something else": (lambda whole: b'{"id": "a"}\n' + whole, "no export of ragstore"),
    "a later version": (lambda whole: whole.replace(b'"version":1', b'"version":2'), "later version"),
    "empty": (lambda whole: b"", "cut short"),
}
COMPRESSED_DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda whole: whole[: len(whole) // 2], "cut short"),
    "a byte changed": (lambda whole: whole[:1500] + bytes([whole[1500] ^ 1]) + whole[1501:], "damaged"),
    "something behind": (lambda whole: whole + b"more", "damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_nothing_is_written(
    embedded: Store, remote: Store, filled: str, tmp_path: Path, damage: str
) -> None:
    spoil, told = DAMAGES[damage]
    (tmp_path / "x.jsonl").write_bytes(spoil(exported(embedded, filled, tmp_path / "whole.jsonl")))
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url)
    assert run.exit_code == 3
    assert told in run.stderr
    assert remote.http.get(f"/collections/{filled}").status_code == 404


@pytest.mark.parametrize("damage", COMPRESSED_DAMAGES)
def test_a_damaged_compressed_file_is_refused_and_nothing_is_written(
    embedded: Store, remote: Store, filled: str, tmp_path: Path, damage: str
) -> None:
    spoil, told = COMPRESSED_DAMAGES[damage]
    (tmp_path / "x.zst").write_bytes(spoil(exported(embedded, filled, tmp_path / "whole.jsonl.zst", "--batch", "7")))
    run = ragstore("import", tmp_path / "x.zst", "--url", remote.url)
    assert run.exit_code == 3
    assert told in run.stderr
    assert remote.http.get(f"/collections/{filled}").status_code == 404


def test_a_damaged_stream_is_noticed_at_its_end(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    run = start("import", "-", "--url", remote.url, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    _, told = run.communicate(whole[:-200], timeout=60)
    assert run.returncode == 3
    assert b"cut short" in told


def test_no_message_holds_what_a_document_holds(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    (tmp_path / "x.jsonl").write_bytes(whole.replace(b'"page":3', b'"page":{"Text":3}'))
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url)
    assert run.exit_code == 3
    assert "Text" not in run.stderr


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    run = ragstore("import", tmp_path / "x.jsonl")
    assert run.exit_code == 1
    assert "x.jsonl" in run.stderr
    assert "No such file" in run.stderr
