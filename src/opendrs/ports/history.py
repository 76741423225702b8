"""Protocol of the reader of the history: cycles and started steps, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from opendrs.ports.store import CycleRecord, StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Selection of entries of the history; None for no restriction.

    Attributes:
        since: Earliest time.
        until: Latest time.
        guest: Only moves of this guest.
        node: Only moves from or to this node, or its power actions.
    """

    since: datetime | None = None
    until: datetime | None = None
    guest: str | None = None
    node: str | None = None

    @property
    def names_subject(self) -> bool:
        """Return True if only some guest or node is selected."""
        return self.guest is not None or self.node is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSummary:
    """A cycle without its inputs.

    Attributes:
        id: Number of the cycle, which increases.
        run: Name of the execution of its plan.
        decided_at: Time of the decision.
        policy: Name of the policy.
        reason: Code of the reason.
        detail: The reason as a sentence.
        steps: Number of steps of its plan.
        inputs: State of its inputs: `recent`, `kept` or `dropped`.
    """

    id: int
    run: str
    decided_at: datetime
    policy: str
    reason: str
    detail: str
    steps: int
    inputs: str


class HistoryReader(Protocol):
    """Reader of the history of a store. Methods may raise `StoreError`."""

    def cycles(
        self,
        chosen: HistoryFilter,
        *,
        with_plan: bool = False,
        before: int | None = None,
    ) -> Iterator[CycleSummary]:
        """Yield the cycles of the selected time, newest first.

        Args:
            chosen: The selection. With a guest or node, only cycles whose plan
                concerns it.
            with_plan: Only cycles with a plan.
            before: Only cycles with a smaller number.
        """

    def steps(self, chosen: HistoryFilter, limit: int) -> tuple[StepRecord, ...]:
        """Return the newest *limit* selected steps, newest first."""

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the started steps of *run*, oldest first."""

    def cycle_of(self, run: str) -> CycleSummary | None:
        """Return the cycle with this run, or None."""

    def newest(self, at: datetime | None = None) -> CycleSummary | None:
        """Return the newest cycle, decided at or before *at* if given."""

    def decision(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the decision of *cycle* as plain values; empty if none is stored."""

    def nodes(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the nodes of *cycle* as plain values; empty if dropped."""

    def estimates(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the estimated seconds of the steps of *cycle*; empty if dropped."""

    def record(self, cycle: CycleSummary) -> CycleRecord | None:
        """Return the complete record of *cycle*; None if its inputs are dropped."""

    def next_with_inputs(self, time: datetime) -> CycleSummary | None:
        """Return the first cycle after *time*, if it has its inputs."""
