"""The documents of a request, before it is known whether all of them can be stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from ragstore.errors import DimensionMismatch, InvalidDocuments
from ragstore.kit.errors import FieldError, InvalidRequest, JsonPath
from ragstore.model.collections import Collection
from ragstore.model.documents import Batch
from ragstore.model.large_bodies.packed_embeddings import PackedEmbeddings, Row, dimension_of, norms_of, pack_row
from ragstore.model.large_bodies.packed_metadata import PackedMetadata, pack_metadata
from ragstore.model.large_bodies.packed_text import Text, pack_text
from ragstore.model.vectors import LOST_NORM, Matrix, Vector, has_lost_norm

MATRIX_RATIO: Final = 2
"""A matrix of embeddings takes at most so many times the bytes of their request. Otherwise its rows are packed."""

WITHOUT_EMBEDDING: Final = "All documents must include pre-computed embeddings"


class Fault(NamedTuple):
    """Why a document cannot be stored.

    Attributes:
        path: JSON path of the field, which begins with the document's, such as `$.documents[3].embedding`.
        message: what is wrong with it.
        kind: the error of a request with this fault alone.
    """

    path: str
    message: str
    kind: type[InvalidRequest]


def rejection(faults: Sequence[Fault]) -> InvalidRequest:
    """The error of a request with bad documents. It names all of them.

    Args:
        faults: one or more, one for each bad document, in the order of the documents.

    Returns:
        The error, for the caller to raise. It has the kind of the faults if they have one in common.
    """
    kinds = {fault.kind for fault in faults}
    kind = kinds.pop() if len(kinds) == 1 else InvalidDocuments
    field_errors = [FieldError(fault.path, fault.message) for fault in faults]
    # The most frequent mistake, for which the contract defines the detail.
    if any(fault.message == WITHOUT_EMBEDDING for fault in faults):
        return kind(WITHOUT_EMBEDDING, field_errors)
    return kind((faults[0].message, ": ", JsonPath(faults[0].path), _others(len(faults) - 1)), field_errors)


def _others(count: int) -> str:
    if count == 0:
        return ""
    return f"; {count} more {'document is' if count == 1 else 'documents are'} invalid"


class ReceivedDocuments:
    """Documents of a request as columns, and the faults of documents that cannot be stored.

    Args:
        count: number of documents to come.
        max_numbers: upper bound for the numbers of all embeddings together, such as the size of the request in bytes.
        may_repeat: whether several documents may have one id, as in a stream.
        is_packed: whether embeddings and texts that take several times their bytes are packed.
    """

    def __init__(self, count: int, max_numbers: int, *, may_repeat: bool = False, is_packed: bool = False) -> None:
        self._count = count
        self._max_numbers = max_numbers
        self._may_repeat = may_repeat
        self._is_packed = is_packed
        self._ids: list[str] = []
        self._texts: list[Text] = []
        self._metadatas: list[PackedMetadata] = []
        self._unique_ids: list[str] = []
        self._faults: dict[int, Fault] = {}
        self._matrix: Matrix = np.empty((0, 0), dtype=np.float32)
        self._rows: list[int] = []
        """For each row of the matrix, the index of its document."""
        self._packed_rows: list[Row] = []
        """The rows in place of the matrix, which has none, if they are smaller."""
        self._misfits: dict[int, Row] = {}
        """Embeddings of another dimension than the first one's, by the index of their document."""

    def add(
        self, document_id: str, text: Text, metadata: PackedMetadata, embedding: Vector, *, has_unique_id: bool = False
    ) -> None:
        """Add the next document, whose fields are valid.

        Args:
            has_unique_id: whether the id is a random UUID of the service.
        """
        index = len(self._ids)
        if not self._rows:
            rows = min(self._count, self._max_numbers // len(embedding) + 1)
            self._has_packed_rows = self._is_packed and rows * embedding.nbytes > MATRIX_RATIO * self._max_numbers
            self._matrix = np.empty((0 if self._has_packed_rows else rows, len(embedding)), dtype=np.float32)
        if len(embedding) != self._matrix.shape[1]:
            self._misfits[index] = pack_row(embedding) if self._is_packed else embedding
        elif self._has_packed_rows:
            self._packed_rows.append(pack_row(embedding))
            self._rows.append(index)
        else:
            self._matrix[len(self._rows)] = embedding
            self._rows.append(index)
        self._ids.append(document_id)
        if has_unique_id:
            self._unique_ids.append(document_id)
        self._texts.append(pack_text(text) if self._is_packed and isinstance(text, str) else text)
        self._metadatas.append(pack_metadata(metadata) if self._is_packed else metadata)

    def reject(self, fault: Fault) -> None:
        """Add the next document, which is not valid."""
        self._faults[len(self._ids)] = fault
        self._ids.append("")
        self._texts.append("")
        self._metadatas.append({})

    @property
    def are_consistent(self) -> bool:
        """Whether all documents are valid, have one dimension, and ids that differ."""
        consistent = not (self._faults or self._misfits)
        return consistent and (self._may_repeat or len(set(self._ids)) == len(self._ids))

    def batch(self) -> Batch:
        """The documents as a batch, if they are consistent."""
        embeddings = PackedEmbeddings(self._packed_rows) if self._packed_rows else self._matrix
        return Batch(self._ids, self._texts, self._metadatas, embeddings, frozenset(self._unique_ids))

    @property
    def known_faults(self) -> bool:
        """Whether there are faults that do not depend on the collection."""
        return bool(self._faults) or not (self._may_repeat or len(set(self._ids)) == len(self._ids))

    def error(self, collection: Collection | None) -> InvalidRequest:
        """The error of documents that are not consistent.

        Args:
            collection: the collection to store them in; None if it is not known, and nothing depends on it then.

        Returns:
            The error, which names each document that could not be stored if all others were.
        """
        faults = dict(self._faults)
        if collection is not None:
            faults.update(self._wrong_dimensions(collection.dimension))
            if collection.distance == "cosine":
                faults.update(self._lost_norms(faults))
        if not self._may_repeat:
            faults.update(self._repeated_ids(faults))
        error = rejection([faults[index] for index in sorted(faults)])
        if isinstance(error, DimensionMismatch) and self._misfits and collection and collection.dimension is None:
            return error.with_detail(self._two_dimensions(), error.field_errors)
        return error

    def _two_dimensions(self) -> tuple[str, ...]:
        """The detail for embeddings that differ: which of them have which dimension."""
        index, vector = next(iter(self._misfits.items()))
        first = f" has {self._matrix.shape[1]}, "
        paths = JsonPath(embedding_path(self._rows[0])), JsonPath(embedding_path(index))
        return ("Embedding dimensions differ: ", paths[0], first, paths[1], f" has {dimension_of(vector)}")

    def _wrong_dimensions(self, expected: int | None) -> Iterator[tuple[int, Fault]]:
        """Faults of embeddings that differ from the collection's dimension; without one, from the most frequent."""
        dimensions = dict.fromkeys(self._rows, self._matrix.shape[1])
        dimensions.update((index, dimension_of(vector)) for index, vector in self._misfits.items())
        owner = "the collection's dimension"
        if expected is None:
            owner = "the dimension of the majority,"
            ranked = Counter(dimensions.values()).most_common(2)
            # Of two that are equally frequent, either may be the wrong one.
            is_tie = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
            expected = None if is_tie or not ranked else ranked[0][0]
        for index, dimension in dimensions.items():
            if dimension != expected:
                message = (
                    f"Embedding dimensions differ, and none of them has a majority; this one is {dimension}"
                    if expected is None
                    else f"Embedding dimension {dimension} does not match {owner} {expected}"
                )
                yield index, Fault(embedding_path(index), message, DimensionMismatch)

    def _lost_norms(self, faults: dict[int, Fault]) -> Iterator[tuple[int, Fault]]:
        embeddings = PackedEmbeddings(self._packed_rows) if self._packed_rows else self._matrix[: len(self._rows)]
        lost = [self._rows[row] for row in np.flatnonzero(has_lost_norm(norms_of(embeddings)))]
        misfits = {index: norms_of(PackedEmbeddings([row])) for index, row in self._misfits.items()}
        lost += [index for index, norms in misfits.items() if has_lost_norm(norms).any()]
        for index in lost:
            if index not in faults:
                yield index, Fault(embedding_path(index), LOST_NORM, InvalidDocuments)

    def _repeated_ids(self, faults: dict[int, Fault]) -> Iterator[tuple[int, Fault]]:
        """Faults of ids that another document has, which is itself valid and comes first."""
        seen: set[str] = set()
        for index, document_id in enumerate(self._ids):
            if index in faults:
                continue
            if document_id in seen:
                message = f"Duplicate id '{document_id}' in the request"
                yield index, Fault(f"$.documents[{index}].id", message, InvalidDocuments)
            seen.add(document_id)


def embedding_path(index: int) -> str:
    """JSON path of the embedding of a document."""
    return f"$.documents[{index}].embedding"
