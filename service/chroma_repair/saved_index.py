"""Reads the files in which Chroma 1.5 keeps a collection's index, and detects an interrupted save.

The index's folder holds the files of hnswlib (`header.bin`, `data_level0.bin`, `length.bin`, `link_lists.bin`) and
`index_metadata.pickle`, which maps ids to labels. A save writes them in place, in this order; only then does it record
in the database up to which log entry the index is saved. A kill in between leaves an index that is ahead of its ids, or
a file of ids that is not a whole pickle.

Layout as written by hnswlib, little-endian: `header.bin` begins with a version and six sizes; `data_level0.bin` has one
row per element with links, embedding and label; `length.bin` has the norm of each embedding, for cosine only. The size
of a row follows from the collection, so the rows can be read even when the header is lost.
"""

from __future__ import annotations

import pickle  # only through `_DataUnpickler`
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chroma_repair.segments import IndexConfiguration

Matrix: TypeAlias = NDArray[np.float32]

IDS_FILE: Final = "index_metadata.pickle"
_HEADER: Final = struct.Struct("<i6Q")
_DELETED: Final = (2, 0x01)
"""Byte of a row's links, and its bit, that mark a deleted element."""


@dataclass(frozen=True, slots=True)
class SavedIds:
    """The content of `index_metadata.pickle`.

    Attributes:
        labels: label of each id.
        elements: number of elements in the index, deleted ones included.
    """

    labels: dict[str, int]
    elements: int


@dataclass(frozen=True, slots=True)
class SavedIndex:
    """A saved index, as far as it can be read.

    Attributes:
        elements: number of elements according to the header, deleted ones included; None when the header is lost.
        labels: label of each of the n elements that were found.
        alive: n flags: the element is not deleted.
        ids: the ids of the labels; None when they are lost.
        usable: n flags: the element's embedding can be read.
    """

    elements: int | None
    labels: NDArray[np.uint64]
    alive: NDArray[np.bool_]
    ids: SavedIds | None
    usable: NDArray[np.bool_]
    _embeddings: NDArray[np.uint8]
    _norms: Matrix | None

    @property
    def is_complete(self) -> bool:
        """Whether its last save was finished."""
        if self.ids is None:
            return self.elements == 0
        return self.ids.elements == self.elements == len(self.labels)

    @property
    def is_cosine(self) -> bool:
        """Whether its distance is cosine, so that embeddings are stored divided by their norm."""
        return self._norms is not None

    def embeddings(self, rows: Sequence[int]) -> Matrix:
        """The embeddings of some elements, as Chroma returns them.

        Args:
            rows: indexes of m of the n elements.

        Returns:
            Matrix of shape (m, dimension), float32.
        """
        stored = np.ascontiguousarray(self._embeddings[rows]).view("<f4")
        return stored if self._norms is None else stored * self._norms[rows, None]


def read_index(folder: Path, dimension: int, configuration: IndexConfiguration) -> SavedIndex | None:
    """Read a saved index.

    Args:
        folder: the index's folder.
        dimension: dimension of the embeddings.
        configuration: the index's parameters.

    Returns:
        The index; None when its files are missing or have another layout.
    """
    # On the lowest level an element may have twice as many links as above it.
    links = 4 + 4 * 2 * configuration.max_neighbors
    label = links + 4 * dimension
    row_bytes = label + 8
    try:
        elements = _read_elements(folder / "header.bin", row_bytes)
        count = (folder / "data_level0.bin").stat().st_size // row_bytes
        if elements is not None:
            count = min(count, elements)
        rows = (
            np.memmap(folder / "data_level0.bin", np.uint8, "r", shape=(count, row_bytes))
            if count
            else np.empty((0, row_bytes), np.uint8)
        )
        norms = _read_norms(folder / "length.bin", count) if configuration.space == "cosine" else None
    except OSError:
        return None
    byte, bit = _DELETED
    labels = np.ascontiguousarray(rows[:, label:]).view("<u8")[:, 0]
    return SavedIndex(
        elements,
        labels,
        # Labels begin with 1; a row with label 0 is spare capacity.
        ((rows[:, byte] & bit) == 0) & (labels > 0),
        _read_ids(folder / IDS_FILE),
        np.ones(count, np.bool_) if norms is None else np.isfinite(norms),
        rows[:, links:label],
        norms,
    )


def _read_norms(path: Path, count: int) -> Matrix:
    """The norms of embeddings; NaN for norms that were not written."""
    norms = np.full(count, np.nan, np.float32)
    written = np.fromfile(path, "<f4", count)
    norms[: len(written)] = written
    return norms


def _read_elements(header: Path, row_bytes: int) -> int | None:
    """The number of elements in a header; None when the header was cut off.

    Raises:
        OSError: there is no header, or it belongs to an index with rows of another size.
    """
    try:
        version, _, _, elements, found_row_bytes, _, _ = _HEADER.unpack_from(header.read_bytes())
    except struct.error:
        return None
    if (version, found_row_bytes) != (1, row_bytes):
        raise OSError("not the layout of Chroma 1.5")
    return int(elements)


def _read_ids(path: Path) -> SavedIds | None:
    try:
        with path.open("rb") as file:
            content = _DataUnpickler(file).load()
        return SavedIds(dict(content["id_to_label"]), int(content["total_elements_added"]))
    # A pickle that was cut off may raise any of these.
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


class _DataUnpickler(pickle.Unpickler):
    """Reads dictionaries, strings and numbers, and rejects anything else: a class could run code."""

    def find_class(self, module: str, name: str) -> object:
        """Reject the pickle."""
        raise pickle.UnpicklingError("The ids of an index need no class")
