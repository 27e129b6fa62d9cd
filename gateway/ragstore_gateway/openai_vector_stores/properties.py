"""Properties of vector stores that knowledge bases do not have: a name that repeats, pairs, and the expiry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.ingestion.transactions import lock_base
from ragstore_gateway.openai_vector_stores.schemas import ExpiresAfter
from ragstore_gateway.openai_vector_stores.tables import VectorStoreRow

SUFFIX_DIGITS: Final = 8
MAX_NAME: Final = 128 - len(" ()") - SUFFIX_DIGITS
"""Maximum number of characters of a name before a suffix."""


async def put_properties(session: AsyncSession, base_id: str, values: Mapping[str, Any]) -> None:
    """Write properties of a vector store, and leave its others as they are.

    Args:
        session: the transaction.
        base_id: the vector store.
        values: the values by column.

    Raises:
        ConfigurationNotFound: there is none.
    """
    # Of two first changes, one waits; without the lock, it would insert the same row.
    if await lock_base(session, base_id) is None:
        raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
    await session.merge(VectorStoreRow(base_id=base_id, **values))


def expiring(expires: ExpiresAfter | None) -> dict[str, Any]:
    """The columns of an expiry whose days are counted from now; of no expiry for None."""
    if expires is None:
        return {"expire_days": None, "active_on": None, "expired_on": None}
    return {"expire_days": expires.days, "active_on": datetime.now(UTC), "expired_on": None}


def expires_on(row: VectorStoreRow) -> datetime | None:
    """When a vector store expires, or has expired; None for never."""
    if row.expired_on is not None:
        return row.expired_on
    if row.expire_days is None or row.active_on is None:
        return None
    return row.active_on + timedelta(days=row.expire_days)


async def check_not_expired(session: AsyncSession, base_id: str) -> VectorStoreRow | None:
    """Check that a vector store has not expired.

    Args:
        session: a transaction.
        base_id: the vector store.

    Returns:
        Its properties; None if it has none.

    Raises:
        InvalidRequest: it has.
    """
    row = await session.get(VectorStoreRow, base_id)
    expires = None if row is None else expires_on(row)
    if expires is not None and expires <= datetime.now(UTC):
        raise InvalidRequest(f"Vector store {base_id} has expired; create another one, or change its expires_after")
    return row


async def record_upload(session: AsyncSession, base_id: str) -> None:
    """Postpone the expiry of a vector store, to which a file is attached.

    Args:
        session: the transaction, with the base locked.
        base_id: the vector store.

    Raises:
        InvalidRequest: it has expired.
    """
    row = await check_not_expired(session, base_id)
    if row is not None and row.expire_days is not None:
        row.active_on = datetime.now(UTC)


def suffixed(name: str) -> str:
    """A name for the knowledge base of a vector store whose own name another one has."""
    return f"{name[:MAX_NAME]} ({uuid4().hex[:SUFFIX_DIGITS]})"


def shown_name(base_name: str, row: VectorStoreRow | None) -> str:
    """The name of a vector store.

    Args:
        base_name: the name of its knowledge base, which may have been renamed since.
        row: its own properties; None if it has none.
    """
    given = None if row is None else row.name
    is_suffixed = given is not None and base_name.startswith(f"{given[:MAX_NAME]} (")
    return given if given is not None and is_suffixed else base_name
