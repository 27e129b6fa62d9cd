"""The files in which Chroma 1.5 keeps a collection's index, and whether a save was cut off.

In a folder of the index's name stand the files of hnswlib (`header.bin`, `data_level0.bin`, `length.bin`,
`link_lists.bin`) and `index_metadata.pickle`, which tells the label of each id. A save writes them in place, in this
order; only then does the database learn up to which entry of the log the index is saved. A kill in between leaves an
index that is ahead of its ids, or ids that are no pickle any more.

Layout as written by hnswlib, little-endian: `header.bin` begins with a version and six sizes; `data_level0.bin` has one
row an element with links, embedding and label; `length.bin` has the length of each embedding, where the distance is
cosine. How long a row is follows from the collection, so that a lost header costs nothing.
"""

from __future__ import annotations

import pickle  # read by `_Plain` alone
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragstore.model.vectors import Matrix
from ragstore.repair.segments import IndexConfiguration

IDS_FILE: Final = "index_metadata.pickle"
_HEADER: Final = struct.Struct("<i6Q")
_DELETED: Final = (2, 0x01)
"""Byte of a row's links, and its bit, that mark a deleted element."""


@dataclass(frozen=True, slots=True)
class SavedIds:
    """What `index_metadata.pickle` tells.

    Attributes:
        labels: label of each id.
        elements: how many elements the index had, deleted ones included.
    """

    labels: dict[str, int]
    elements: int


@dataclass(frozen=True, slots=True)
class SavedIndex:
    """A saved index, as far as it can be read.

    Attributes:
        elements: how many elements it should have, deleted ones included; None when that was lost.
        labels: label of each of the n elements that are there.
        alive: n times whether it is not deleted.
        ids: which ids the labels stand for; None where that was lost.
        usable: n times whether its embedding can be read.
    """

    elements: int | None
    labels: NDArray[np.uint64]
    alive: NDArray[np.bool_]
    ids: SavedIds | None
    usable: NDArray[np.bool_]
    _embeddings: NDArray[np.uint8]
    _lengths: Matrix | None

    @property
    def is_whole(self) -> bool:
        """Whether the last save of it came to its end."""
        if self.ids is None:
            return self.elements == 0
        return self.ids.elements == self.elements == len(self.labels)

    @property
    def is_cosine(self) -> bool:
        """Whether its distance is cosine, so that embeddings are kept divided by their length."""
        return self._lengths is not None

    def embeddings(self, places: Sequence[int]) -> Matrix:
        """The embeddings of some elements, as Chroma gives them back.

        Args:
            places: m of the n elements.

        Returns:
            Matrix of shape (m, dimension), float32.
        """
        rows = np.ascontiguousarray(self._embeddings[places]).view("<f4")
        return rows if self._lengths is None else rows * self._lengths[places, None]


def read_index(folder: Path, dimension: int, made: IndexConfiguration) -> SavedIndex | None:
    """Read a saved index.

    Args:
        folder: the index's folder.
        dimension: how many numbers an embedding has.
        made: how the index is made.

    Returns:
        The index; None when its files are not there.
    """
    # On the lowest level an element may have twice as many links as above it.
    links = 4 + 4 * 2 * made.hnsw.max_neighbors
    label = links + 4 * dimension
    size = label + 8
    try:
        elements = _read_elements(folder / "header.bin", size)
        count = (folder / "data_level0.bin").stat().st_size // size
        if elements is not None:
            count = min(count, elements)
        rows = np.memmap(folder / "data_level0.bin", np.uint8, "r", shape=(count, size)) if count else _nothing(size)
        lengths = _read_lengths(folder / "length.bin", count) if made.space == "cosine" else None
    except OSError:
        return None
    place, bit = _DELETED
    labels = np.ascontiguousarray(rows[:, label:]).view("<u8")[:, 0]
    return SavedIndex(
        elements,
        labels,
        # Labels begin with 1; a row without one is room for more.
        ((rows[:, place] & bit) == 0) & (labels > 0),
        _read_ids(folder / IDS_FILE),
        np.ones(count, np.bool_) if lengths is None else np.isfinite(lengths),
        rows[:, links:label],
        lengths,
    )


def _read_lengths(path: Path, count: int) -> Matrix:
    """The lengths of embeddings; NaN for those that were not written."""
    lengths = np.full(count, np.nan, np.float32)
    told = np.fromfile(path, "<f4", count)
    lengths[: len(told)] = told
    return lengths


def _read_elements(header: Path, size: int) -> int | None:
    """How many elements a header tells; None when it was cut off.

    Raises:
        OSError: it is not there, or of an index with rows of another size.
    """
    try:
        version, _, _, elements, told, _, _ = _HEADER.unpack_from(header.read_bytes())
    except struct.error:
        return None
    if (version, told) != (1, size):
        raise OSError("not the layout of Chroma 1.5")
    return int(elements)


def _nothing(size: int) -> NDArray[np.uint8]:
    return np.empty((0, size), np.uint8)


def _read_ids(path: Path) -> SavedIds | None:
    try:
        with path.open("rb") as file:
            told = _Plain(file).load()
        return SavedIds(dict(told["id_to_label"]), int(told["total_elements_added"]))
    # A pickle that was cut off may raise any of these.
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


class _Plain(pickle.Unpickler):
    """Reads dictionaries, texts and numbers. Anything else, which could run code, is refused."""

    def find_class(self, module: str, name: str) -> object:
        """Refuse."""
        raise pickle.UnpicklingError("Ids of an index name no class")
