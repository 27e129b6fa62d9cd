"""`keys remove` takes one key out of a file and leaves the rest as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ragstore.cli import main
from ragstore.kit.auth.keys import append_key, new_key
from ragstore.store.key_scope import STORE_KEYS


def remove(name: str, file: Path) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["keys", "remove", name, "--file", str(file)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a comment and two keys."""
    path = tmp_path / "keys"
    path.write_text("# ours\n")
    path.chmod(0o640)
    for name in ("old", "new"):
        append_key(str(path), new_key(name, STORE_KEYS, role="reader")[1], STORE_KEYS)
    return path


def test_the_key_is_gone_and_every_other_line_is_as_it_was(file: Path) -> None:
    before = file.read_text().splitlines()
    assert remove("old", file).exit_code == 0
    assert file.read_text().splitlines() == [line for line in before if '"old"' not in line]


def test_the_permissions_stay(file: Path) -> None:
    remove("old", file)
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["keys"]


def test_a_name_that_is_not_there_is_an_error_and_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    run = remove("nobody", file)
    assert run.exit_code == 1
    assert "there is no key of the name 'nobody'" in run.output
    assert file.read_bytes() == before


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    assert remove("old", link).exit_code == 0
    assert link.is_symlink()
    assert '"old"' not in file.read_text()
