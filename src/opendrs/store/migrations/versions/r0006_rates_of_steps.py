"""The bandwidth and dirty rate of each migration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; it is unknown for recorded steps."""
    op.add_column("steps", sa.Column("rates", sa.Text))
