"""The record of a controller, read by plain SQL.

It imports nothing of opendrs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from soak.invariants import Action, Key

Row = tuple[Any, ...]
BREAKER_KEY = "operator/breaker"


class Database(Protocol):
    """A database that is asked in SQL."""

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return the rows of *query*, in which ? stands for each parameter."""


class SqliteDatabase:
    """A file.

    Args:
        path: The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return the rows of *query*; none without the file or the table."""
        if not self._path.exists():
            return []
        with closing(sqlite3.connect(self._path, isolation_level=None)) as database:
            try:
                return database.execute(query, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise


class PostgresqlDatabase:
    """A database of a server.

    Args:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return the rows of *query*; none as long as there is no such table."""
        import psycopg  # noqa: PLC0415 - an optional dependency

        statement = query.replace("?", "%s").encode()
        with psycopg.connect(self._url, autocommit=True) as connection:
            try:
                return connection.execute(statement, parameters).fetchall()
            except psycopg.errors.UndefinedTable:
                return []


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """A plan in the record.

    Attributes:
        id: Its id.
        policy: The policy that decided it.
        reason: Code of its reason.
        state: Its state.
        steps: The action of each step.
    """

    id: str
    policy: str
    reason: str
    state: str
    steps: Mapping[str, Action]


class Record:
    """Rows that controllers and operators have written.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def leader(self) -> int | None:
        """Return the process that was the last one to acquire the lease."""
        rows = self._database.rows("SELECT holder FROM leases")
        return int(rows[0][0].split(":")[-2]) if rows else None

    def outcomes(self) -> dict[Key, str | None]:
        """Return the outcome of each step."""
        rows = self._database.rows("SELECT run, step, outcome FROM steps")
        return {(run, step): outcome for run, step, outcome in rows}

    def action(self, key: Key) -> Action:
        """Return the action of a step."""
        query = "SELECT action FROM steps WHERE run = ? AND step = ?"
        ((text,),) = self._database.rows(query, *key)
        return _action(text)

    def plan_of(self, run: str, step: str) -> RecordedPlan | None:
        """Return the plan of *run* with this step, or None.

        The steps that start by themselves and those that wait are two plans of a run.
        """
        plans = self._plans("run", run)
        return next((plan for plan in plans if step in plan.steps), None)

    def plan(self, name: str) -> RecordedPlan | None:
        """Return the plan with the id *name*, or None."""
        return next(iter(self._plans("id", name)), None)

    def plan_states(self) -> dict[str, str]:
        """Return the state of each plan, by id."""
        return dict(self._database.rows("SELECT id, state FROM plans"))

    def proposed_moves(self) -> dict[str, frozenset[tuple[str, str]]]:
        """Return the guests and targets of each proposed plan, by run."""
        query = "SELECT run, steps FROM plans WHERE state = ?"
        found = {}
        for run, steps in self._database.rows(query, "proposed"):
            actions = (_action(text) for _, text, *_ in json.loads(steps))
            found[run] = frozenset((guest, target) for _, guest, _, target in actions)
        return found

    def is_breaker_open(self) -> bool:
        """Return whether the circuit breaker is open."""
        query = "SELECT value FROM entries WHERE key = ?"
        return bool(self._database.rows(query, BREAKER_KEY))

    def operator_actions(self) -> int:
        """Return the number of recorded commands of operators."""
        rows = self._database.rows("SELECT count(*) FROM operator_actions")
        return int(rows[0][0]) if rows else 0

    def _plans(self, column: str, value: str) -> list[RecordedPlan]:
        query = "SELECT id, policy, reason, state, steps FROM plans WHERE "
        rows = self._database.rows(f"{query}{column} = ?", value)
        found = []
        for name, policy, reason, state, steps in rows:
            actions = {step: _action(text) for step, text, *_ in json.loads(steps)}
            found.append(RecordedPlan(name, policy, reason, state, actions))
        return found


def _action(text: str) -> Action:
    plain = json.loads(text)
    node = plain.get("node", "")
    return (
        plain["kind"],
        plain.get("guest", ""),
        plain.get("source", node),
        plain.get("target", node),
    )
