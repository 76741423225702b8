"""Protocol of the store of a controller, and its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opendrs.model import Action, MigrationLoad, StepId
from opendrs.ports.platform import TaskId


class Outcome(StrEnum):
    """Outcome of a step."""

    DONE = "done"
    """The action was executed."""
    FAILED = "failed"
    """The platform could not execute the action."""
    ABORTED = "aborted"
    """The action was aborted: by the operator, or after the migration timeout."""
    REJECTED = "rejected"
    """The guard did not allow the step to start."""
    SKIPPED = "skipped"
    """The step was not started: a dependency failed, or the run was stopped."""
    LOST = "lost"
    """The outcome is unknown: the platform is unreachable or forgot the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRates:
    """Rates of a migration that the platform reported last; None if it did not.

    Attributes:
        bandwidth: Bytes transferred per second.
        dirty_rate: Bytes of memory that the guest wrote per second.
    """

    bandwidth: float | None = None
    dirty_rate: float | None = None


UNKNOWN_RATES = MigrationRates()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Record of one step of an execution.

    Attributes:
        run: Run of `apply` or of the controller that it belongs to.
        step: Id in the plan.
        action: The action.
        intended_at: Time at which the start was decided; written before the start.
        task: Task id of the platform; None until it is known.
        ended_at: Time at which the outcome was observed.
        outcome: Outcome; None until it is known.
        detail: Reason of the outcome, for the operator.
        load: Measured use before the start of a migration; None if unknown.
        rates: Rates of a migration, written with its outcome.
    """

    run: str
    step: StepId
    action: Action
    intended_at: datetime
    task: TaskId | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    detail: str = ""
    load: MigrationLoad | None = None
    rates: MigrationRates = UNKNOWN_RATES


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRecord:
    """Record of the decision of one cycle.

    Attributes:
        run: Run of the execution of its plan.
        decided_at: Time of the decision.
        document: Policy, settings, snapshot, memory and decision; valid JSON.
    """

    run: str
    decided_at: datetime
    document: Mapping[str, object]


class ActionOrigin(StrEnum):
    """Origin of an action in the audit. The values are stable."""

    CLI = "cli"
    """A command on a machine."""
    API = "api"
    """A request to the HTTP API."""
    CONTROLLER = "controller"
    """The controller itself."""


DONE = "done"  # result of an action that had its effect


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """A command of an operator, as the audit records it.

    Attributes:
        at: Time of the action.
        user: User of the machine that ran the command, or name of the token.
        command: Name of the command, such as `drain`.
        arguments: Arguments of the command; valid JSON.
        origin: Where the command came from.
        address: Network address of the client of the API; None without one.
        token: Id of the token of the API; None without one.
        result: `done`, or the code of the problem if nothing has changed.
    """

    at: datetime
    user: str
    command: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    origin: ActionOrigin = ActionOrigin.CLI
    address: str | None = None
    token: str | None = None
    result: str = DONE


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Process that holds the lease of a store.

    Attributes:
        host: Name of its machine.
        pid: Its process id; 0 if unknown.
    """

    host: str
    pid: int


class Store(Protocol):
    """Store of a controller. Methods may raise `StoreError`.

    Data is safe from a crash before the method returns.
    """

    def require_lease(self) -> None:
        """Check that no other process can have acquired the right to start steps.

        Called between the record of an intention and the start, and before an abort.
        The check is local: it covers a process that was suspended in between.

        Raises:
            LeaseLostError: The right of this process may have expired.
        """

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return the value saved under *key*, or None."""

    def load_all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return the values saved under keys that begin with *prefix*, by key."""

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value*, which must be valid JSON, under *key*."""

    def replace(
        self, key: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> bool:
        """Save *after* under *key* if the saved value is *before*.

        An operator may have changed or deleted an entry since it was read.

        Returns:
            False if the saved value is another one; nothing has changed then.
        """

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the record of the same run and step."""

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, the oldest first."""

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended or ended at or after *since*.

        They are ordered by `intended_at`. A step that was recovered after a restart may
        end long after it was intended.
        """

    def correct_times(self, now: datetime) -> int:
        """Set the recorded times that are after *now* to *now*.

        Such times were recorded while the clock was ahead. Samples of agents are set to
        the time just before all actions.

        Returns:
            Number of entries that were corrected.
        """

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the records of *run*, the oldest first."""

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Store the record of a cycle; old records are reduced and deleted."""

    def cycles(self) -> Iterator[CycleRecord]:
        """Yield the records of cycles that are stored in full, the oldest first.

        Each is read when it is needed: a record may occupy 100 MiB.
        """


class SharedStore(Store, Protocol):
    """Store that a controller may be using in another process."""

    def lease_holder(self) -> LeaseHolder | None:
        """Return the process that holds the lease; None if none does."""
