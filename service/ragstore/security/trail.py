"""The audit trail of one request: what it wrote or was refused, for the line that tells who did it. Never content."""

from __future__ import annotations

from contextvars import ContextVar


class Trail:
    """What the stores tell of one request.

    Attributes:
        told: whether there is something to tell.
        collection: the collection that was written to, or refused.
        count: how many documents were written or deleted, or how many collections refused; None when not known.
        status: how it ended, where that was known only after the answer had begun; else None.
    """

    __slots__ = ("collection", "count", "status", "told")

    def __init__(self) -> None:
        self.told = False
        self.collection = ""
        self.count: int | None = None
        self.status: int | None = None


_trail: ContextVar[Trail | None] = ContextVar("audit_trail", default=None)


def new_trail() -> Trail:
    """Begin a request.

    Returns:
        The trail that `wrote` and `refused` fill from now on, in this task and in those it starts.
    """
    trail = Trail()
    _trail.set(trail)
    return trail


def wrote(collection: str, count: int | None = None) -> None:
    """Tell of a write, before it is tried or once it is done.

    Args:
        collection: the collection's name.
        count: how many documents; None when not known.
    """
    trail = _trail.get()
    if trail is not None:
        trail.told = True
        trail.collection = collection
        trail.count = count


def wrote_more(collection: str, count: int) -> None:
    """Tell of one of the batches of a request, before it is tried.

    Args:
        collection: the collection's name.
        count: how many documents.
    """
    trail = _trail.get()
    if trail is not None:
        wrote(collection, (trail.count or 0) + count)


def ended(status: int) -> None:
    """Tell how a request ended whose answer had begun before.

    Args:
        status: the status that it would have had.
    """
    trail = _trail.get()
    if trail is not None:
        trail.status = status


def refused(collection: str) -> None:
    """Tell that a collection was kept from a key.

    Args:
        collection: the collection's name; of several the first is told.
    """
    trail = _trail.get()
    if trail is not None:
        trail.told = True
        trail.collection = trail.collection or collection
        trail.count = (trail.count or 0) + 1
