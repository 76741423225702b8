"""Use of the storages in groups before and after a plan, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from opendrs.cli.console import add_row, create_table
from opendrs.cli.formatting import format_percent
from opendrs.model import Limits, NodeId, Snapshot
from opendrs.planning import storage_uses

FIGURES = ("in use", "after", "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageChange:
    """Use of a storage, as fractions of its capacity.

    Attributes:
        storage: Its name.
        node: Its node; None if other nodes use it as well.
        threshold: Fraction above which disks are moved away from it.
        before: Fraction in use before the plan.
        after: Fraction in use after the plan.
    """

    storage: str
    node: NodeId | None
    threshold: float
    before: float
    after: float

    @property
    def label(self) -> str:
        """Return its name, and its node unless it is shared."""
        return self.storage if self.node is None else f"{self.storage} of {self.node}"

    @property
    def is_notable(self) -> bool:
        """Return True if its use changes, or is above the threshold."""
        return self.before != self.after or self.after > self.threshold


def storage_changes(
    before: Snapshot, after: Snapshot, limits: Limits
) -> tuple[StorageChange, ...]:
    """Return the storages in the groups of *limits* whose use is known, fullest first.

    Args:
        before: The cluster before a plan.
        after: The cluster after it.
        limits: Contains the groups.
    """
    uses, later = (storage_uses(each, limits) for each in (before, after))
    changes = [
        StorageChange(
            storage=use.key[1],
            node=use.key[0],
            threshold=use.group.threshold,
            before=use.fill,
            after=later[key].fill,
        )
        for key, use in uses.items()
        if key in later
    ]
    return tuple(sorted(changes, key=lambda each: (-each.before, each.label)))


def print_storages(
    screen: Console, changes: Sequence[StorageChange], *, show_all: bool
) -> None:
    """Print the storages whose use changes or is above the threshold, or all.

    Nothing is printed if the plan changes none.
    """
    if not any(each.before != each.after for each in changes):
        return
    listing = create_table("storage", *FIGURES, right=FIGURES)
    for each in changes:
        if show_all or each.is_notable:
            figures = (each.before, each.after, each.threshold)
            texts = (format_percent(figure).strip() for figure in figures)
            add_row(listing, each.label, *texts)
    screen.print()
    screen.print(listing)
