"""Plans as objects with a state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "plans",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("lifetime", sa.Float, nullable=False),
        sa.Column("policy", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("reason_detail", sa.Text, nullable=False),
        sa.Column("steps", sa.Text, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("snapshot", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("changed_at", _TIME, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("approval", sa.Text),
        sa.UniqueConstraint("run", name="plan_of_run"),
    )
    op.create_index("plans_by_state", "plans", ["state"])
    op.create_index("plans_by_time", "plans", ["created_at"])
