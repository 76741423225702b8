"""Cycles in parts, of which inputs are differences; columns that the history reads.

The format of a part without a base is zlib over JSON, and remains so.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the tables and columns, and divide the documents of the cycles."""
    for name in ("guest", "source", "target"):
        op.add_column("steps", sa.Column(name, sa.String))
        op.create_index(f"steps_by_{name}", "steps", [name])
    for name, kind, default in (
        ("policy", sa.String, ""),
        ("reason", sa.String, ""),
        ("detail", sa.Text, ""),
        ("steps", sa.Integer, "0"),
        ("inputs", sa.String, "recent"),
    ):
        column = sa.Column(name, kind, nullable=False, server_default=default)
        op.add_column("cycles", column)
    op.create_index("cycles_by_time", "cycles", ["decided_at"])
    op.create_index("cycles_by_inputs", "cycles", ["inputs", "id"])
    op.create_table(
        "cycle_parts",
        sa.Column("cycle", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("part", sa.String, primary_key=True),
        sa.Column("base", sa.BigInteger),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_index("cycle_parts_by_base", "cycle_parts", ["base"])
    connection = op.get_bind()
    _fill_steps(connection)
    _divide_cycles(connection)
    op.drop_column("cycles", "document")


_STEPS = sa.table(
    "steps", *map(sa.column, ("id", "action", "guest", "source", "target"))
)
_CYCLES = sa.table(
    "cycles",
    *map(sa.column, ("id", "document", "policy", "reason", "detail", "steps")),
)
_PARTS = sa.table("cycle_parts", *map(sa.column, ("cycle", "part", "content")))


def _fill_steps(connection: sa.Connection) -> None:
    """Set the guest and the nodes of each step; a damaged one remains without."""
    for row in connection.execute(sa.select(_STEPS.c.id, _STEPS.c.action)).all():
        try:
            action = json.loads(row.action)
            named = {name: action.get(name) for name in ("guest", "source", "target")}
            named["target"] = named["target"] or action.get("node")
        except (AttributeError, TypeError, ValueError):
            continue
        if all(value is None or isinstance(value, str) for value in named.values()):
            this = _STEPS.c.id == row.id
            connection.execute(sa.update(_STEPS).where(this).values(named))


def _divide_cycles(connection: sa.Connection) -> None:
    for cycle in list(connection.scalars(sa.select(_CYCLES.c.id))):
        this = _CYCLES.c.id == cycle
        content = connection.scalar(sa.select(_CYCLES.c.document).where(this))
        columns, parts = _divided(content)
        if columns:
            connection.execute(sa.update(_CYCLES).where(this).values(columns))
        rows = [
            {"cycle": cycle, "part": name, "content": part}
            for name, part in parts.items()
        ]
        connection.execute(sa.insert(_PARTS), rows)


def _divided(content: Any) -> tuple[dict[str, Any], dict[str, bytes]]:  # noqa: ANN401
    """Return the columns and the parts of a cycle; a damaged one is kept as it is."""
    try:
        other = json.loads(zlib.decompress(content))
        decision = other.get("decision")
        parts: dict[str, Any] = {}
        if isinstance(decision, dict):
            parts["decision"], other["decision"] = decision, None
        snapshot = other.get("snapshot")
        for name in ("nodes", "guests"):
            if isinstance(snapshot, dict) and isinstance(snapshot.get(name), dict):
                parts[name], snapshot[name] = snapshot[name], None
    except (AttributeError, TypeError, ValueError, zlib.error):
        raw = content if isinstance(content, bytes) else str(content).encode()
        return {}, {"other": raw}
    columns: dict[str, Any] = {}
    if isinstance(decision, dict):
        for name in ("policy", "reason", "detail"):
            columns[name] = str(decision.get(name, ""))
        steps = decision.get("steps")
        columns["steps"] = len(steps) if isinstance(steps, list) else 0
    parts["other"] = other
    encoded = {
        name: zlib.compress(json.dumps(part).encode()) for name, part in parts.items()
    }
    return columns, encoded
