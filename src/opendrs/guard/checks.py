"""Checks of actions on a fresh snapshot, right before they start.

The checks are one ordered table; the first that fails is the reason. The guard shares
no code with the policies: it applies the actions to the snapshot and asks which rules
are newly violated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opendrs.guard.rejection import Rejection, RejectionReason
from opendrs.model import (
    Action,
    Guest,
    GuestState,
    Limits,
    LiveMigration,
    Migration,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Rule,
    Snapshot,
    TagExclusion,
    format_gib,
)
from opendrs.rules import new_violations


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Moves that are to start together, and what they are judged by.

    Attributes:
        migrations: The moves; at least one.
        snapshot: The cluster as it is now.
        limits: What the operator allows.
    """

    migrations: tuple[Migration, ...]
    snapshot: Snapshot
    limits: Limits

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Return the nodes that receive guests, each once."""
        return tuple(dict.fromkeys(move.target for move in self.migrations))

    @property
    def guests(self) -> tuple[Guest, ...]:
        """Return the guests to be moved, all of which must be in the cluster."""
        return tuple(self.snapshot.guests[move.guest] for move in self.migrations)

    def arriving_guests(self, target: NodeId) -> tuple[Guest, ...]:
        """Return the guests on their way to *target*, and those that are to be."""
        starting = {move.guest for move in self.migrations if move.target == target}
        return tuple(
            guest
            for guest in self.snapshot.guests.values()
            if guest.id in starting
            or (guest.is_active and guest.migrating_to == target)
        )


def source_unreachable(context: CheckContext) -> str | None:
    """Return which guest cannot be seen because its node does not answer."""
    return _first_detail(
        f"{migration.source} does not answer, so {migration.guest} on it cannot be seen"
        for migration in context.migrations
        if _is_hidden(migration, context.snapshot)
    )


def stale_plan(context: CheckContext) -> str | None:
    """Return what has changed since the moves were planned, if anything."""
    names = [migration.guest for migration in context.migrations]
    if duplicates := {name for name in names if names.count(name) > 1}:
        return f"{min(duplicates)} cannot be moved twice at once"
    return _first_detail(
        _outdated(migration, context.snapshot) for migration in context.migrations
    )


def migration_not_allowed(context: CheckContext) -> str | None:
    """Return which guest is not to be moved, or not like this, and why."""
    return _first_detail(
        _mobility_problem(guest, migration)
        or _first_detail(
            _excluding_rule(guest, rule) for rule in context.snapshot.rules
        )
        for guest, migration in zip(context.guests, context.migrations, strict=True)
    )


def in_cooldown(context: CheckContext) -> str | None:
    """Return which guest was moved too short a time ago, and when."""
    return _first_detail(_cooldown_detail(guest, context) for guest in context.guests)


def recently_started(context: CheckContext) -> str | None:
    """Return which guest has not run for long enough, and for how long."""
    min_uptime = context.limits.min_uptime
    return _first_detail(
        f"{guest.id} started {guest.uptime:.0f} s ago and is left alone for "
        f"{min_uptime:.0f} s"
        for guest in context.guests
        if guest.uptime is not None and guest.uptime < min_uptime
    )


def _first_detail(details: Iterable[str | None]) -> str | None:
    return next((detail for detail in details if detail), None)


def _is_hidden(migration: Migration, snapshot: Snapshot) -> bool:
    source, guest = (
        snapshot.nodes.get(migration.source),
        snapshot.guests.get(migration.guest),
    )
    if source is None or source.state is not NodeState.UNKNOWN:
        return False
    return guest is None or guest.state is GuestState.UNKNOWN


def _outdated(migration: Migration, snapshot: Snapshot) -> str | None:
    guest = snapshot.guests.get(migration.guest)
    if guest is None:
        return f"{migration.guest} is no longer a guest of the cluster"
    return _location_mismatch(guest, migration, snapshot) or _not_migratable(guest)


def _location_mismatch(
    guest: Guest, migration: Migration, snapshot: Snapshot
) -> str | None:
    if guest.node != migration.source:
        return f"{guest.id} is on {guest.node}, not on {migration.source}"
    if migration.target == migration.source:
        return f"{guest.id} is on {migration.target} already"
    if migration.target not in snapshot.nodes:
        return f"{migration.target} is no longer a node of the cluster"
    return None


def _not_migratable(guest: Guest) -> str | None:
    if guest.migrating_to is not None:
        return f"{guest.id} is on its way to {guest.migrating_to} already"
    if guest.state is not GuestState.RUNNING:
        return f"{guest.id} does not run: its state is {guest.state}"
    return None


def _mobility_problem(guest: Guest, migration: Migration) -> str | None:
    suffix = f": {guest.mobility_detail}" if guest.mobility_detail else ""
    if guest.effective_mobility is Mobility.NONE:
        return f"{guest.id} cannot be moved{suffix}"
    if guest.effective_mobility is Mobility.COLD and isinstance(
        migration, LiveMigration
    ):
        return f"{guest.id} cannot be moved while it runs{suffix}"
    return None


def _excluding_rule(guest: Guest, rule: Rule) -> str | None:
    if isinstance(rule, Pin) and guest.id in rule.guests:
        return f"{guest.id} is pinned by a rule: {rule}"
    if isinstance(rule, TagExclusion) and guest.tags & rule.tags:
        return f"{guest.id} is excluded by a rule: {rule}"
    return None


def _cooldown_detail(guest: Guest, context: CheckContext) -> str | None:
    if guest.migrated_at is None:
        return None
    # A time in the future is treated as now.
    elapsed = max(0.0, (context.snapshot.taken_at - guest.migrated_at).total_seconds())
    if elapsed >= context.limits.cooldown:
        return None
    return (
        f"{guest.id} was moved {elapsed:.0f} s ago and is left alone for "
        f"{context.limits.cooldown:.0f} s"
    )


def target_offline(context: CheckContext) -> str | None:
    """Return which target does not take part in the cluster now."""
    for target in context.targets:
        if not context.snapshot.nodes[target].online:
            return f"{target} is not online but {context.snapshot.nodes[target].state}"
    return None


def cpu_incompatible(context: CheckContext) -> str | None:
    """Return which guest could not run on its target's processor.

    Architectures are compared where both are known. A guest that depends on a
    processor model needs a target that is known to have it.
    """
    for guest, migration in zip(context.guests, context.migrations, strict=True):
        source, target = (
            context.snapshot.nodes[migration.source],
            context.snapshot.nodes[migration.target],
        )
        detail = _architecture_mismatch(source, target) or _cpu_model_mismatch(
            guest, target
        )
        if detail:
            return detail
    return None


def _architecture_mismatch(source: Node, target: Node) -> str | None:
    if None in (source.architecture, target.architecture):
        return None
    if source.architecture == target.architecture:
        return None
    return (
        f"{target.id} is {target.architecture}, and {source.id} is "
        f"{source.architecture}"
    )


def _cpu_model_mismatch(guest: Guest, target: Node) -> str | None:
    if guest.cpu_model in (None, target.cpu_model):
        return None
    actual = target.cpu_model or "of unknown model"
    return (
        f"{guest.id} needs processor {guest.cpu_model}; that of {target.id} is {actual}"
    )


def metrics_missing(context: CheckContext) -> str | None:
    """Return which figure is missing to tell whether there is room."""
    for target in context.targets:
        detail = _unknown_node_memory(
            context.snapshot.nodes[target]
        ) or _unknown_guest_memory(context, target)
        if detail:
            return detail
    return None


def insufficient_memory(context: CheckContext) -> str | None:
    """Return which target would use more memory than is left of its headroom.

    A guest on its way counts in full, whatever of it has arrived.
    """
    for target in context.targets:
        arriving = [
            guest.usage.memory or 0 for guest in context.arriving_guests(target)
        ]
        measured, capacity = _measured_memory(context.snapshot.nodes[target])
        allowed = capacity * (1 - context.limits.memory_headroom)
        if measured + sum(arriving) > allowed:
            return (
                f"{target} uses {format_gib(measured)}, and {format_gib(sum(arriving))} would arrive: "
                f"more than {format_gib(allowed)} of its {format_gib(capacity)}"
            )
    return None


def memory_overcommitted(context: CheckContext) -> str | None:
    """Return which target would have promised more memory than it may."""
    for target in context.targets:
        committed = sum(
            committed_memory(guest) or 0
            for guest in _present_and_arriving(context, target)
        )
        _, capacity = _measured_memory(context.snapshot.nodes[target])
        allowed = capacity * context.limits.memory_overcommit
        if committed > allowed:
            return (
                f"the guests of {target} might use {format_gib(committed)} in all: more "
                f"than {format_gib(allowed)}, {context.limits.memory_overcommit:g} times "
                "its memory"
            )
    return None


def committed_memory(guest: Guest) -> int | None:
    """Return the memory a guest may come to use, in bytes.

    It is what the guest uses where no limit is known, and None where that is
    not known either.
    """
    if guest.limit is not None and guest.limit.memory > 0:
        return guest.limit.memory
    return guest.usage.memory


def _unknown_node_memory(target: Node) -> str | None:
    if target.capacity is None:
        return f"the memory of {target.id} is not known"
    if target.usage.memory is None:
        return f"the memory in use on {target.id} was not measured"
    return None


def _unknown_guest_memory(context: CheckContext, target: NodeId) -> str | None:
    for guest in context.arriving_guests(target):
        if guest.usage.memory is None:
            return f"the memory {guest.id} uses was not measured"
    for guest in _present_and_arriving(context, target):
        if committed_memory(guest) is None:
            return f"neither limit nor use of the memory of {guest.id} is known"
    return None


def _measured_memory(node: Node) -> tuple[int, int]:
    """Return memory in use and in all; both were found to be known before."""
    return node.usage.memory or 0, node.capacity.memory if node.capacity else 0


def _present_and_arriving(context: CheckContext, target: NodeId) -> tuple[Guest, ...]:
    """Return those that are on *target*, or will be."""
    present = [
        g for g in context.snapshot.guests.values() if g.is_active and g.node == target
    ]
    return (*present, *context.arriving_guests(target))


def rule_violated(context: CheckContext) -> str | None:
    """Return which strict rule would be broken that is not broken now.

    Looked at are the cluster while all moves are under way, once they are
    done, and once everything else that is under way has arrived as well.
    """
    snapshot, settled = context.snapshot, _settled(context.snapshot)
    futures = (
        (snapshot, _during(snapshot, context.migrations), "on the way"),
        (snapshot, _after(snapshot, context.migrations), "in the end"),
        (settled, _after(settled, context.migrations), "once all has arrived"),
    )
    for before, after, when in futures:
        if violated := new_violations(before, after):
            return f"{violated[0]}, {when}"
    return None


def _during(snapshot: Snapshot, migrations: tuple[Migration, ...]) -> Snapshot:
    for migration in migrations:
        snapshot = snapshot.with_in_flight(migration)
    return snapshot


def _after(snapshot: Snapshot, migrations: tuple[Migration, ...]) -> Snapshot:
    for migration in migrations:
        snapshot = snapshot.apply(migration)
    return snapshot


def _settled(snapshot: Snapshot) -> Snapshot:
    """Return the cluster once all that is under way has arrived."""
    in_flight = (
        LiveMigration(guest.id, guest.node, guest.migrating_to)
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
    )
    return _after(snapshot, tuple(in_flight))


def check_power_action(
    action: PowerOn | PowerOff, snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    """Return what speaks against *action*: only an empty node may sleep.

    And not one that was woken just now, lest it be woken again at once.
    """
    node = snapshot.nodes.get(action.node)
    if node is None:
        detail = f"{action.node} is no longer a node of the cluster"
        return Rejection(RejectionReason.STALE_PLAN, detail)
    if isinstance(action, PowerOff):
        return _check_power_off(node, snapshot) or _check_power_off_cooldown(
            node, snapshot, limits
        )
    if node.online:
        return Rejection(RejectionReason.STALE_PLAN, f"{node.id} is online already")
    return None


def _check_power_off(node: Node, snapshot: Snapshot) -> Rejection | None:
    if node.state is NodeState.OFFLINE:
        return Rejection(RejectionReason.STALE_PLAN, f"{node.id} is offline already")
    if node.state is NodeState.UNKNOWN:
        detail = f"{node.id} does not answer, so nobody can tell who is on it"
        return Rejection(RejectionReason.NODE_UNREACHABLE, detail)
    # Who is stopped takes no room, and yet could not be started any more.
    guests = snapshot.guests.values()
    if remaining := [g.id for g in guests if node.id in (g.node, g.migrating_to)]:
        detail = f"{node.id} is not empty: {', '.join(sorted(remaining))}"
        return Rejection(RejectionReason.NODE_NOT_EMPTY, detail)
    return None


def _check_power_off_cooldown(
    node: Node, snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    if node.powered_on_at is None:
        return None
    elapsed = max(0.0, (snapshot.taken_at - node.powered_on_at).total_seconds())
    if elapsed >= limits.cooldown:
        return None
    detail = (
        f"{node.id} was woken {elapsed:.0f} s ago and stays on for "
        f"{limits.cooldown:.0f} s"
    )
    return Rejection(RejectionReason.COOLDOWN, detail)


# In order: the first that speaks is the one heard, and each may rely on the
# silence of those before it. A check returns its complaint, or None.
_CHECKS: Sequence[tuple[RejectionReason, Callable[[CheckContext], str | None]]] = (
    (RejectionReason.NODE_UNREACHABLE, source_unreachable),
    (RejectionReason.STALE_PLAN, stale_plan),
    (RejectionReason.MIGRATION_NOT_ALLOWED, migration_not_allowed),
    (RejectionReason.TARGET_OFFLINE, target_offline),
    (RejectionReason.CPU_INCOMPATIBLE, cpu_incompatible),
    (RejectionReason.METRICS_MISSING, metrics_missing),
    (RejectionReason.INSUFFICIENT_MEMORY, insufficient_memory),
    (RejectionReason.MEMORY_OVERCOMMITTED, memory_overcommitted),
    (RejectionReason.RULE_VIOLATED, rule_violated),
    (RejectionReason.COOLDOWN, in_cooldown),
    (RejectionReason.RECENTLY_STARTED, recently_started),
)


def check(
    actions: Sequence[Action],
    snapshot: Snapshot,
    limits: Limits,
) -> Rejection | None:
    """Return what speaks against starting *actions* together, or None.

    Args:
        actions: What is to start: one action, or the moves of guests that a
            strict rule keeps together.
        snapshot: The cluster as it is now.
        limits: What the operator allows.
    """
    power_actions = [
        action for action in actions if isinstance(action, PowerOn | PowerOff)
    ]
    for power_action in power_actions:
        if rejection := check_power_action(power_action, snapshot, limits):
            return rejection
    migrations = tuple(a for a in actions if not isinstance(a, PowerOn | PowerOff))
    return (
        _check_migrations(CheckContext(migrations, snapshot, limits))
        if migrations
        else None
    )


def _check_migrations(context: CheckContext) -> Rejection | None:
    for reason, find_problem in _CHECKS:
        if detail := find_problem(context):
            return Rejection(reason, detail)
    return None
