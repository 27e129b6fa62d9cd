"""`Base`, the declarative base of all tables, and the types of their columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from sqlalchemy import JSON, DateTime, Dialect, MetaData
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator

ID_LENGTH: Final = 36
"""Length of the ids that the gateway makes: UUIDs, written as text."""

CONSTRAINT_NAMES: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""The names of constraints. The migrations have them: they must never change."""


class DateTimeUTC(TypeDecorator[datetime]):
    """A time with a zone. It is stored in UTC, also by SQLite, which has no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The time as it is stored.

        Raises:
            TypeError: the time has no zone.
        """
        if value is not None and value.tzinfo is None:
            raise TypeError("A time without a zone cannot be stored")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The time as it was stored, with its zone."""
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Base(DeclarativeBase):
    """Base of all tables. Each package has its tables in a module `tables`.

    A column of type `DateTimeUTC` is a time with a zone, `dict[str, Any]` and `list[Any]` are JSON.
    """

    metadata = MetaData(naming_convention=CONSTRAINT_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {dict[str, Any]: JSON, list[Any]: JSON}
