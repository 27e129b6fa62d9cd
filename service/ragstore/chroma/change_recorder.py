"""`ChangeRecorder`: a backend that records which documents of some collections are changed through it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import AddRecords, DeleteRecords, Operation, UndoAdd, UpdateMetadatas, UpsertRecords

T = TypeVar("T")


@dataclass(slots=True)
class Changes:
    """Changes of a collection.

    Attributes:
        written: ids of documents that may have been written or changed.
        deleted: ids of documents that may have been deleted. They may exist again.
    """

    written: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.written | self.deleted)

    def take(self) -> Changes:
        """The changes since the last call."""
        taken = Changes(self.written, self.deleted)
        self.written, self.deleted = set(), set()
        return taken

    def add(self, operation: Operation[object]) -> None:
        """Add the documents that an operation changes."""
        self.written.update(_written_ids(operation))
        if isinstance(operation, (DeleteRecords, UndoAdd)):
            self.deleted.update(operation.ids)


class ChangeRecorder:
    """A backend that records changes; see `Backend`.

    Args:
        backend: executes the operations.
    """

    def __init__(self, backend: Backend) -> None:
        self._inner = backend
        self._recorded: dict[str, Changes] = {}

    @property
    def has_conditional_add(self) -> bool:
        """Whether an add itself ignores ids that exist."""
        return self._inner.has_conditional_add

    async def start(self) -> None:
        """Start. Does not wait for Chroma."""
        await self._inner.start()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        await self._inner.close()

    def call(self, operation: Operation[T]) -> Coroutine[Any, Any, T]:
        """Execute an operation."""
        changes = self._recorded.get(operation.collection) if self._recorded else None
        return self._inner.call(operation) if changes is None else self._call(changes, operation)

    async def _call(self, changes: Changes, operation: Operation[T]) -> T:
        """Execute an operation. It is recorded before and after it: a read beside it sees either state."""
        changes.add(operation)
        try:
            return await self._inner.call(operation)
        finally:
            changes.add(operation)

    @contextmanager
    def recorded(self, collection_id: str) -> Iterator[Changes]:
        """Record the changes of a collection within the block."""
        changes = self._recorded[collection_id] = Changes()
        try:
            yield changes
        finally:
            del self._recorded[collection_id]


def _written_ids(operation: Operation[object]) -> Sequence[str]:
    if isinstance(operation, (AddRecords, UpsertRecords)):
        return operation.records.ids
    return operation.ids if isinstance(operation, UpdateMetadatas) else ()
