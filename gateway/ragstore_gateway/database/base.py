"""`Base`, the declarative base of all tables, and the types of their columns."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from advanced_alchemy.base import convention
from advanced_alchemy.types import DateTimeUTC
from sqlalchemy import JSON, MetaData
from sqlalchemy.orm import DeclarativeBase

__all__ = ["ID_LENGTH", "Base", "DateTimeUTC"]

ID_LENGTH: Final = 36
"""Length of the ids that the gateway makes: UUIDs, written as text."""


class Base(DeclarativeBase):
    """Base of all tables. Each package has its tables in a module `tables`.

    A column of type `DateTimeUTC` is a time with a zone, `dict[str, Any]` and `list[Any]` are JSON.
    """

    metadata = MetaData(naming_convention=convention)
    type_annotation_map: ClassVar[dict[Any, Any]] = {dict[str, Any]: JSON, list[Any]: JSON}
