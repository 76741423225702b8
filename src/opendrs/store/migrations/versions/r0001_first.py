"""The first tables that Alembic manages.

SQLite files of the versions before are converted by `opendrs.store.former_versions`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "entries",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "steps",
        sa.Column("id", _SERIAL, sa.Identity(), primary_key=True),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("step", sa.String, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("intended_at", _TIME, nullable=False),
        sa.Column("task", sa.Text),
        sa.Column("ended_at", _TIME),
        sa.Column("outcome", sa.String),
        sa.Column("detail", sa.Text, nullable=False),
        sa.UniqueConstraint("run", "step", name="steps_of_run"),
    )
    op.create_index("steps_by_start", "steps", ["intended_at"])
    op.create_index("steps_by_end", "steps", ["ended_at"])
    op.create_table(
        "cycles",
        sa.Column("id", _SERIAL, sa.Identity(), primary_key=True),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("decided_at", _TIME, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("run", name="cycle_of_run"),
    )
    op.create_table(
        "requests",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("taken_at", _TIME, nullable=False),
        sa.Column("received_at", _TIME, nullable=False),
        sa.Column("interval", sa.Float, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("load_state", sa.String, nullable=False),
        sa.Column("evict", sa.Text, nullable=False),
        sa.Column("host_overhead", sa.Text, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("run", sa.String),
        sa.Column("steps", sa.Text, nullable=False),
        sa.UniqueConstraint("node", "sequence", name="request_of_node"),
    )
    op.create_table(
        "usage_histories",
        sa.Column("guest", sa.String, primary_key=True),
        sa.Column("node", sa.String, primary_key=True),
        sa.Column("taken_at", _TIME, nullable=False),
        sa.Column("interval", sa.Float, nullable=False),
        sa.Column("samples", sa.Text, nullable=False),
        sa.Column("is_current", sa.Boolean, nullable=False),
    )
    op.create_index("usage_histories_by_time", "usage_histories", ["taken_at"])
    op.create_index("usage_histories_by_node", "usage_histories", ["node"])
    op.create_table(
        "leases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )
