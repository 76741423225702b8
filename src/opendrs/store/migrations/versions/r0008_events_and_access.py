"""Events of the controller, tokens and sessions, and the origin of actions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.TIMESTAMP(timezone=True).with_variant(sa.String(), "sqlite")

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables, and add the columns."""
    op.create_table(
        "events",
        sa.Column("id", _SERIAL, sa.Identity(), primary_key=True),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("level", sa.String, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
    )
    op.create_index("events_by_time", "events", ["at"])
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", sa.String, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.Column("single_use", sa.Boolean, nullable=False),
        sa.Column("last_used_at", _TIME),
        sa.Column("revoked_at", _TIME),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String, primary_key=True),
        sa.Column("token", sa.String, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )
    op.create_index("sessions_by_end", "sessions", ["expires_at"])
    op.create_index("sessions_by_token", "sessions", ["token"])
    for column in (
        sa.Column("origin", sa.String, nullable=False, server_default="cli"),
        sa.Column("address", sa.String),
        sa.Column("token", sa.String),
        sa.Column("result", sa.String, nullable=False, server_default="done"),
    ):
        op.add_column("operator_actions", column)
