"""Protocol of the state that operators set, and of the audit of their commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from opendrs.ports.plan_store import PlanRecord
from opendrs.ports.store import OperatorAction


class OperatorRecord(Protocol):
    """State that operators set, with the audit. Methods may raise `StoreError`."""

    def change(
        self,
        action: OperatorAction,
        entries: Mapping[str, Mapping[str, object] | None],
        is_ended: Callable[[PlanRecord], bool] = ...,
    ) -> None:
        """Record *action*, and save the state that it sets, in one transaction.

        Args:
            action: The action.
            entries: New values by key; None deletes a key.
            is_ended: Function that returns True for the open plans that *action* ends.
        """

    def record(self, action: OperatorAction) -> None:
        """Record *action*, which has changed nothing: its result is an error."""

    def entries(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the values saved under keys that begin with *prefix*, by key."""

    def audit(
        self, limit: int, before: int | None = None
    ) -> tuple[tuple[int, OperatorAction], ...]:
        """Return the newest *limit* actions with their numbers, newest first.

        Args:
            limit: Number of actions.
            before: Only actions with a smaller number.
        """
