"""Tables of the store, for SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from opendrs.model import time_as_text, time_from_text


class UtcTime(TypeDecorator[datetime]):
    """A time: a timestamp with time zone; in SQLite, text that sorts like times.

    Results are not converted: the reader of a row reports which one is damaged.
    """

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the database."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401 - as SQLAlchemy declares it
        """Return *value* as the database stores it."""
        if value is None or dialect.name == "postgresql":
            return value
        return time_as_text(value)


def time_from_column(value: object) -> datetime:
    """Return the time in a column: a timestamp, or the text of SQLite.

    Raises:
        DamagedRecordError: It is no time.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return time_from_text(value)  # type: ignore[arg-type]  # reports other types


METADATA = MetaData()
_SERIAL = BigInteger().with_variant(Integer(), "sqlite")

ENTRIES = Table(
    "entries",
    METADATA,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)
STEPS = Table(
    "steps",
    METADATA,
    Column("id", _SERIAL, Identity(), primary_key=True),
    Column("run", String, nullable=False),
    Column("step", String, nullable=False),
    Column("action", Text, nullable=False),
    Column("intended_at", UtcTime, nullable=False),
    Column("task", Text),
    Column("ended_at", UtcTime),
    Column("outcome", String),
    Column("detail", Text, nullable=False),
    Column("load", Text),
    Column("rates", Text),
    Column("guest", String),
    Column("source", String),
    Column("target", String),
    UniqueConstraint("run", "step", name="steps_of_run"),
    Index("steps_by_start", "intended_at"),
    Index("steps_by_end", "ended_at"),
    Index("steps_by_guest", "guest"),
    Index("steps_by_source", "source"),
    Index("steps_by_target", "target"),
)
CYCLES = Table(
    "cycles",
    METADATA,
    Column("id", _SERIAL, Identity(), primary_key=True),
    Column("run", String, nullable=False),
    Column("decided_at", UtcTime, nullable=False),
    Column("policy", String, nullable=False, server_default=""),
    Column("reason", String, nullable=False, server_default=""),
    Column("detail", Text, nullable=False, server_default=""),
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("inputs", String, nullable=False, server_default="recent"),
    UniqueConstraint("run", name="cycle_of_run"),
    Index("cycles_by_time", "decided_at"),
    Index("cycles_by_inputs", "inputs", "id"),
)
CYCLE_PARTS = Table(
    "cycle_parts",
    METADATA,
    Column("cycle", BigInteger, primary_key=True, autoincrement=False),
    Column("part", String, primary_key=True),
    Column("base", BigInteger),
    Column("content", LargeBinary, nullable=False),
    Index("cycle_parts_by_base", "base"),
)
REQUESTS = Table(
    "requests",
    METADATA,
    Column("id", String, primary_key=True),
    Column("node", String, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("taken_at", UtcTime, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("interval", Float, nullable=False),
    Column("digest", String, nullable=False),
    Column("load_state", String, nullable=False),
    Column("evict", Text, nullable=False),
    Column("host_overhead", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("detail", Text, nullable=False),
    Column("run", String),
    Column("steps", Text, nullable=False),
    UniqueConstraint("node", "sequence", name="request_of_node"),
)
USAGE_HISTORIES = Table(
    "usage_histories",
    METADATA,
    Column("guest", String, primary_key=True),
    Column("node", String, primary_key=True),
    Column("taken_at", UtcTime, nullable=False),
    Column("interval", Float, nullable=False),
    Column("samples", Text, nullable=False),
    Column("is_current", Boolean, nullable=False),
    Index("usage_histories_by_time", "taken_at"),
    Index("usage_histories_by_node", "node"),
)
OPERATOR_ACTIONS = Table(
    "operator_actions",
    METADATA,
    Column("id", _SERIAL, Identity(), primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("user", String, nullable=False),
    Column("command", String, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("origin", String, nullable=False, server_default="cli"),
    Column("address", String),
    Column("token", String),
    Column("result", String, nullable=False, server_default="done"),
    Index("operator_actions_by_time", "at"),
)
PLANS = Table(
    "plans",
    METADATA,
    Column("id", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("lifetime", Float, nullable=False),
    Column("policy", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("reason_detail", Text, nullable=False),
    Column("steps", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("digest", String, nullable=False),
    Column("snapshot", String, nullable=False),
    Column("state", String, nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("detail", Text, nullable=False),
    Column("approval", Text),
    Index("plans_by_state", "state"),
    Index("plans_by_time", "created_at"),
)
EVENTS = Table(
    "events",
    METADATA,
    Column("id", _SERIAL, Identity(), primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("level", String, nullable=False),
    Column("code", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Index("events_by_time", "at"),
)
API_TOKENS = Table(
    "api_tokens",
    METADATA,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", String, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("single_use", Boolean, nullable=False),
    Column("last_used_at", UtcTime),
    Column("revoked_at", UtcTime),
)
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("sha256", String, primary_key=True),
    Column("token", String, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("sessions_by_end", "expires_at"),
    Index("sessions_by_token", "token"),
)
LEASES = Table(
    "leases",
    METADATA,
    Column("name", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)
