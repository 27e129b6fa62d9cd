"""The collections that are read from embedded Chroma's database are those that Chroma lists."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from chroma_repair.data_lock import DATABASE
from ragstore.chroma.embedded import collection_table
from ragstore.chroma.embedded.api import ChromaApi, Scope, open_api
from ragstore.model.collections import Collection
from ragstore.model.metadata import CollectionMetadata

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
