"""Audit of the commands of operators, and the state that they set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import delete, select

from opendrs.model import value_as_text
from opendrs.ports import OperatorAction, PlanRecord
from opendrs.store.database import DatabaseStore, upsert
from opendrs.store.plans import action_from_row, end_plans, record_action
from opendrs.store.tables import ENTRIES, OPERATOR_ACTIONS

OPERATOR_PREFIX = "operator/"  # of the keys that operators set


class OperatorStore:
    """State that operators set, with an audit of the commands that set it.

    A controller may run meanwhile: it reads the state in its next cycle. Methods may
    raise `StoreError`.

    Args:
        store: The store, opened with `Access.OPERATE` or `Access.CONTROL`.
        reader: The same store, to read with another connection; None for *store*.
    """

    def __init__(
        self, store: DatabaseStore, *, reader: DatabaseStore | None = None
    ) -> None:
        self._store = store
        self._reader = reader or store

    def change(
        self,
        action: OperatorAction,
        entries: Mapping[str, Mapping[str, object] | None],
        is_ended: Callable[[PlanRecord], bool] = lambda _: False,
    ) -> None:
        """Record *action*, and save the state that it sets, in one transaction.

        Args:
            action: The action.
            entries: New values by key; None deletes a key. Each key begins with
                `OPERATOR_PREFIX`.
            is_ended: Function that returns True for the open plans that *action* ends.

        Raises:
            ValueError: A key belongs to the controller.
        """
        if not all(key.startswith(OPERATOR_PREFIX) for key in entries):
            raise ValueError("expected keys that operators set")
        with self._store.transaction() as connection:
            record_action(connection, action)
            end_plans(connection, action, is_ended)
            for key, value in entries.items():
                if value is None:
                    connection.execute(delete(ENTRIES).where(ENTRIES.c.key == key))
                    continue
                statement = upsert(connection, ENTRIES, [ENTRIES.c.key])
                row = {"key": key, "value": value_as_text(value)}
                connection.execute(statement, row)

    def entries(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the values saved under keys that begin with *prefix*, by key."""
        return self._reader.load_all(prefix)

    def record(self, action: OperatorAction) -> None:
        """Record *action*, which has changed nothing."""
        with self._store.transaction() as connection:
            record_action(connection, action)

    def audit(
        self, limit: int, before: int | None = None
    ) -> tuple[tuple[int, OperatorAction], ...]:
        """Return the newest *limit* actions with their numbers, newest first.

        Args:
            limit: Number of actions.
            before: Only actions with a smaller number.
        """
        query = select(OPERATOR_ACTIONS).order_by(OPERATOR_ACTIONS.c.id.desc())
        if before is not None:
            query = query.where(OPERATOR_ACTIONS.c.id < before)
        return self._reader.read(
            query.limit(limit), lambda row: (int(row.id), action_from_row(row))
        )

    def actions(self, since: datetime | None = None) -> tuple[OperatorAction, ...]:
        """Return the actions at or after *since*, oldest first; None for all."""
        query = select(OPERATOR_ACTIONS).order_by(OPERATOR_ACTIONS.c.id)
        if since is not None:
            query = query.where(OPERATOR_ACTIONS.c.at >= since)
        return self._reader.read(query, action_from_row)
