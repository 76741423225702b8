"""Store in a database, for SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    Update,
    case,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from opendrs.errors import StoreError
from opendrs.escapes import escape_line
from opendrs.model import (
    Action,
    DamagedRecordError,
    PowerOff,
    PowerOn,
    StepId,
    action_as_text,
    action_from_text,
    decoding,
    load_as_text,
    load_from_text,
    require_type,
    value_as_text,
    value_from_text,
)
from opendrs.ports import (
    UNKNOWN_RATES,
    CycleRecord,
    MigrationRates,
    Outcome,
    StepRecord,
    TaskId,
)
from opendrs.store.cycle_records import (
    DEFAULT_RETENTION,
    Base,
    CycleReader,
    Retention,
    add_cycle,
    compact,
    cycles_with_inputs,
)
from opendrs.store.tables import (
    CYCLES,
    ENTRIES,
    EVENTS,
    OPERATOR_ACTIONS,
    PLANS,
    REQUESTS,
    STEPS,
    USAGE_HISTORIES,
    time_from_column,
)

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

T = TypeVar("T")


class Access(Enum):
    """Use of a store by a process."""

    READ = auto()
    """It reads; other processes may write meanwhile."""
    OPERATE = auto()
    """It records the commands of an operator; a controller may run meanwhile."""
    CONTROL = auto()
    """It starts steps: one process at a time, which holds the lease."""


_STEPS = select(STEPS).order_by(STEPS.c.intended_at, STEPS.c.id)


class DatabaseStore:
    """Implementation of `opendrs.ports.Store` in a database.

    Threads may share it. Each method returns after its changes are durable.

    Args:
        name: Name of the database for error messages.
        retention: Extent of the record of cycles.
    """

    def __init__(self, name: str, retention: Retention = DEFAULT_RETENTION) -> None:
        self._name = name
        self._retention = retention
        self._base: Base | None = None
        self._engine: Engine | None = None

    @property
    def retention(self) -> Retention:
        """Return the extent of the record."""
        return self._retention

    def require_lease(self) -> None:
        """Do nothing: no other process can acquire the right to start steps."""

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return the value saved under *key*, or None."""
        query = select(ENTRIES.c.value).where(ENTRIES.c.key == key)
        values = self.read(query, lambda row: value_from_text(row.value))
        return values[0] if values else None

    def load_all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the values saved under keys that begin with *prefix*, by key."""
        query = (
            select(ENTRIES)
            .where(ENTRIES.c.key.startswith(prefix, autoescape=True))
            .order_by(ENTRIES.c.key)
        )
        return dict(self.read(query, lambda row: (row.key, value_from_text(row.value))))

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value* under *key*."""
        row = {"key": key, "value": value_as_text(value)}
        with self.transaction() as connection:
            connection.execute(upsert(connection, ENTRIES, [ENTRIES.c.key]), row)

    def replace(
        self, key: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> bool:
        """Save *after* under *key* if the saved value is *before*."""
        this = ENTRIES.c.key == key
        with self.transaction() as connection:
            query = select(ENTRIES.c.value).where(this).with_for_update()
            saved = connection.execute(query).scalar()
            if saved is None or value_from_text(saved) != before:
                return False
            values = {"value": value_as_text(after)}
            connection.execute(update(ENTRIES).where(this).values(values))
            return True

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""
        with self.transaction() as connection:
            statement = upsert(connection, STEPS, [STEPS.c.run, STEPS.c.step])
            connection.execute(statement, _to_row(record))

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, oldest first."""
        return self._records(_STEPS.where(STEPS.c.outcome.is_(None)))

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended or ended at or after *since*."""
        times = STEPS.c.intended_at >= since, STEPS.c.ended_at >= since
        return self._records(_STEPS.where(or_(*times)))

    def correct_times(self, now: datetime) -> int:
        """Set recorded times after *now* to *now*; return the number of changes."""
        before = now - timedelta(microseconds=1)
        changes = (
            (STEPS, {"intended_at": now, "ended_at": now}),
            (CYCLES, {"decided_at": now}),
            (EVENTS, {"at": now}),
            (OPERATOR_ACTIONS, {"at": now}),
            (PLANS, {"created_at": now, "changed_at": now}),
            (REQUESTS, {"taken_at": before, "received_at": now}),
            (USAGE_HISTORIES, {"taken_at": before}),
        )
        with self.transaction() as connection:
            return sum(
                connection.execute(_correction(table, limits, now)).rowcount
                for table, limits in changes
            )

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the records of *run*, oldest first."""
        return self._records(_STEPS.where(STEPS.c.run == run))

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Add the record of a cycle; drop what the retention does not keep."""
        with self.transaction() as connection:
            base = add_cycle(connection, cycle, self._base)
            compact(connection, self._retention, cycle.decided_at, base)
        self._base = base

    def cycles(
        self,
        *,
        run: str | None = None,
        last: int | None = None,
        since: datetime | None = None,
    ) -> Iterator[CycleRecord]:
        """Yield the records of cycles with inputs, oldest first, each when needed.

        Args:
            run: Only the cycle with this name.
            last: Only so many of the newest ones.
            since: Only those decided at or after this time.
        """
        reader = CycleReader()
        with self.reading() as connection:
            ids = cycles_with_inputs(connection, run, last, since)
        for each in ids:
            with self.reading() as connection:
                record = reader.record(connection, each)
            if record is not None:  # not dropped meanwhile
                yield record

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, rolled back after an error.

        Raises:
            StoreError: The store is not open, or a statement failed.
        """
        with self._begin() as connection:
            yield connection

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._translate_errors():
            if self._engine is None:
                raise StoreError(f"{self._name}: not open")
            with self._engine.begin() as connection:
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that only reads.

        Raises:
            StoreError: The store is not open, or a statement failed.
        """
        with self._begin() as connection:
            yield connection

    def read(
        self, query: Select[Any], decode: Callable[[Row[Any]], T]
    ) -> tuple[T, ...]:
        """Return the rows of *query*, decoded by *decode*.

        Raises:
            StoreError: The store is not open, or cannot be read, or a row is damaged.
        """
        with self.reading() as connection:
            with decoding("values of the declared types", "others"):
                rows = connection.execute(query).all()
            return tuple(map(decode, rows))

    def _records(self, query: Select[Any]) -> tuple[StepRecord, ...]:
        return self.read(query, step_from_row)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Convert the errors of the database to `StoreError`."""
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"{self._name}: {_error_detail(error)}") from error
        except (SQLAlchemyError, UnicodeError) as error:
            raise StoreError(f"{self._name}: {escape_line(str(error))}") from error
        except DamagedRecordError as error:
            raise StoreError(f"{self._name}: {error}") from error


def _error_detail(error: DBAPIError) -> str:
    """Return the message of the database, without the statement and its values."""
    return escape_line(str(error.orig).strip())


def upsert(
    connection: Connection,
    table: Table,
    keys: Sequence[Column[Any]],
    *,
    keeping: Collection[str] = (),
) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that replaces the row with the same *keys*.

    Args:
        connection: The connection, which determines the dialect.
        table: The table.
        keys: Columns with a common unique constraint.
        keeping: Columns of an existing row that are not replaced.
    """
    statement = _insert(connection, table)
    skipped = {*keeping, *(key.name for key in keys)}
    replaced = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if column.name not in skipped and not column.identity
    }
    return statement.on_conflict_do_update(index_elements=keys, set_=replaced)


def add_new(
    connection: Connection, table: Table, key: Column[Any], row: Mapping[str, object]
) -> bool:
    """Add *row* to *table*; return False if a row has the same *key*."""
    statement = _insert(connection, table).on_conflict_do_nothing(index_elements=[key])
    added = connection.execute(statement.values(row).returning(key))
    return added.first() is not None


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT in the dialect of *connection*."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - a store in SQLite has none

    return postgresql.insert(table)


def _correction(table: Table, limits: Mapping[str, datetime], now: datetime) -> Update:
    """Return an UPDATE that sets times after *now* to the given limits."""
    columns = {table.c[name]: limit for name, limit in limits.items()}
    changes = {
        column: case((column > now, literal(limit, column.type)), else_=column)
        for column, limit in columns.items()
    }
    return (
        update(table).where(or_(*(column > now for column in columns))).values(changes)
    )


def _to_row(record: StepRecord) -> dict[str, object]:
    return {
        "run": record.run,
        "step": record.step,
        "action": action_as_text(record.action),
        "intended_at": record.intended_at,
        "task": record.task,
        **_subjects(record.action),
        "ended_at": record.ended_at,
        "outcome": None if record.outcome is None else record.outcome.value,
        "detail": record.detail,
        "load": None if record.load is None else load_as_text(record.load),
        "rates": _rates_as_text(record.rates),
    }


def _subjects(action: Action) -> dict[str, str | None]:
    """Return the columns by which the history finds a step."""
    if isinstance(action, PowerOn | PowerOff):
        return {"guest": None, "source": None, "target": action.node}
    return {"guest": action.guest, "source": action.source, "target": action.target}


def step_from_row(row: Row[Any]) -> StepRecord:
    """Return the record of a step.

    Raises:
        DamagedRecordError: The row is damaged.
    """
    with decoding("a step", [row.run, row.step]):
        texts = row.run, row.step, row.detail, "" if row.task is None else row.task
        require_type(str, texts)
        return StepRecord(
            run=row.run,
            step=StepId(row.step),
            action=action_from_text(row.action),
            intended_at=time_from_column(row.intended_at),
            task=None if row.task is None else TaskId(row.task),
            ended_at=None if row.ended_at is None else time_from_column(row.ended_at),
            outcome=None if row.outcome is None else Outcome(row.outcome),
            detail=row.detail,
            load=None if row.load is None else load_from_text(row.load),
            rates=_rates_from_text(row.rates),
        )


def _rates_as_text(rates: MigrationRates) -> str | None:
    if rates == UNKNOWN_RATES:
        return None
    values = (rates.bandwidth, rates.dirty_rate)
    return json.dumps([None if each is None else float(each) for each in values])


def _rates_from_text(text: str | None) -> MigrationRates:
    if text is None:
        return UNKNOWN_RATES
    bandwidth, dirty_rate = json.loads(text)
    known = [rate for rate in (bandwidth, dirty_rate) if rate is not None]
    require_type(float, known)
    return MigrationRates(bandwidth=bandwidth, dirty_rate=dirty_rate)
