"""A repair undoes the damage of a kill during a save, and changes nothing else."""

from __future__ import annotations

import asyncio
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import filelock
import httpx
import numpy as np
import pytest
from click.testing import CliRunner

import chroma_repair
from chroma_repair.data_lock import DATABASE
from chroma_repair.index_repair import ASIDE, RepairResult, repair
from chroma_repair.saved_index import IDS_FILE
from chroma_repair.unclean_shutdown import MARKER_NAME
from ragstore.cli import main as ragstore
from ragstore.errors import ChromaFailed, ChromaUnavailable
from ragstore.model.collections import DISTANCES, Distance
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
    run_repair,
    same_content,
    saved_twice,
)
from tests.support.factories import add_documents, make_query, of_ids, upsert_documents
from tests.support.servers import running, start_chroma
from tests.support.stores import TENANT

pytestmark = pytest.mark.process

ROW = 132 + 4 * 3 + 8
"""Bytes of an element of dimension 3: links, embedding, label."""


@pytest.fixture(scope="module")
async def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[Distance, Killed]:
    """For each distance, folders with a collection of that distance."""
    return {distance: await saved_twice(tmp_path_factory.mktemp(distance), distance) for distance in DISTANCES.values()}


DAMAGED = pytest.mark.parametrize("damage", DAMAGES)


@pytest.mark.parametrize("distance", DISTANCES.values())
@DAMAGED
async def test_a_service_that_starts_after_a_kill_has_every_document(
    distance: Distance, damage: Damage, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    acknowledged = left_by(killed[distance], tmp_path / "data", damage)
    (tmp_path / "data" / MARKER_NAME).touch()
    async with opened(tmp_path / "data") as store:
        assert same_content(await content_of(store), acknowledged, distance)
        (hits,) = (await store.query(NAME, [make_query(*acknowledged["7"][2], top_k=1)])).matches
        assert hits.ids == ["7"]
        await upsert_documents(store, NAME, numbered(100, SAVED_EVERY))
        assert await store.count(NAME) == len(acknowledged) + SAVED_EVERY


@DAMAGED
async def test_chroma_itself_cannot_open_a_damaged_index(
    damage: Damage, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    left_by(killed["l2"], tmp_path / "data", damage)
    async with opened(tmp_path / "data") as store:
        with pytest.raises(ChromaFailed):
            await content_of(store)


@DAMAGED
@pytest.mark.parametrize("cut", ["before the log is complete", "after it"])
async def test_an_interrupted_repair_can_be_run_again(
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
    assert repair(folder) == [_result_for(index, acknowledged)]
    assert not aside.exists()
    async with opened(folder) as store:
        assert same_content(await content_of(store), acknowledged, "cosine")


async def test_a_repaired_index_that_loses_its_ids_can_be_repaired_again(
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
async def test_a_completed_save_is_left_unchanged(state: str, killed: dict[Distance, Killed], tmp_path: Path) -> None:
    shutil.copytree(getattr(killed["l2"], state), tmp_path / "data")
    files = _bytes(tmp_path / "data")
    assert repair(tmp_path / "data") == []
    assert _bytes(tmp_path / "data") == files


async def test_an_index_that_crashes_chroma_is_rebuilt_after_an_unclean_shutdown(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    """Its files have the right sizes, but the links between its elements are wrong."""
    shutil.copytree(killed["l2"].before, tmp_path / "data")
    async with opened(tmp_path / "data") as store:
        acknowledged = await content_of(store)
    level = index_of(tmp_path / "data") / "data_level0.bin"
    rows = np.fromfile(level, np.uint8).reshape(-1, ROW)
    rows[:, 4:132] = 0x7F
    rows.tofile(level)
    assert repair(tmp_path / "data") == []
    (tmp_path / "data" / MARKER_NAME).touch()
    async with opened(tmp_path / "data") as store:
        with pytest.raises(ChromaUnavailable):
            await content_of(store)
        assert await content_of(store) == acknowledged


async def test_an_index_that_was_never_saved_is_rebuilt_from_the_log(tmp_path: Path) -> None:
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


async def test_a_write_after_a_repair_counts_when_the_last_one_before_it_was_a_deletion(tmp_path: Path) -> None:
    """Chroma numbers writes after the largest number in its log, and ignores a number that it has already applied."""
    async with opened(tmp_path) as store:
        await store.create_collection(NAME, {}, "l2")
        await add_documents(store, NAME, numbered(0, SAVED_EVERY))
        await store.delete(NAME, of_ids(*numbered(0, SAVED_EVERY).ids))
    (found,) = repair(tmp_path, [NAME])
    assert (found.documents, found.problem) == (0, "")
    async with opened(tmp_path) as store:
        await add_documents(store, NAME, numbered(100, 2))
        assert sorted(await content_of(store)) == ["100", "101"]
        assert (await store.query(NAME, [make_query(1, 2, 3)])).matches[0].ids


async def test_the_marker_of_an_unclean_shutdown_is_removed_by_a_clean_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.create_collection(NAME, {}, "l2")
        assert (tmp_path / MARKER_NAME).exists()
    assert not (tmp_path / MARKER_NAME).exists()


# -- damage beyond repair ------------------------------------------------------------------------


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
        (_lose_files, "The files of its index are missing or cannot be read"),
        (_other_layout, "The files of its index are missing or cannot be read"),
    ],
)
def test_nothing_is_changed_when_embeddings_are_lost(
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
            "The ids of its index are lost, and it has 40 elements for 39 documents",
        ),
    ],
    ids=["another order", "another number"],
)
def test_nothing_is_changed_when_the_order_does_not_match_the_documents(
    change: str, problem: str, killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids half written")
    _change(tmp_path / "data", change)
    files = _bytes(tmp_path / "data")
    (found,) = repair(tmp_path / "data")
    assert found.problem == problem
    assert _bytes(tmp_path / "data") == files


def test_an_index_of_another_chroma_is_left_unchanged_unless_it_is_named(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    shutil.copytree(killed["l2"].after, tmp_path / "data")
    _change(tmp_path / "data", "UPDATE collections SET schema_str = NULL")
    assert repair(tmp_path / "data") == []
    (found,) = repair(tmp_path / "data", [NAME])
    assert found.problem == "The configuration of its index cannot be read"


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


def test_the_command_prints_the_repaired_collections(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    acknowledged = left_by(killed["l2"], tmp_path / "data", "ids not written")
    collection = f"notes ({len(acknowledged)} documents, tenant {TENANT}, database store_tests)"
    repaired = f"{collection}: repaired; Chroma rebuilds its index when it is next used\n"
    assert run_repair(str(tmp_path / "data")) == (0, repaired)


def test_the_command_of_ragstore_is_the_same(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids not written")
    result = CliRunner().invoke(ragstore, ["repair", str(tmp_path / "data"), "--collection", NAME])
    assert result.exit_code == 0
    assert result.output.endswith(": repaired; Chroma rebuilds its index when it is next used\n")
    assert CliRunner().invoke(ragstore, ["repair", "--help"]).output.startswith("usage: ragstore repair")


async def test_the_command_rebuilds_the_index_of_a_named_collection(
    killed: dict[Distance, Killed], tmp_path: Path
) -> None:
    shutil.copytree(killed["cosine"].after, tmp_path / "data")
    assert run_repair(str(tmp_path / "data"), "--collection", "other") == (0, "No index is damaged\n")
    code, output = run_repair(str(tmp_path / "data"), "--collection", NAME)
    assert (code, output[:6]) == (0, "notes ")
    async with opened(tmp_path / "data") as store:
        assert same_content(await content_of(store), killed["cosine"].acknowledged, "cosine")
        await add_documents(store, NAME, numbered(200, 1))
        assert await store.count(NAME) == len(killed["cosine"].acknowledged) + 1


def test_the_command_ends_with_4_when_it_cannot_repair(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    left_by(killed["l2"], tmp_path / "data", "ids not written")
    _lose_files(index_of(tmp_path / "data"))
    code, output = run_repair(str(tmp_path / "data"))
    assert code == 4
    assert "The files of its index are missing or cannot be read" in output


def test_the_command_ignores_a_folder_without_chroma(tmp_path: Path) -> None:
    assert run_repair(str(tmp_path)) == (0, f"There is no chroma.sqlite3 in {tmp_path}: nothing to repair\n")
    assert not list(tmp_path.iterdir())


async def test_the_command_refuses_a_folder_that_is_in_use(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.status()
        assert await asyncio.to_thread(run_repair, str(tmp_path)) == (
            1,
            "Error: The data is in use by another process\n",
        )


@pytest.mark.parametrize("arguments", [[], ["FOLDER", "--tables"], ["no such folder"]])
def test_a_wrong_command_line_ends_with_2(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        run_repair(*(str(tmp_path) if argument == "FOLDER" else argument for argument in arguments))
    assert ended.value.code == 2


def test_the_command_runs_without_ragstore_and_chromadb(killed: dict[Distance, Killed], tmp_path: Path) -> None:
    """As for a user of Chroma: numpy, filelock and the package's folder are all that can be imported."""
    for module in (chroma_repair, np, filelock):
        source = Path(str(module.__file__)).parent
        (tmp_path / source.name).symlink_to(source)
    libraries = Path(np.__file__).parents[1] / "numpy.libs"
    (tmp_path / libraries.name).symlink_to(libraries)
    left_by(killed["cosine"], tmp_path / "data", "ids not written")
    code = f"import sys, runpy; sys.path.append({str(tmp_path)!r}); sys.argv[1:] = [{str(tmp_path / 'data')!r}]"
    code += "; runpy.run_module('chroma_repair', run_name='__main__')"
    command = [sys.executable, "-S", "-E", "-P", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith(": repaired; Chroma rebuilds its index when it is next used\n")


def _result_for(index: Path, acknowledged: Content) -> RepairResult:
    """The result of a successful repair."""
    with closing(sqlite3.connect(index.parent / DATABASE)) as database:
        (found,) = database.execute("SELECT id FROM collections WHERE name = ?", (NAME,)).fetchone()
    return RepairResult(NAME, found, TENANT, "store_tests", len(acknowledged))


def _change(folder: Path, statement: str) -> None:
    """Change Chroma's database."""
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute(statement)


def _bytes(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_command_refuses_a_folder_that_a_chroma_server_has_open(tmp_path: Path) -> None:
    with running(start_chroma(tmp_path)) as server:
        folder = str(tmp_path / "chroma")
        httpx.post(
            f"{server.url}/api/v2/tenants/default_tenant/databases/default_database/collections", json={"name": "notes"}
        ).raise_for_status()
        before = (tmp_path / "chroma" / DATABASE).read_bytes()
        for arguments in ([folder], [folder, "--collection", "notes"]):
            code, printed = run_repair(*arguments)
            assert code == 1
            assert f"(process {server.process.pid}): stop it first" in printed
        assert (tmp_path / "chroma" / DATABASE).read_bytes() == before
        assert run_repair(folder, "--chroma-is-stopped")[0] == 0
    assert run_repair(folder)[0] == 0
