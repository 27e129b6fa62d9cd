"""What a kill does to an index while Chroma saves it is mended, and nothing else is touched."""

from __future__ import annotations

import asyncio
import pickle
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ragstore.cli import main
from ragstore.errors import ChromaFailed, ChromaUnavailable
from ragstore.model.collections import DISTANCES, Distance
from ragstore.repair.after_kill import OPEN_NAME
from ragstore.repair.repairing import ASIDE, DATABASE, Repaired, repair
from ragstore.repair.saved_index import IDS_FILE
from tests.support.damaged_index import (
    DAMAGES,
    NAME,
    SAVED_EVERY,
    Content,
    Damage,
    Killed,
    content_of,
    index_of,
    left_by,
    numbered,
    opened,
    saved_twice,
)
from tests.support.factories import add_documents, asked, of_ids, upsert_documents
from tests.support.stores import TENANT

ROW = 132 + 4 * 3 + 8
"""Bytes of an element with three numbers: links, embedding, label."""


@pytest.fixture(scope="module")
async def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[Distance, Killed]:
    """Folders with a collection of each distance."""
    return {distance: await saved_twice(tmp_path_factory.mktemp(distance), distance) for distance in DISTANCES.values()}


DAMAGED = pytest.mark.parametrize("damage", DAMAGES)


@pytest.mark.parametrize("distance", DISTANCES.values())
@DAMAGED
async def test_a_service_that_starts_after_a_kill_has_every_document(
    distance: Distance, damage: Damage, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    acknowledged = left_by(killed[distance], tmp_path / "data", damage)
    (tmp_path / "data" / OPEN_NAME).touch()
    async with opened(tmp_path / "data") as store:
        assert await content_of(store) == acknowledged
        (hits,) = (await store.query(NAME, [asked(*acknowledged["7"][2], top_k=1)])).hits
        assert hits.ids == ["7"]
        await upsert_documents(store, NAME, numbered(100, SAVED_EVERY))
        assert await store.count(NAME) == len(acknowledged) + SAVED_EVERY


@DAMAGED
async def test_chroma_itself_cannot_open_what_it_left(
    damage: Damage, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    left_by(killed["l2"], tmp_path / "data", damage)
    async with opened(tmp_path / "data") as store:
        with pytest.raises(ChromaFailed):
            await content_of(store)


@DAMAGED
@pytest.mark.parametrize("cut", ["before the log is whole", "after it"])
async def test_a_repair_that_was_cut_off_is_done_again(
    damage: Damage, cut: str, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    acknowledged = left_by(killed["cosine"], folder, damage)
    index = index_of(folder)
    aside = index.with_name(index.name + ASIDE)
    if cut == "after it":
        shutil.copytree(index, tmp_path / "aside")
        repair(folder)
        (tmp_path / "aside").rename(aside)
    else:
        index.rename(aside)
    assert repair(folder) == [_of(index, acknowledged)]
    assert not aside.exists()
    async with opened(folder) as store:
        assert await content_of(store) == acknowledged


async def test_an_index_that_was_repaired_can_lose_its_ids_like_any_other(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    left_by(killed["l2"], folder, "ids not written")
    repair(folder)
    async with opened(folder) as store:
        await upsert_documents(store, NAME, numbered(100, SAVED_EVERY))
        acknowledged = await content_of(store)
    (index_of(folder) / IDS_FILE).write_bytes(b"")
    (found,) = repair(folder)
    assert not found.problem
    async with opened(folder) as store:
        assert await content_of(store) == acknowledged


@pytest.mark.parametrize("state", ["before", "after"])
async def test_what_was_saved_to_its_end_is_left_as_it_is(
    state: str, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    shutil.copytree(getattr(killed["l2"], state), tmp_path / "data")
    files = _bytes(tmp_path / "data")
    assert repair(tmp_path / "data") == []
    assert _bytes(tmp_path / "data") == files


async def test_an_index_that_chroma_crashes_over_is_made_anew_after_a_kill(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    """Its files are as many and as long as they should be, but the links between its elements are not."""
    shutil.copytree(killed["l2"].before, tmp_path / "data")
    async with opened(tmp_path / "data") as store:
        acknowledged = await content_of(store)
    level = index_of(tmp_path / "data") / "data_level0.bin"
    rows = np.fromfile(level, np.uint8).reshape(-1, ROW)
    rows[:, 4:132] = 0x7F
    rows.tofile(level)
    assert repair(tmp_path / "data") == []
    (tmp_path / "data" / OPEN_NAME).touch()
    async with opened(tmp_path / "data") as store:
        with pytest.raises(ChromaUnavailable):
            await content_of(store)
        assert await content_of(store) == acknowledged


async def test_an_index_that_was_never_saved_is_made_of_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as store:
        await store.create_collection(NAME, {}, "l2")
        await add_documents(store, NAME, numbered(0, SAVED_EVERY - 1))
        acknowledged = await content_of(store)
    shutil.copytree(tmp_path / "data", tmp_path / "saved")
    async with opened(tmp_path / "saved") as store:
        await add_documents(store, NAME, numbered(30, 1))
    shutil.copytree(index_of(tmp_path / "saved"), index_of(tmp_path / "data"), dirs_exist_ok=True)
    (index_of(tmp_path / "data") / IDS_FILE).write_bytes(b"")
    (found,) = repair(tmp_path / "data")
    assert (found.documents, found.problem) == (SAVED_EVERY - 1, "")
    async with opened(tmp_path / "data") as store:
        assert await content_of(store) == acknowledged


async def test_where_the_last_write_was_a_deletion_the_next_one_counts(tmp_path: Path) -> None:
    """Chroma numbers writes by the largest number in its log, and passes over what has one that it knows."""
    async with opened(tmp_path) as store:
        await store.create_collection(NAME, {}, "l2")
        await add_documents(store, NAME, numbered(0, SAVED_EVERY))
        await store.delete(NAME, of_ids(*numbered(0, SAVED_EVERY).ids))
    (found,) = repair(tmp_path, [NAME])
    assert (found.documents, found.problem) == (0, "")
    async with opened(tmp_path) as store:
        await add_documents(store, NAME, numbered(100, 2))
        assert sorted(await content_of(store)) == ["100", "101"]
        assert (await store.query(NAME, [asked(1, 2, 3)])).hits[0].ids


async def test_a_folder_is_looked_at_after_a_kill_and_not_after_a_clean_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create_collection(NAME, {}, "l2")
        assert (tmp_path / OPEN_NAME).exists()
    assert not (tmp_path / OPEN_NAME).exists()


# -- what cannot be repaired ------------------------------------------------------------------------


def _lose_embeddings(index: Path) -> None:
    rows = (index / "data_level0.bin").read_bytes()
    (index / "data_level0.bin").write_bytes(rows[:200])


def _lose_files(index: Path) -> None:
    (index / "data_level0.bin").unlink()


def _other_layout(index: Path) -> None:
    header = (index / "header.bin").read_bytes()
    (index / "header.bin").write_bytes(b"\7" + header[1:])


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (_lose_embeddings, "[0-9]+ embeddings are neither in its index nor in its log"),
        (_lose_files, "The files of its index are gone or cannot be read"),
        (_other_layout, "The files of its index are gone or cannot be read"),
    ],
)
def test_where_embeddings_are_lost_nothing_is_changed(
    harm: Callable[[Path], None], problem: str, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids not written")
    harm(index_of(tmp_path / "data"))
    files = _bytes(tmp_path / "data")
    (found,) = repair(tmp_path / "data")
    assert re.fullmatch(problem, found.problem)
    assert _bytes(tmp_path / "data") == files


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "UPDATE embeddings_queue SET vector = zeroblob(12) WHERE id = '60'",
            "The ids of its index are lost, and its elements are not in the order of its documents",
        ),
        (
            "DELETE FROM embeddings WHERE embedding_id = '7'",
            "The ids of its index are lost, and its 40 elements are not its documents",
        ),
    ],
    ids=["another order", "another number"],
)
def test_where_the_order_does_not_tell_the_ids_nothing_is_changed(
    change: str, problem: str, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids half written")
    _change(tmp_path / "data", change)
    files = _bytes(tmp_path / "data")
    (found,) = repair(tmp_path / "data")
    assert found.problem == problem
    assert _bytes(tmp_path / "data") == files


def test_an_index_of_another_chroma_is_left_as_it_is_unless_it_is_named(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    shutil.copytree(killed["l2"].after, tmp_path / "data")
    _change(tmp_path / "data", "UPDATE collections SET schema_str = NULL")
    assert repair(tmp_path / "data") == []
    (found,) = repair(tmp_path / "data", [NAME])
    assert found.problem == "How its index is made cannot be read"


def test_ids_that_would_run_code_run_none(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids not written")
    (index_of(tmp_path / "data") / IDS_FILE).write_bytes(pickle.dumps(Traitor(tmp_path / "ran")))
    (found,) = repair(tmp_path / "data")
    assert found.problem == ""
    assert not (tmp_path / "ran").exists()


class Traitor:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._file,)


# -- the command --------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    """`ragstore repair`: its exit code and what it prints."""
    result = CliRunner().invoke(main, ["repair", *arguments])
    return result.exit_code, result.output


def test_the_command_tells_what_it_repaired(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    acknowledged = left_by(killed["l2"], tmp_path / "data", "ids not written")
    place = f"notes ({len(acknowledged)} documents, tenant {TENANT}, database store_tests)"
    repaired = f"{place}: repaired; Chroma makes its index when it is next used\n"
    assert run(str(tmp_path / "data")) == (0, repaired)


async def test_the_command_makes_an_index_anew_where_it_is_told_to(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    shutil.copytree(killed["cosine"].after, tmp_path / "data")
    assert run(str(tmp_path / "data"), "--collection", "other") == (0, "No index is damaged\n")
    code, told = run(str(tmp_path / "data"), "--collection", NAME)
    assert (code, told[:6]) == (0, "notes ")
    async with opened(tmp_path / "data") as store:
        assert await content_of(store) == killed["cosine"].acknowledged
        await add_documents(store, NAME, numbered(200, 1))
        assert await store.count(NAME) == len(killed["cosine"].acknowledged) + 1


def test_the_command_fails_where_it_cannot_repair(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids not written")
    _lose_files(index_of(tmp_path / "data"))
    code, told = run(str(tmp_path / "data"))
    assert code == 4
    assert "The files of its index are gone or cannot be read" in told


def test_the_command_passes_over_a_folder_without_chroma(tmp_path: Path) -> None:
    assert run(str(tmp_path)) == (0, f"There is no chroma.sqlite3 in {tmp_path}: nothing to repair\n")
    assert not list(tmp_path.iterdir())


async def test_the_command_refuses_a_folder_that_is_in_use(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.status()
        assert await asyncio.to_thread(run, str(tmp_path)) == (1, "Error: The data is in use by another process\n")


def _of(index: Path, acknowledged: Content) -> Repaired:
    """What is told of the repaired collection."""
    with closing(sqlite3.connect(index.parent / DATABASE)) as database:
        (found,) = database.execute("SELECT id FROM collections WHERE name = ?", (NAME,)).fetchone()
    return Repaired(NAME, found, TENANT, "store_tests", len(acknowledged))


def _change(folder: Path, statement: str) -> None:
    """Change Chroma's database."""
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute(statement)


def _bytes(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
