"""Question sets of knowledge bases, and their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstore_gateway.database.base import DateTimeUTC

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Let a configuration belong to a base, and make its name unique there. Add the table of runs."""
    op.add_column("configuration", sa.Column("base", sa.String(36), nullable=False, server_default=sa.text("''")))
    op.drop_index("uq_configuration_name", "configuration")
    op.create_index(
        "uq_configuration_name",
        "configuration",
        ["kind", "base", "name"],
        unique=True,
        sqlite_where=sa.text("deleted = 0"),
        postgresql_where=sa.text("NOT deleted"),
    )
    op.create_table(
        "question_run",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("set_id", sa.String(36), nullable=False),
        sa.Column("set_version", sa.Integer(), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=True),
        sa.Column("outcomes", sa.JSON(), nullable=False),
        sa.Column("compared_with", sa.String(36), nullable=False),
        sa.Column("won", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("started_on", DateTimeUTC(timezone=True), nullable=False),
        sa.Column("finished_on", DateTimeUTC(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["set_id"], ["configuration.id"], name="fk_question_run_set_id_configuration", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_question_run"),
    )
    op.create_index(
        "uq_question_run_running",
        "question_run",
        ["set_id"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("ix_question_run_started", "question_run", ["set_id", "started_on", "id"])
