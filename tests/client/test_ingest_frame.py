"""Tables of pandas, Polars, Arrow and plain columns are ingested, without any of them being a dependency."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ragstore_client import Client, InvalidInput, frame_documents

# The packages take a second of each process that collects tests: functions import them.
if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: dict[str, list[object]] = {
    "id": ["a", "b", "c"],
    "text": ["Ein Text, der nicht in zwölf Bytes passt", "kurz", ""],
    "embedding": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.5]],
    "page": [1, None, 3],
    "tags": [["x"], ["y", "z"], None],
    "ratio": [0.5, 1.5, None],
    "live": [True, False, None],
}

ROWS = [
    {"page": 1, "tags": ["x"], "ratio": 0.5, "live": True},
    {"tags": ["y", "z"], "ratio": 1.5, "live": False},
    {"page": 3},
]


def arrow(**types: pa.DataType) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array(values, type=types.get(name)) for name, values in COLUMNS.items()})


def tables() -> dict[str, Callable[[], object]]:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return {
        "columns": lambda: COLUMNS,
        "pandas": lambda: pd.DataFrame(COLUMNS),
        "polars": lambda: pl.DataFrame(COLUMNS),
        "polars arrays": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("embedding").cast(pl.Array(pl.Float32, 2))),
        "polars categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("text").cast(pl.Categorical)),
        "arrow": arrow,
        "arrow large": lambda: arrow(
            id=pa.large_string(), embedding=pa.large_list(pa.float64()), tags=pa.large_list(pa.large_string())
        ),
        "arrow views": lambda: arrow(id=pa.string_view(), text=pa.string_view(), embedding=pa.list_view(pa.float32())),
        "arrow halves": lambda: arrow(embedding=pa.list_(pa.float16(), 2), page=pa.int8()),
        "arrow dictionary": lambda: arrow(text=pa.dictionary(pa.int16(), pa.string())),
        "arrow chunks": lambda: pa.concat_tables([arrow().slice(0, 1), arrow().slice(1)]),
    }


TABLES = (
    "columns",
    "pandas",
    "polars",
    "polars arrays",
    "polars categories",
    "arrow",
    "arrow large",
    "arrow views",
    "arrow halves",
    "arrow dictionary",
    "arrow chunks",
)


def test_each_table_has_a_test() -> None:
    assert tuple(tables()) == TABLES


@pytest.mark.parametrize("table", TABLES)
def test_rows_become_documents(table: str) -> None:
    documents = list(frame_documents(tables()[table]()))
    assert [document["id"] for document in documents] == COLUMNS["id"]
    assert [document["text"] for document in documents] == COLUMNS["text"]
    assert [list(document["embedding"]) for document in documents] == COLUMNS["embedding"]  # type: ignore[call-overload]
    assert [document["metadata"] for document in documents] == ROWS


def test_a_slice_of_a_table_has_its_own_rows() -> None:
    (document,) = frame_documents(arrow().slice(1, 1))
    assert (document["id"], document["metadata"]) == ("b", ROWS[1])
    assert list(frame_documents(arrow().slice(0, 0))) == []


def test_a_table_is_ingested(client: Client, client_collection: str) -> None:
    import pandas as pd

    frame = pd.DataFrame({"key": ["a", "b"], "body": ["x", "y"], "vector": [np.ones(2), np.zeros(2)], "n": [1, 2]})
    report = client.ingest_frame(client_collection, frame, id="key", text="body", embedding="vector")
    assert (report.stored, report.failed) == (2, 0)
    assert client.get_document(client_collection, "b").metadata == {"n": 2}


def test_only_the_chosen_columns_are_metadata(client: Client, client_collection: str) -> None:
    import polars as pl

    client.ingest_frame(client_collection, pl.DataFrame(COLUMNS), metadata=["ratio"])
    assert client.get_document(client_collection, "a").metadata == {"ratio": 0.5}


def test_a_value_that_metadata_cannot_have_is_refused_for_its_row_alone(client: Client, client_collection: str) -> None:
    import polars as pl

    columns = {**COLUMNS, "when": [None, "2024-01-01", None]}
    table = pl.DataFrame(columns).with_columns(pl.col("when").str.to_date())
    report = client.ingest_frame(client_collection, table)
    assert (report.stored, report.failed) == (2, 1)
    assert "$.documents[1].metadata.when: Arrow's type 'tdD'" in str(report.failures[0].error)


def test_what_is_no_table_of_documents_is_refused() -> None:
    import polars as pl
    import pyarrow as pa

    cases: list[tuple[object, str]] = [
        (pl.DataFrame({"id": ["a"], "text": ["x"]}), "no column 'embedding'; its columns are 'id', 'text'"),
        ({"id": ["a"]}, "no column 'text'"),
        (pa.array([1]), "no columns"),
        (5, "int is no table"),
    ]
    for frame, message in cases:
        with pytest.raises(InvalidInput, match=message):
            frame_documents(frame)


@pytest.mark.process
def test_none_of_the_packages_is_loaded() -> None:
    program = (
        "import sys\nfrom ragstore_client import frame_documents\n"
        "print(list(frame_documents({'id': ['a'], 'text': ['x'], 'embedding': [[1.0]]}))[0]['id'])\n"
        "assert not {'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "a\n"
