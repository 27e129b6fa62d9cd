"""Rows of tables as documents: of anything with Arrow's C stream interface, of pandas, and of plain columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, cast

from ragstore_client._arrow import ArrowStream, Columns, read_batches
from ragstore_client._exceptions import InvalidInput
from ragstore_client._json import to_strings
from ragstore_client._models import Strings


class _Frame(Protocol):
    """pandas' DataFrame, as far as it is used."""

    columns: Iterable[object]

    def __getitem__(self, name: object) -> Iterable[object]: ...


def frame_documents(
    frame: object,
    *,
    id: str = "id",
    text: str = "text",
    embedding: str = "embedding",
    metadata: Strings | None = None,
) -> Iterator[dict[str, object]]:
    """The rows of a table as documents, for `ingest`.

    Args:
        frame: a table of pandas, Polars, Arrow, DuckDB, or anything else with `__arrow_c_stream__`; or a mapping of
            column names to columns.
        id: name of the column with the ids.
        text: name of the column with the texts.
        embedding: name of the column with the vectors.
        metadata: names of the columns with metadata; all others when None. A missing value is left out.

    Yields:
        Each row, as a mapping with the fields of `NewDocument`. `ingest` rejects a value that cannot be sent, for that
        document alone.

    Raises:
        InvalidInput: the object is no table, or has no such column.
    """
    batches = _batches(frame)
    first = next(batches)
    wanted = None if metadata is None else to_strings(metadata, "metadata")
    if missing := [name for name in (id, text, embedding, *(wanted or ())) if name not in first]:
        raise InvalidInput(f"the table has no column {missing[0]!r}; its columns are {', '.join(map(repr, first))}")
    names = [name for name in first if name not in (id, text, embedding)] if wanted is None else wanted
    return _rows(first, batches, (id, text, embedding), names)


def _rows(
    first: Columns, batches: Iterator[Columns], fields: tuple[str, str, str], names: list[str]
) -> Iterator[dict[str, object]]:
    columns: Columns | None = first
    while columns is not None:
        chosen = [columns[name] for name in names]
        for index, (id_, text, embedding) in enumerate(zip(*(columns[field] for field in fields), strict=True)):
            values = ((name, column[index]) for name, column in zip(names, chosen, strict=True))
            found = {name: _plain(value) for name, value in values if not _is_missing(value)}
            yield {"id": id_, "text": text, "embedding": embedding, "metadata": found}
        columns = next(batches, None)


def _batches(frame: object) -> Iterator[Columns]:
    if isinstance(frame, Mapping):
        return iter([{str(name): list(column) for name, column in frame.items()}])
    if hasattr(frame, "__arrow_c_stream__"):
        batches = read_batches(cast("ArrowStream", frame))
        try:
            empty = next(batches)
        except ImportError:  # pandas needs pyarrow for the interface
            return _columns(cast("_Frame", frame))
        return _chain(empty, batches)
    if hasattr(frame, "columns") and hasattr(frame, "__getitem__"):
        return _columns(cast("_Frame", frame))
    raise InvalidInput(f"{type(frame).__name__} is no table: it has no __arrow_c_stream__, and no columns")


def _chain(first: Columns, batches: Iterator[Columns]) -> Iterator[Columns]:
    yield first
    yield from batches


def _columns(frame: _Frame) -> Iterator[Columns]:
    return iter([{str(name): list(frame[name]) for name in frame.columns}])


def _is_missing(value: object) -> bool:
    """Whether a value is None, or pandas' NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return isinstance(value, float) and value != value


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, array) else value
