"""Objects by key, such as locks, that exist as long as they are in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """Creates one object per key, and forgets an object that nothing references any more.

    Args:
        create: creates an object.
    """

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._objects: WeakValueDictionary[str, T] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T:
        """The object of a key: the same one as long as it is referenced."""
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = self._create()
        return found
