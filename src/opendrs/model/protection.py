"""Protection of a cluster from its own controller: budgets, circuit breaker, undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from opendrs.errors import ModelError
from opendrs.model.identifiers import NodeId
from opendrs.model.limits import MAX_DURATION
from opendrs.model.plan import Transfer
from opendrs.model.quantities import Bytes, Seconds
from opendrs.model.resources import Usage


class BudgetScope(StrEnum):
    """Part of the cluster that a budget counts the migrations of."""

    CLUSTER = "cluster"
    """All migrations count together."""
    NODE = "node"
    """The migrations from or to each node count separately."""
    NETWORK = "network"
    """The migrations over each network of the limits count separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationBudget:
    """Most that may be migrated within a time.

    Attributes:
        window: Seconds before a start within which migrations count.
        migrations: Most migrations; None for no limit.
        memory: Most memory of migrated guests in bytes; None for no limit.
        per: Part of the cluster that the budget is for.

    Raises:
        ModelError: A value is out of range, or nothing is limited.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    window: Seconds
    migrations: int | None = None
    memory: Bytes | None = None
    per: BudgetScope = BudgetScope.CLUSTER

    def __post_init__(self) -> None:
        _require_duration("window", self.window)
        if self.migrations is None and self.memory is None:
            raise ModelError("budget: expected migrations, memory, or both")
        for name in ("migrations", "memory"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ModelError(f"{name}: expected at least 1, got {value}")


# Tasks of Proxmox VE that load a node as a whole, and general names.
DEFAULT_JOBS = (
    "backup",
    "migrateall",
    "replication",
    "resilver",
    "startall",
    "stopall",
    "suspendall",
    "update",
    "vzdump",
)

MAX_RETRY_DELAY = 14_400.0  # seconds; a longer `retry_delay` does not grow


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Protection against a controller that does harm, table `[protection]`.

    Attributes:
        max_failures: Failures within `failure_window` that open the circuit breaker.
        failure_window: Seconds in which failures count.
        max_api_errors: Failed requests to the platform within `api_error_window` that
            open the API circuit breaker.
        api_error_window: Seconds in which failed requests count.
        api_recovery_time: Seconds without a failed request that close it.
        undo_horizon: Seconds in which a guest is not migrated back to a node that it
            left, unless the load of the nodes has changed by more than `noise`.
        noise: Change of the load, as a fraction of the capacity of a node, that is
            within normal variation.
        retry_delay: Seconds in which a guest whose migration failed or timed out is
            migrated only to repair a strict rule or to drain its node, and to another
            target. They double with each further failure in a row, up to four hours.
        max_migrations_per_cycle: Most migrations that all plans start from the start of
            one cycle to that of the next; None for no limit.
        stand_back_jobs: Jobs of the platform during which a node receives no guests
            and the guests on it stay.
        budgets: Budgets for all migrations.

    Raises:
        ModelError: A value is out of range.
    """

    max_failures: int = 5
    failure_window: Seconds = 3600.0
    max_api_errors: int = 10
    api_error_window: Seconds = 600.0
    api_recovery_time: Seconds = 300.0
    undo_horizon: Seconds = 14_400.0
    noise: float = 0.1
    retry_delay: Seconds = 3600.0
    max_migrations_per_cycle: int | None = None
    stand_back_jobs: tuple[str, ...] = DEFAULT_JOBS
    budgets: tuple[MigrationBudget, ...] = ()

    def __post_init__(self) -> None:
        for name in ("failure_window", "api_error_window", "api_recovery_time"):
            _require_duration(name, getattr(self, name))
        for name in ("undo_horizon", "retry_delay"):
            if not 0 <= getattr(self, name) <= MAX_DURATION:
                raise ModelError(
                    f"{name}: expected 0 to {MAX_DURATION:.0e} s, got "
                    f"{getattr(self, name):g}"
                )
        if not 0 <= self.noise <= 1:
            raise ModelError(
                f"noise: expected a fraction from 0 to 1, got {self.noise:g}"
            )
        for name in ("max_failures", "max_api_errors", "max_migrations_per_cycle"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ModelError(f"{name}: expected at least 1, got {value}")

    @property
    def longest_window(self) -> float:
        """Return the seconds for which past steps matter."""
        windows = (budget.window for budget in self.budgets)
        return max(self.failure_window, self.undo_horizon, *windows)

    def retry_delay_after(self, failures: int) -> Seconds:
        """Return the seconds without a retry after so many *failures* in a row."""
        doubled = self.retry_delay * 2.0 ** min(failures - 1, 10)
        return max(self.retry_delay, min(doubled, MAX_RETRY_DELAY))


@dataclass(frozen=True, slots=True)
class MigrationLoad:
    """Measured use before the start of a migration.

    Attributes:
        guest: Use of the guest.
        source: Use of the source node, with the guest.
        target: Use of the target node, without the guest.
    """

    guest: Usage
    source: Usage
    target: Usage


@dataclass(frozen=True, slots=True)
class PastMigration:
    """A migration that was started.

    Attributes:
        migration: The migration.
        at: Time of its start.
        load: Use before the start; None if it was not recorded.
    """

    migration: Transfer
    at: datetime
    load: MigrationLoad | None = None


@dataclass(frozen=True, slots=True)
class FailedMigration:
    """The last migration of a guest, or move of one of its disks, which failed.

    Attributes:
        migration: The migration or the move of the disk.
        at: Time of its end.
        detail: Why it failed, for the operator.
        targets: Targets of this migration and of those that failed before it in a row;
            none for a disk.
        failures: Number of these migrations or moves.
    """

    migration: Transfer
    at: datetime
    detail: str
    targets: frozenset[NodeId]
    failures: int = 1


def _require_duration(name: str, seconds: float) -> None:
    if not 0 < seconds <= MAX_DURATION:
        raise ModelError(
            f"{name}: expected more than 0 and at most {MAX_DURATION:.0e} s, got "
            f"{seconds:g}"
        )


DEFAULT_PROTECTION = Protection()
