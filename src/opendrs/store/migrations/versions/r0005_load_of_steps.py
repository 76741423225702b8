"""The load before each migration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; it is unknown for recorded steps."""
    op.add_column("steps", sa.Column("load", sa.Text))
