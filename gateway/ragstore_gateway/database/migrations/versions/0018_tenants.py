"""Tenants: of knowledge bases, and their requests and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the tenant of a configuration, which is empty for earlier ones, and the table of requests and tokens."""
    op.add_column("configuration", sa.Column("tenant", sa.String(64), nullable=False, server_default=sa.text("''")))
    op.create_index("ix_configuration_tenant", "configuration", ["tenant"])
    op.create_table(
        "tenant_usage",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("period", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", name="pk_tenant_usage"),
    )
