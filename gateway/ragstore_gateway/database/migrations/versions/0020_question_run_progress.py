"""The progress of runs of question sets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add the number of questions that a run has searched for, which is 0 for earlier ones."""
    op.add_column("question_run", sa.Column("searched", sa.Integer(), nullable=False, server_default=sa.text("0")))
