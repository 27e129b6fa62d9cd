"""Configurations of knowledge bases and assistants, and their versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "configuration",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("current_version", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("modified_on", DateTimeUTC(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_configuration"),
    )
    op.create_index(
        "uq_configuration_name",
        "configuration",
        ["kind", "name"],
        unique=True,
        sqlite_where=sa.text("deleted = 0"),
        postgresql_where=sa.text("NOT deleted"),
    )
    op.create_index("ix_configuration_created", "configuration", ["kind", "created_on", "id"])
    op.create_table(
        "configuration_version",
        sa.Column("configuration_id", sa.String(36), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(128), nullable=False),
        sa.ForeignKeyConstraint(
            ["configuration_id"],
            ["configuration.id"],
            name="fk_configuration_version_configuration_id_configuration",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("configuration_id", "version", name="pk_configuration_version"),
    )
