"""The collections and counts in embedded Chroma's database equal Chroma's own reports."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from chroma_repair.data_lock import DATABASE
from ragstore.chroma.embedded import collection_table
from ragstore.chroma.embedded.api import ChromaApi, Scope, open_api
from ragstore.chroma.embedded.collection_table import RecordCounts
from ragstore.chroma.records import UpsertMetadata
from ragstore.filters.values import Scalar
from ragstore.model.collections import Collection
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.vectors import Vector
from tests.support.poisoning import TOO_MANY

if TYPE_CHECKING:
    from ragstore.model.collections import Distance

SCOPE: Scope = {"tenant": "default_tenant", "database": "default_database"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> tuple[ChromaApi, Path]:
    """Chroma in this process, with collections of every kind, and its folder."""
    folder = tmp_path_factory.mktemp("table")
    opened = open_api(str(folder))
    opened.create_database("other", "default_tenant")
    for number, space in enumerate(("cosine", "l2", "ip")):
        configuration = {"hnsw": {"space": space, "sync_threshold": 50, "batch_size": 10}}
        metadata: CollectionMetadata = {
            "text": "a",
            "whole": 2**60,
            "number": 1.5,
            "yes": True,
            "no": False,
            "empty": "",
            "zero": 0,
        }
        opened.create_collection(
            f"col-{number}", configuration=configuration, metadata=metadata if number else None, **SCOPE
        )
    opened.create_collection(
        "col-9", configuration={}, metadata={"hnsw:space": "ip"}, tenant="default_tenant", database="other"
    )
    return opened, folder


def test_they_are_those_that_chroma_lists(api: tuple[ChromaApi, Path]) -> None:
    chroma, folder = api
    for scope, count in ((SCOPE, 3), (cast("Scope", {**SCOPE, "database": "other"}), 1)):
        expected = [
            Collection(
                str(found.id),
                found.name,
                found.metadata or {},
                found.dimension,
                cast("Distance", cast("dict[str, dict[str, object]]", found.configuration_json)["hnsw"]["space"]),
            )
            for found in chroma.list_collections(None, 0, **scope)
        ]
        listed = collection_table.list_collections(folder, scope["tenant"], scope["database"], {})
        assert listed is not None
        assert sorted(listed, key=attrgetter("name")) == sorted(expected, key=attrgetter("name"))
        assert all(type(a.metadata.get(key)) is type(value) for a in listed for key, value in a.metadata.items())
        assert collection_table.count_collections(folder, scope["tenant"], scope["database"]) == count == len(expected)


def test_a_database_that_is_not_as_expected_is_left_to_chroma(tmp_path: Path) -> None:
    assert collection_table.list_collections(tmp_path, "a", "b", {}) is None
    assert collection_table.count_collections(tmp_path, "a", "b") is None
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute("CREATE TABLE databases (id, name, tenant_id)")
        database.execute("CREATE TABLE collections (id, name, dimension, database_id, schema_str)")
        values = "str_value, int_value, float_value, bool_value"
        database.execute(f"CREATE TABLE collection_metadata (collection_id, key, {values})")
        database.execute("INSERT INTO databases VALUES ('d', 'b', 'a')")
        database.execute("INSERT INTO collections VALUES ('c', 'col', 2, 'd', '{}')")
    assert collection_table.count_collections(tmp_path, "a", "b") == 1
    assert collection_table.list_collections(tmp_path, "a", "b", {}) is None


def _numbers(count: int) -> list[Vector]:
    return [np.array([number, 1.0], dtype=np.float32) for number in range(count)]


class _Counted:
    """A collection of Chroma in this process, and its records in the table."""

    def __init__(self, chroma: ChromaApi, counts: RecordCounts, name: str) -> None:
        self.chroma = chroma
        self.counts = counts
        self.id = chroma.create_collection(name, configuration={}, metadata=None, **SCOPE).id

    def upsert(self, *ids: str, metadata: UpsertMetadata = None) -> None:
        self.chroma._upsert(
            self.id,
            ids=list(ids),
            embeddings=_numbers(len(ids)),
            metadatas=[metadata for _ in ids],
            documents=list(ids),
            uris=None,
            **SCOPE,
        )

    def delete(self, *ids: str) -> None:
        self.chroma._delete(self.id, ids=list(ids), **SCOPE)

    def both(self) -> tuple[int | None, int]:
        """The count of the table, and Chroma's own."""
        return self.counts.count([str(self.id)], 5.0).get(str(self.id)), self.chroma._count(self.id, **SCOPE)


@pytest.fixture
def counted(api: tuple[ChromaApi, Path], name: str) -> _Counted:
    chroma, folder = api
    return _Counted(chroma, RecordCounts(folder), name)


def test_records_are_counted_as_chroma_counts_them_after_each_kind_of_write(counted: _Counted) -> None:
    assert counted.both() == (0, 0)
    counted.upsert("a", "b", "c")
    assert counted.both() == (3, 3)
    counted.upsert("c", "d")
    assert counted.both() == (4, 4)
    counted.delete("a", "b", "unknown")
    assert counted.both() == (2, 2)
    tags: list[Scalar] = ["x", "y"]
    counted.upsert("a", metadata={"tags": tags})
    assert counted.both() == (3, 3)
    counted.chroma._update(counted.id, ids=["a", "unknown"], metadatas=[{"n": 1}, {"n": 1}], **SCOPE)
    assert counted.both() == (3, 3)
    counted.delete("a", "c", "d")
    assert counted.both() == (0, 0)


def test_records_are_counted_as_chroma_counts_them_after_the_log_was_purged(counted: _Counted) -> None:
    for start in range(0, 2_000, 100):
        counted.upsert(*(str(number) for number in range(start, start + 100)))
    assert counted.both() == (2_000, 2_000)
    counted.delete(*(str(number) for number in range(1_500)))
    assert counted.both() == (500, 500)


def test_the_table_never_counts_more_or_less_than_was_written_while_others_write(counted: _Counted) -> None:
    found: list[int | None] = []
    stopped = threading.Event()

    def count() -> None:
        while not stopped.is_set():
            found.append(counted.counts.count([str(counted.id)], 5.0).get(str(counted.id)))

    reader = threading.Thread(target=count)
    reader.start()
    for start in range(0, 500, 10):
        counted.upsert(*(str(number) for number in range(start, start + 10)))
    stopped.set()
    reader.join()
    known = [count for count in found if count is not None]
    assert len(set(known)) > 5
    assert known == sorted(known)
    assert all(count % 10 == 0 for count in known)


def test_a_collection_with_a_write_that_chroma_has_not_applied_is_left_to_chroma(counted: _Counted) -> None:
    counted.upsert("a")
    with pytest.raises(Exception, match="Failed to apply logs"):
        counted.upsert("bad", metadata={f"key-{number}": number for number in range(TOO_MANY)})
    assert counted.counts.count([str(counted.id)], 5.0) == {}
    assert RecordCounts(counted.counts.folder).count([str(counted.id)], 5.0) == {}


def test_a_collection_that_is_gone_is_not_counted(counted: _Counted, name: str) -> None:
    counted.upsert("a")
    counted.chroma.delete_collection(name, **SCOPE)
    assert counted.counts.count([str(counted.id)], 5.0) == {}


def test_no_further_collection_is_counted_when_the_time_is_over(api: tuple[ChromaApi, Path]) -> None:
    chroma, folder = api
    ids = [str(found.id) for found in chroma.list_collections(None, 0, **SCOPE)]
    assert len(RecordCounts(folder).count(ids, 5.0)) > 1
    assert len(RecordCounts(folder).count(ids, 0.0)) == 1


@pytest.mark.parametrize("table", ["segments", "max_seq_id", "embeddings", "embeddings_queue"])
def test_nothing_is_counted_in_a_database_without_one_of_the_tables(
    counted: _Counted, tmp_path: Path, table: str
) -> None:
    counted.upsert("a")
    shutil.copy(counted.counts.folder / DATABASE, tmp_path)
    assert RecordCounts(tmp_path).count([str(counted.id)], 5.0) == {str(counted.id): 1}
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        database.execute(f"ALTER TABLE {table} RENAME TO renamed")
    assert RecordCounts(tmp_path).count([str(counted.id)], 5.0) == {}
