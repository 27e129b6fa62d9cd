"""Reads a sample of a collection and makes a map of it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import CountRecords, GetRecords
from ragstore.chroma.records import Column, Records
from ragstore.filters.values import MetadataValue
from ragstore.kit.byte_budget import reserved
from ragstore.kit.time_slices import run_in_thread
from ragstore.kit.timestamps import utc_now
from ragstore.model.collections import Collection, Distance
from ragstore.model.maps import MAX_NUMBERS, CollectionMap, MapParameters, blocks_of, color_of
from ragstore.model.projection import STEP_NUMBERS, project
from ragstore.model.vectors import Matrix

READ_NUMBERS: Final = 250_000
"""Maximum numbers of the embeddings of one call. Over a Chroma server they are 5 MB of JSON, which take 20 ms of the
event loop."""

READ_DOCUMENTS: Final = 1000
"""Maximum number of documents of one call, as of a page of documents: their metadata may be large."""

POINT_BYTES: Final = 1500
"""About the bytes of a point in a map and in its response."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample of the documents of a collection.

    Attributes:
        ids: n ids.
        embeddings: matrix of shape (n, dimension).
        colors: n values of a metadata field; None if it was not requested.
        total: number of the documents that it was chosen from.
        as_of: the time at which it was read.
    """

    ids: list[str]
    embeddings: Matrix
    colors: list[MetadataValue | None] | None
    total: int
    as_of: str


async def make_map(backend: Backend, collection: Collection, parameters: MapParameters) -> CollectionMap:
    """Make a map of a collection.

    Args:
        parameters: the sample and its colours. Fewer points are taken if their embeddings have more than `MAX_NUMBERS`
            numbers.

    Raises:
        Overloaded: there was no room in time for the embeddings.
    """
    as_of = utc_now()
    if collection.dimension is None:
        return CollectionMap([], [], [], [], [], None if parameters.color is None else [], 0, as_of)
    ids: list[str] | None = None
    if parameters.condition.is_none:
        total = await backend.call(CountRecords(collection.id))
    else:
        condition = parameters.condition
        operation = GetRecords(
            collection.id, where=condition.chroma_where, where_document=condition.chroma_where_document
        )
        ids = (await backend.call(operation)).ids
        total = len(ids)
    size = min(parameters.points, total, max(1, MAX_NUMBERS // collection.dimension))
    # The embeddings as float32 and as float64, and what a step takes.
    numbers = size * collection.dimension * 12 + min(STEP_NUMBERS, size * max(size, collection.dimension)) * 40
    async with reserved(numbers + size * POINT_BYTES):
        sample = await _read(backend, collection.id, collection.dimension, parameters, _Choice(ids, total, size, as_of))
        return await run_in_thread(_map(sample, collection.distance))


@dataclass(frozen=True, slots=True)
class _Choice:
    """The documents to choose a sample from.

    Attributes:
        ids: their ids; None if they are all documents of the collection.
        total: their number.
        size: number of documents of the sample.
        as_of: the time at which they are read.
    """

    ids: list[str] | None
    total: int
    size: int
    as_of: str

    def reads(self, collection_id: str, columns: tuple[Column, ...], limit: int) -> Generator[GetRecords, None, None]:
        """The calls that read the sample, each with at most `limit` documents."""
        for block in blocks_of(self.total, self.size):
            for begin in range(block.start, block.stop, limit):
                count = min(limit, block.stop - begin)
                if self.ids is None:
                    yield GetRecords(collection_id, limit=count, offset=begin, columns=columns)
                else:
                    yield GetRecords(collection_id, self.ids[begin : begin + count], columns=columns)


async def _read(
    backend: Backend, collection_id: str, dimension: int, parameters: MapParameters, choice: _Choice
) -> _Sample:
    """Read a sample. Documents that are deleted meanwhile are not in it."""
    columns: tuple[Column, ...] = ("embeddings",) if parameters.color is None else ("embeddings", "metadatas")
    ids: list[str] = []
    parts: list[Matrix] = []
    colors: list[MetadataValue | None] | None = None if parameters.color is None else []
    for operation in choice.reads(collection_id, columns, max(1, min(READ_DOCUMENTS, READ_NUMBERS // dimension))):
        found: Records = await backend.call(operation)
        if not found.ids or found.embeddings is None:
            continue
        ids += found.ids
        parts.append(found.embeddings)
        if colors is not None and parameters.color is not None:
            colors += [color_of(metadata.get(parameters.color)) for metadata in found.metadatas or []]
    embeddings = np.concatenate(parts) if parts else np.zeros((0, dimension), dtype=np.float32)
    return _Sample(ids, embeddings, colors, choice.total, choice.as_of)


def _map(sample: _Sample, distance: Distance) -> Generator[None, None, CollectionMap]:
    """The map of a sample."""
    projection = yield from project(sample.embeddings, distance)
    return CollectionMap(
        sample.ids,
        projection.positions[:, 0].tolist(),
        projection.positions[:, 1].tolist(),
        projection.neighbours.tolist(),
        projection.distances.tolist(),
        sample.colors,
        sample.total,
        sample.as_of,
    )
