"""The audit of what operators commanded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "operator_actions",
        sa.Column("id", _SERIAL, sa.Identity(), primary_key=True),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("command", sa.String, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
    )
    op.create_index("operator_actions_by_time", "operator_actions", ["at"])
