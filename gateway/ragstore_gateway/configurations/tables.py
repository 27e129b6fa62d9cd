"""The tables of configurations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from ragstore_gateway.database.base import ID_LENGTH, Base, DateTimeUTC
from ragstore_gateway.keys import TENANT_LENGTH


class ConfigurationRow(Base):
    """A configuration, whatever its version."""

    __tablename__ = "configuration"

    id: Mapped[str] = mapped_column(String(ID_LENGTH), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(128))
    """The name of its current version."""
    base: Mapped[str] = mapped_column(String(ID_LENGTH), server_default=text("''"))
    """Id of the knowledge base that it belongs to; empty for a kind that belongs to none."""
    tenant: Mapped[str] = mapped_column(String(TENANT_LENGTH), server_default=text("''"))
    """The tenant of the key that created it; empty for none."""
    current_version: Mapped[int]
    deleted: Mapped[bool]
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    modified_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))

    __table_args__ = (
        # Two writers of one name, on whichever replica, cannot both succeed.
        Index(
            "uq_configuration_name",
            kind,
            base,
            name,
            unique=True,
            sqlite_where=text("deleted = 0"),
            postgresql_where=text("NOT deleted"),
        ),
        Index("ix_configuration_created", kind, created_on, id),
        Index("ix_configuration_tenant", tenant),
    )


class ConfigurationVersionRow(Base):
    """A version of a configuration. It is never changed."""

    __tablename__ = "configuration_version"

    configuration_id: Mapped[str] = mapped_column(
        String(ID_LENGTH), ForeignKey("configuration.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]]
    created_on: Mapped[datetime] = mapped_column(DateTimeUTC(timezone=True))
    created_by: Mapped[str] = mapped_column(String(128))
    """Name of the key that wrote it; empty without keys."""
