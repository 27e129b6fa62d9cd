"""`Rebuild`: the state of a rebuild of a collection's index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstore.kit.errors import ServiceError
from ragstore.model.index_check import IndexCheck

RebuildStatus: TypeAlias = Literal["running", "completed", "failed"]


@dataclass(slots=True)
class Rebuild:
    """A rebuild of a collection's index. It changes while the rebuild runs.

    Attributes:
        collection: the collection's name.
        status: whether it runs, or how it ended.
        done: number of documents that the new index has.
        total: number of documents when the rebuild began.
        before: the check of the old index; None until it is complete.
        after: the check of the new index; None until it is complete.
        error: why the rebuild failed.
    """

    collection: str
    status: RebuildStatus = "running"
    done: int = 0
    total: int = 0
    before: IndexCheck | None = None
    after: IndexCheck | None = None
    error: ServiceError | None = None
