"""Tables of a drain: the targets afterwards, and the guests that remain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console

from opendrs.arrays import SkippedGuest, SkipReason
from opendrs.cli.cluster_tables import node_load
from opendrs.cli.console import add_row, create_table, printable
from opendrs.cli.formatting import arrow, load_bar
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.controller.step_serialization import step_document
from opendrs.model import (
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    Relocation,
    Snapshot,
    format_count,
    format_list,
    format_timestamp,
)
from opendrs.policies import Decision, DecisionReason

_REMEDIES = {
    SkipReason.NOT_RUNNING: "resume it or shut it down",
    SkipReason.MIGRATION_IN_PROGRESS: "wait for the end of the migrations in progress",
    SkipReason.MANAGED_ELSEWHERE: "let that program move it, or take it out of its "
    "control",
    SkipReason.GUEST_LOCKED: "wait for the end of the operation",
    SkipReason.PINNED: "remove the rule",
    SkipReason.TAG_EXCLUDED: "remove the tag or the rule",
    SkipReason.CONTRADICTORY_RULES: "correct the rules",
    SkipReason.METRICS_MISSING: "wait until the platform reports the measurements",
    SkipReason.MOBILITY_NONE: "remove the cause, or shut it down and move it by hand",
    SkipReason.LOCAL_DISKS: "allow the copy with limits.migrate_local_disks, or move "
    "the disk to shared storage",
    SkipReason.MOBILITY_COLD: "shut it down: a stopped guest is relocated",
    SkipReason.GROUP_MEMBER_SKIPPED: "help the other guest of its affinity rule first",
    SkipReason.NO_FEASIBLE_NODE: "free memory on nodes that its rules allow, or change "
    "the rules",
}
_OTHER_REMEDY = "repeat the drain later"
_KINDS = {
    LiveMigration: "live migration",
    ColdMigration: "restart",
    Relocation: "relocation (stopped)",
}


@dataclass(frozen=True, slots=True)
class DrainPreview:
    """Effects of a drain.

    Attributes:
        node: The node.
        snapshot: The cluster before it, with the node in maintenance.
        decision: The decision of the policy `drain`.
    """

    node: NodeId
    snapshot: Snapshot
    decision: Decision[Any]

    @property
    def after(self) -> Snapshot:
        """Return the cluster after the plan."""
        steps = self.decision.plan.steps
        return self.snapshot.apply(*(step.action for step in steps))

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Return the nodes that receive guests, sorted."""
        actions = (step.action for step in self.decision.plan.steps)
        targets = {
            each.target
            for each in actions
            if isinstance(each, LiveMigration | ColdMigration | Relocation)
        }
        return tuple(sorted(targets))

    @property
    def awaits_migrations(self) -> bool:
        """Return True while migrations in progress delay the plan."""
        return self.decision.reason is DecisionReason.MIGRATION_IN_PROGRESS

    @property
    def awaits_metrics(self) -> bool:
        """Return True if guests stay because their load is unknown, as it is at first.

        Some platforms need two samples for it.
        """
        reasons = {each.reason for each in self.decision.skipped.values()}
        return SkipReason.METRICS_MISSING in reasons

    @property
    def remaining(self) -> dict[GuestId, SkippedGuest]:
        """Return the guests that stay on the node, with the reason.

        All of them while migrations in progress delay the plan.
        """
        unknown = SkippedGuest(
            SkipReason.MIGRATION_IN_PROGRESS
            if self.awaits_migrations
            else SkipReason.NO_FEASIBLE_NODE,
            self.decision.detail,
        )
        return {
            guest.id: self.decision.skipped.get(guest.id, unknown)
            for guest in sorted(self.after.guests.values(), key=lambda each: each.id)
            if guest.node == self.node
        }


def remedy(reason: SkipReason) -> str:
    """Return what a guest needs that stays for *reason*."""
    return _REMEDIES.get(reason, _OTHER_REMEDY)


def preview_document(preview: DrainPreview) -> dict[str, object]:
    """Return *preview* as plain values; loads are fractions of the capacity."""
    before, after = preview.snapshot, preview.after
    arriving = _arriving(preview)
    return {
        "steps": [step_document(step) for step in preview.decision.plan.steps],
        "reason": preview.decision.reason.value,
        "detail": preview.decision.detail,
        "targets": [
            {
                "node": name,
                "guests": arriving[name],
                **{
                    f"{resource}_{when}": node_load(snapshot.nodes[name], resource)
                    for resource in ("cpu", "memory")
                    for when, snapshot in (("before", before), ("after", after))
                },
            }
            for name in preview.targets
        ],
        "remaining": remaining_documents(preview),
    }


def remaining_documents(preview: DrainPreview) -> list[dict[str, object]]:
    """Return the guests that stay as plain values."""
    return [
        {
            "guest": name,
            "reason": each.reason.value,
            "detail": each.detail,
            "remedy": remedy(each.reason),
        }
        for name, each in preview.remaining.items()
    ]


def print_preview(screen: Console, preview: DrainPreview) -> None:
    """Print the plan, the targets with their load, and the guests that stay."""
    steps = preview.decision.plan.steps
    kinds = Counter(_KINDS.get(type(step.action), "") for step in steps)
    counts = [f"{count} by {kind}" for kind, count in sorted(kinds.items())]
    if preview.remaining:
        counts.append(f"{len(preview.remaining)} cannot leave")
    total = sum(g.node == preview.node for g in preview.snapshot.guests.values())
    heading = f"{preview.node}: {format_count(total, 'guest')}"
    screen.print(printable(f"{heading}; {', '.join(counts)}" if counts else heading))
    if steps:
        screen.print()
        listing = create_table("guest", "from", "to", "by")
        for step in steps:
            action = step.action
            if isinstance(action, LiveMigration | ColdMigration | Relocation):
                kind = _KINDS[type(action)]
                add_row(listing, action.guest, action.source, action.target, kind)
        screen.print(listing)
        screen.print()
        _print_targets(screen, preview)
    print_remaining(screen, preview)


def print_remaining(screen: Console, preview: DrainPreview) -> None:
    """Print the guests that stay, with the reason and what each needs."""
    remaining = preview.remaining
    if not remaining:
        return
    screen.print()
    count = format_count(len(remaining), "guest")
    screen.print(printable(f"{count} cannot leave {preview.node}:"))
    listing = create_table("guest", "reason", "what it needs")
    for name, each in remaining.items():
        add_row(listing, name, each.detail, remedy(each.reason))
    screen.print(listing)


def _print_targets(screen: Console, preview: DrainPreview) -> None:
    before, after = preview.snapshot, preview.after
    arriving = _arriving(preview)
    headings = ["target", "guests", "cpu", "cpu after", "memory", "memory after"]
    listing = create_table(*headings, right=["guests"], no_wrap=headings[2:])
    for name in preview.targets:
        cells = []
        for resource in ("cpu", "memory"):
            cells.append(load_bar(node_load(before.nodes[name], resource)))
            load = node_load(after.nodes[name], resource)
            cells.append(load_bar(load, prefix=f"{arrow()} "))
        add_row(listing, name, f"+{arriving[name]}", *cells)
    screen.print(listing)


def _arriving(preview: DrainPreview) -> Counter[NodeId]:
    """Return the number of guests that each node has more after the plan."""
    before, after = preview.snapshot.guests, preview.after.guests
    return Counter(
        guest.node for name, guest in after.items() if before[name].node != guest.node
    )


def drained_documents(
    drained: Iterable[DrainedNode], snapshot: Snapshot
) -> list[dict[str, object]]:
    """Return the nodes in maintenance as plain values."""
    requests = {each.node: each for each in drained}
    return [
        {
            "node": name,
            "by": "operator" if name in requests else "platform",
            "since": format_timestamp(requests[name].since)
            if name in requests
            else None,
            "user": requests[name].user if name in requests else None,
            "because": requests[name].because if name in requests else None,
            "guests": sorted(
                guest.id for guest in snapshot.guests.values() if guest.node == name
            ),
        }
        for name in _maintained(requests, snapshot)
    ]


def print_drained(
    screen: Console, drained: Iterable[DrainedNode], snapshot: Snapshot
) -> None:
    """Print the nodes in maintenance, with the guests that are left on them."""
    rows = drained_documents(drained, snapshot)
    if not rows:
        screen.print("No node is drained.")
        return
    listing = create_table(
        *("node", "drained by", "since (UTC)", "because", "guests left"),
        no_wrap=["node", "since (UTC)"],
    )
    for row in rows:
        guests = row["guests"]
        assert isinstance(guests, list)  # noqa: S101 - for the type checker
        add_row(
            listing,
            str(row["node"]),
            str(row["user"] or row["by"]),
            _time_text(row["since"]),
            str(row["because"] or "-"),
            format_list(guests) or "none",
        )
    screen.print(listing)


def _time_text(since: object) -> str:
    if since is None:
        return "-"
    return f"{datetime.fromisoformat(str(since)):%Y-%m-%d %H:%M:%S}"


def _maintained(requests: Iterable[NodeId], snapshot: Snapshot) -> list[NodeId]:
    in_maintenance = {
        name
        for name, node in snapshot.nodes.items()
        if node.state.value == "maintenance"
    }
    return sorted({*requests, *in_maintenance})
