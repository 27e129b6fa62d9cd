"""A truncated or damaged file is detected, and changes nothing."""

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
    "cut within a line": (lambda whole: whole[:2000], "truncated"),
    "cut after a line": (lambda whole: whole[: whole.index(b"\n", 2000) + 1], "truncated"),
    "cut in the first line": (lambda whole: whole[:20], "truncated"),
    "a letter changed": (lambda whole: whole.replace(b"Text 7:", b"Text 8:"), "checksum"),
    "a line lost": (lambda whole: whole[: whole.index(b"\n") + 1] + whole[whole.index(b"\n", 2000) + 1 :], "says 50"),
    "lines exchanged": (_reordered, "checksum"),
    "no JSON": (lambda whole: whole.replace(b'{"id":', b'{"id"', 1), "line 2"),
    "another dimension": (lambda whole: whole.replace(b'"dimension":4', b'"dimension":5'), "another dimension"),
    "something behind": (lambda whole: whole + b"\n", "after its trailer"),
    "something else": (lambda whole: b'{"id": "a"}\n' + whole, "not an export of ragstore"),
    "a later version": (lambda whole: whole.replace(b'"version":1', b'"version":2'), "later version"),
    "empty": (lambda whole: b"", "truncated"),
}
COMPRESSED_DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda whole: whole[: len(whole) // 2], "truncated"),
    "a byte changed": (lambda whole: whole[:1500] + bytes([whole[1500] ^ 1]) + whole[1501:], "damaged"),
    "something behind": (lambda whole: whole + b"more", "damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_rejected_and_nothing_is_written(
    embedded: Store, remote: Store, filled: str, tmp_path: Path, damage: str
) -> None:
    spoil, message = DAMAGES[damage]
    (tmp_path / "x.jsonl").write_bytes(spoil(exported(embedded, filled, tmp_path / "whole.jsonl")))
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url)
    assert run.exit_code == 3
    assert message in run.stderr
    assert remote.http.get(f"/collections/{filled}").status_code == 404


@pytest.mark.parametrize("damage", COMPRESSED_DAMAGES)
def test_a_damaged_compressed_file_is_rejected_and_nothing_is_written(
    embedded: Store, remote: Store, filled: str, tmp_path: Path, damage: str
) -> None:
    spoil, message = COMPRESSED_DAMAGES[damage]
    (tmp_path / "x.zst").write_bytes(spoil(exported(embedded, filled, tmp_path / "whole.jsonl.zst", "--batch", "7")))
    run = ragstore("import", tmp_path / "x.zst", "--url", remote.url)
    assert run.exit_code == 3
    assert message in run.stderr
    assert remote.http.get(f"/collections/{filled}").status_code == 404


def test_a_damaged_stream_is_detected_at_its_end_with_the_number_of_documents_that_are_stored(
    embedded: Store, remote: Store, filled: str, tmp_path: Path
) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    run = start("import", "-", "--url", remote.url, "--batch", "10", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    _, message = run.communicate(whole[:-200], timeout=60)
    assert run.returncode == 3
    assert b"truncated" in message
    assert f"{remote.count(filled)} documents before it are stored".encode() in message
    assert remote.count(filled) > 0


def test_no_message_contains_a_document_s_content(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "whole.jsonl")
    (tmp_path / "x.jsonl").write_bytes(whole.replace(b'"page":3', b'"page":{"Text":3}'))
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url)
    assert run.exit_code == 3
    assert "Text" not in run.stderr


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    run = ragstore("import", tmp_path / "x.jsonl")
    assert run.exit_code == 1
    assert "x.jsonl" in run.stderr
    assert "No such file" in run.stderr
