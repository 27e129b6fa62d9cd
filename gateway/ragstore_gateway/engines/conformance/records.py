"""Records with exact cosines to one question."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from ragstore_gateway.engines.engine_collection import MetadataValue, Record, Vector

DIMENSION = 4


def record_id(number: int) -> str:
    """The id of a record: ids are ordered as their numbers are."""
    return str(UUID(int=number))


def vector(cosine: float) -> Vector:
    """A vector of length 1 with the given cosine to `QUESTION`."""
    return np.array([cosine, np.sqrt(1 - cosine**2), 0, 0], dtype=np.float32)


def record(number: int, cosine: float = 0.5, text: str = "", **metadata: MetadataValue) -> Record:
    """A record.

    Args:
        number: determines its id.
        cosine: its cosine to `QUESTION`.
        **metadata: its metadata, in addition to `document_id` and `revision`.
    """
    own = {"document_id": f"d{number}", "revision": "r1", **metadata}
    return Record(record_id(number), text or f"text {number}", vector(cosine), own)


def numbers(found: Sequence[object]) -> list[int]:
    """The numbers of records or passages."""
    return [UUID(getattr(each, "id")).int for each in found]  # noqa: B009  # records and passages have no common base


QUESTION: Vector = vector(1.0)
