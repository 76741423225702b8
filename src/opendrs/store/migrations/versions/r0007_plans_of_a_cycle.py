"""Several plans of one cycle: steps that start, and steps that wait for approval."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Remove the constraint that a cycle has one plan."""
    with op.batch_alter_table("plans") as plans:
        plans.drop_constraint("plan_of_run", type_="unique")
