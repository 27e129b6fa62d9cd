"""What is kept for each collection while it is in use, such as a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """Hands out one thing a collection; one that nobody holds is forgotten.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: WeakValueDictionary[str, T] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: str) -> T:
        """The thing of a collection.

        Args:
            key: what the collection is known by.

        Returns:
            The same one for the same key, as long as someone holds it.
        """
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._make()
        return kept
