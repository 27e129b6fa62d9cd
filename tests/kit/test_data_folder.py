"""Data folders belong to their user, and their state is checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragstore.kit import data_folder
from ragstore.kit.data_folder import FolderUnusableError, prepare_folder, usable_bytes


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The umask of most systems, for one test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """The permissions of a file or a folder."""
    return path.stat().st_mode & 0o777


def test_a_new_folder_and_its_files_are_not_readable_by_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "outer" / "data"
    assert not prepare_folder(folder)
    (folder / "file").write_text("")
    assert (mode(folder), mode(folder / "file")) == (0o700, 0o640)


@pytest.mark.parametrize(("permissions", "readable"), [(0o755, True), (0o711, True), (0o2770, False), (0o750, False)])
def test_an_existing_folder_keeps_its_permissions_and_new_files_are_not_readable_by_other_users(
    tmp_path: Path, permissions: int, readable: bool
) -> None:
    tmp_path.chmod(permissions)
    assert prepare_folder(tmp_path) is readable
    assert mode(tmp_path) == permissions & 0o777
    (tmp_path / "file").write_text("")
    assert not mode(tmp_path / "file") & 0o007


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(FileExistsError):
        prepare_folder(tmp_path / "data")


def test_the_size_of_the_database_is_returned_while_the_folder_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("12345")
    assert usable_bytes(tmp_path / "db") == 5


def test_a_folder_that_is_gone_or_whose_disk_is_full_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FolderUnusableError, match="gone"):
        usable_bytes(tmp_path / "db")
    (tmp_path / "db").write_text("")
    # More than any disk has.
    monkeypatch.setattr(data_folder, "MIN_FREE_BYTES", 2**80)
    with pytest.raises(FolderUnusableError, match="The disk of the data folder is full"):
        usable_bytes(tmp_path / "db")
