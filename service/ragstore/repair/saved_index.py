"""The files in which Chroma 1.5 keeps a collection's index, and whether a save was cut off.

In a folder of the index's name stand the files of hnswlib (`header.bin`, `data_level0.bin`, `length.bin`,
`link_lists.bin`) and `index_metadata.pickle`, which tells the label of each id. A save writes them in place, in this
order; only then does the database learn up to which entry of the log the index is saved. A kill in between leaves an
index that is ahead of its ids, or ids that are no pickle any more.

Layout as written by hnswlib, little-endian: `header.bin` is a version and six sizes; `data_level0.bin` has one row an
element with links, embedding and label; `length.bin` has the length of each embedding, where the distance is cosine.
"""

from __future__ import annotations

import io
import pickle  # nosec B403 # see _Plain
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragstore.store.base import Matrix

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
        elements: how many elements it should have, deleted ones included.
        labels: label of each of the n elements that are there.
        alive: n times whether it is not deleted.
        ids: which ids the labels stand for; None where that was lost.
    """

    elements: int
    labels: NDArray[np.uint64]
    alive: NDArray[np.bool_]
    ids: SavedIds | None
    _embeddings: NDArray[np.uint8]
    _lengths: Matrix

    @property
    def is_whole(self) -> bool:
        """Whether the last save of it came to its end."""
        if self.ids is None:
            return self.elements == 0
        return self.ids.elements == self.elements == len(self.labels)

    def embeddings(self, places: NDArray[np.intp], *, cosine: bool) -> Matrix:
        """The embeddings of some elements, as Chroma gives them back.

        Args:
            places: m of the n elements.
            cosine: whether the distance is cosine; embeddings are then kept divided by their length.

        Returns:
            Matrix of shape (m, dimension), float32.
        """
        rows = np.ascontiguousarray(self._embeddings[places]).view("<f4")
        return rows * self._lengths[places, None] if cosine else rows


def read_index(folder: Path) -> SavedIndex | None:
    """Read a saved index.

    Args:
        folder: the index's folder.

    Returns:
        The index; None when its files are not there, or too short to be one.
    """
    try:
        header = (folder / "header.bin").read_bytes()
        version, links, _, elements, size, label, data = _HEADER.unpack_from(header)
        if version != 1 or not 0 <= links < data < label < size:
            return None
        count = min(elements, (folder / "data_level0.bin").stat().st_size // size)
        rows = np.memmap(folder / "data_level0.bin", np.uint8, "r", shape=(count, size)) if count else _nothing(size)
        lengths = np.fromfile(folder / "length.bin", "<f4", count)
    except (OSError, struct.error):
        return None
    if len(lengths) < count:
        return None
    place, bit = _DELETED
    return SavedIndex(
        elements,
        np.ascontiguousarray(rows[:, label : label + 8]).view("<u8")[:, 0],
        (rows[:, links + place] & bit) == 0,
        _read_ids(folder / IDS_FILE),
        rows[:, data:label],
        lengths,
    )


def _nothing(size: int) -> NDArray[np.uint8]:
    return np.empty((0, size), np.uint8)


def _read_ids(path: Path) -> SavedIds | None:
    try:
        told = _Plain(io.BytesIO(path.read_bytes())).load()
        return SavedIds(dict(told["id_to_label"]), int(told["total_elements_added"]))
    # A pickle that was cut off may raise any of these.
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


class _Plain(pickle.Unpickler):
    """Reads dictionaries, texts and numbers. Anything else, which could run code, is refused."""

    def find_class(self, module: str, name: str) -> object:
        """Refuse."""
        raise pickle.UnpicklingError("Ids of an index name no class")
