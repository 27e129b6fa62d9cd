"""The write of one batch."""

from __future__ import annotations

from ragstore.model.documents import Write
from ragstore.store.protocol import Store


async def write_batch(store: Store, name: str, write: Write) -> None:
    """Write one batch.

    Raises:
        ServiceError: the write failed.
    """
    (outcome,) = await store.write(name, [write])
    if outcome is not None:
        raise outcome
