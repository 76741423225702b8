"""Budgets: the most that may be migrated within an hour or a day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from opendrs.guard.rejection import Rejection, RejectionReason
from opendrs.guard.storage import copied_bytes
from opendrs.model import (
    BudgetScope,
    DiskMove,
    Limits,
    MigrationBudget,
    PastMigration,
    Protection,
    Snapshot,
    Transfer,
    format_count,
    format_memory,
)


def check_budgets(
    migrations: Sequence[Transfer],
    snapshot: Snapshot,
    past: Sequence[PastMigration],
    limits: Limits,
    protection: Protection,
) -> Rejection | None:
    """Return why *migrations* would exceed a budget, or None.

    Args:
        migrations: Migrations and moves of disks that would start now.
        snapshot: Current state of the cluster, with their guests.
        past: Migrations that were started within the longest window.
        limits: Contains the networks.
        protection: Contains the budgets.
    """
    for budget in protection.budgets:
        oldest = snapshot.taken_at - timedelta(seconds=budget.window)
        recent = (each for each in past if each.at > oldest)
        earlier = ((each.migration, _memory(each, snapshot)) for each in recent)
        now = ((each, _guest_memory(each, snapshot)) for each in migrations)
        spent = _total(earlier, budget.per, limits)
        starting = _total(now, budget.per, limits)
        for part, amount in sorted(starting.items()):
            detail = _excess(budget, spent.get(part, NOTHING), amount)
            if detail is not None:
                prefix = f"{part}: " if part else ""
                return Rejection(RejectionReason.BUDGET_EXCEEDED, prefix + detail)
    return None


@dataclass(frozen=True, slots=True)
class _Amount:
    """Migrations, and the bytes of memory and local disks that they transfer."""

    migrations: int = 0
    memory: int = 0


NOTHING = _Amount()


def _total(
    migrations: Iterable[tuple[Transfer, int]], per: BudgetScope, limits: Limits
) -> dict[str, _Amount]:
    """Return the amount for each part of the cluster that a budget counts."""
    total: dict[str, _Amount] = {}
    for migration, memory in migrations:
        for part in _parts(migration, per, limits):
            known = total.get(part, NOTHING)
            total[part] = _Amount(known.migrations + 1, known.memory + memory)
    return total


def _parts(migration: Transfer, per: BudgetScope, limits: Limits) -> tuple[str, ...]:
    """Return the names of the parts that *migration* counts for."""
    if per is BudgetScope.NODE:
        return tuple({migration.source, migration.target})
    if per is BudgetScope.NETWORK:
        networks = limits.networks_between(migration.source, migration.target)
        return tuple(network.name for network in networks)
    return ("",)


def _excess(budget: MigrationBudget, spent: _Amount, starting: _Amount) -> str | None:
    """Return what *starting* would exceed, or None."""
    window = f"in {budget.window:g} s"
    migrations, memory = budget.migrations, budget.memory
    if migrations is not None and spent.migrations + starting.migrations > migrations:
        return (
            f"{format_count(spent.migrations, 'migration')} {window} and "
            f"{starting.migrations} to start, the budget is {migrations}"
        )
    if memory is not None and spent.memory + starting.memory > memory:
        return (
            f"{format_memory(spent.memory)} migrated {window} and "
            f"{format_memory(starting.memory)} to start, the budget is "
            f"{format_memory(memory)}"
        )
    return None


def _memory(past: PastMigration, snapshot: Snapshot) -> int:
    """Return the bytes that a past migration transferred.

    Memory that was not recorded is that of the guest now, or 0 if there is none.
    """
    if isinstance(past.migration, DiskMove):
        return _guest_memory(past.migration, snapshot)
    guest = snapshot.guests.get(past.migration.guest)
    copied = 0 if guest is None else copied_bytes(guest, snapshot)
    if past.load is not None and past.load.guest.memory is not None:
        return past.load.guest.memory + copied
    return copied + (0 if guest is None else guest.usage.memory or 0)


def _guest_memory(migration: Transfer, snapshot: Snapshot) -> int:
    guest = snapshot.guests.get(migration.guest)
    if guest is None:
        return 0
    if isinstance(migration, DiskMove):
        return snapshot.transferred(migration)
    return (guest.usage.memory or 0) + copied_bytes(guest, snapshot)
