"""Checks of actions on a fresh snapshot, before they start.

The checks are one ordered table; the first that fails gives the reason. The guard
shares no code with the policies: it applies the actions to the snapshot and compares
the violations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opendrs.guard.disk_moves import check_disk_move
from opendrs.guard.failures import find_intolerated_failure
from opendrs.guard.load_limits import find_exceeded_load, find_unmeasured_load
from opendrs.guard.rejection import Rejection, RejectionReason
from opendrs.guard.storage import (
    find_forbidden_copy,
    find_insufficient_storage,
    find_missing_storage,
)
from opendrs.model import (
    DOMAIN_ORIGIN,
    Action,
    Affinity,
    DiskMove,
    DomainAffinity,
    Guest,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    Migration,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Relocation,
    Snapshot,
    TagExclusion,
    UsableResources,
    format_memory,
)
from opendrs.rules import new_violations


@dataclass(frozen=True)
class CheckContext:
    """Migrations that start together, with the input of the checks.

    Attributes:
        migrations: Migrations; at least one.
        snapshot: Current state of the cluster.
        limits: Limits of the operator.
        running: Migrations of running guests that start with relocations.
    """

    migrations: tuple[Migration, ...]
    snapshot: Snapshot
    limits: Limits
    running: tuple[Migration, ...] = ()

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Return the target nodes, each once."""
        return tuple(dict.fromkeys(move.target for move in self.migrations))

    @property
    def guests(self) -> tuple[Guest, ...]:
        """Return the guests to migrate, all of which must be in the cluster."""
        return tuple(self.snapshot.guests[move.guest] for move in self.migrations)

    def usable_resources(self, target: NodeId) -> UsableResources:
        """Return what *target* may give to guests; nothing if that is unknown."""
        usable = self.limits.usable_resources(self.snapshot.nodes[target])
        return UsableResources(0, 0, 0) if usable is None else usable

    def arriving_guests(self, target: NodeId) -> tuple[Guest, ...]:
        """Return the guests that are migrating to *target*, or will be."""
        starting = {move.guest for move in self.migrations if move.target == target}
        return tuple(
            guest
            for guest in self._concerned_guests
            if guest.id in starting
            or (guest.is_active and guest.migrating_to == target)
        )

    def present_guests(self, target: NodeId) -> tuple[Guest, ...]:
        """Return the guests that are on *target*."""
        return tuple(
            guest
            for guest in self._concerned_guests
            if guest.is_active and guest.node == target
        )

    @cached_property
    def _concerned_guests(self) -> Sequence[Guest]:
        """Return the guests to migrate, and those on or migrating to a target."""
        targets = {*self.targets}
        starting = {move.guest for move in self.migrations}
        return [
            guest
            for guest in self.snapshot.guests.values()
            if guest.node in targets
            or guest.migrating_to in targets
            or guest.id in starting
        ]


def source_unreachable(context: CheckContext) -> str | None:
    """Return the guest whose state is unknown because its node is unreachable."""
    return _first_detail(
        f"{migration.source}: unreachable, state of {migration.guest} is unknown"
        for migration in context.migrations
        if _is_hidden(migration, context.snapshot)
    )


def stale_plan(context: CheckContext) -> str | None:
    """Return the change since the migrations were planned, if any."""
    names = [migration.guest for migration in context.migrations]
    if duplicates := {name for name in names if names.count(name) > 1}:
        return f"{min(duplicates)}: two migrations at the same time"
    return _first_detail(
        _outdated(migration, context.snapshot) for migration in context.migrations
    )


def migration_not_allowed(context: CheckContext) -> str | None:
    """Return the guest that must not migrate, or not in this way, and why."""
    rules = [
        each for each in context.snapshot.rules if isinstance(each, (Pin, TagExclusion))
    ]
    return _first_detail(
        _mobility_problem(guest, migration)
        or _first_detail(_excluding_rule(guest, rule) for rule in rules)
        for guest, migration in zip(context.guests, context.migrations, strict=True)
    )


def managed_elsewhere(context: CheckContext) -> str | None:
    """Return the guest whose placement another program decides on, and which."""
    return _first_detail(
        f"{guest.id}: placement managed by {guest.managed_by}"
        for guest in context.guests
        if guest.managed_by is not None
    )


def guest_locked(context: CheckContext) -> str | None:
    """Return the guest that the platform has locked, and for which operation."""
    return _first_detail(
        f"{guest.id}: locked: {guest.lock}"
        for guest in context.guests
        if guest.lock is not None
    )


def in_cooldown(context: CheckContext) -> str | None:
    """Return the guest that was migrated too recently, and when."""
    return _first_detail(_cooldown_detail(guest, context) for guest in context.guests)


def recently_started(context: CheckContext) -> str | None:
    """Return the guest that started too recently, and its uptime."""
    min_uptime = context.limits.min_uptime
    return _first_detail(
        f"{guest.id}: started {guest.uptime:.0f} s ago, minimum uptime is "
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
        return f"{migration.guest}: no longer in the cluster"
    return _location_mismatch(guest, migration, snapshot) or _not_migratable(
        guest, migration
    )


def _location_mismatch(
    guest: Guest, migration: Migration, snapshot: Snapshot
) -> str | None:
    if guest.node != migration.source:
        return f"{guest.id}: expected on {migration.source}, is on {guest.node}"
    if migration.target == migration.source:
        return f"{guest.id}: already on {migration.target}"
    if migration.target not in snapshot.nodes:
        return f"{migration.target}: no longer in the cluster"
    return None


def _not_migratable(guest: Guest, migration: Migration) -> str | None:
    if guest.migrating_to is not None:
        return f"{guest.id}: already migrating to {guest.migrating_to}"
    if (disk := guest.moving_disk) is not None:
        return f"{guest.id}: disk {disk.name} is being moved to {disk.moving_to}"
    is_relocation = isinstance(migration, Relocation)
    expected = GuestState.STOPPED if is_relocation else GuestState.RUNNING
    if guest.state is not expected:
        return f"{guest.id}: expected state {expected}, got {guest.state}"
    return None


def _mobility_problem(guest: Guest, migration: Migration) -> str | None:
    suffix = f": {guest.mobility_detail}" if guest.mobility_detail else ""
    if guest.effective_mobility is Mobility.NONE:
        return f"{guest.id}: not migratable{suffix}"
    if guest.effective_mobility is Mobility.COLD and isinstance(
        migration, LiveMigration
    ):
        return f"{guest.id}: not live-migratable{suffix}"
    return None


def _excluding_rule(guest: Guest, rule: Pin | TagExclusion) -> str | None:
    if isinstance(rule, Pin) and guest.id in rule.guests:
        return f'{guest.id}: pinned by the rule "{rule}"'
    if isinstance(rule, TagExclusion) and guest.tags & rule.tags:
        return f'{guest.id}: excluded from migration by the rule "{rule}"'
    return None


def _cooldown_detail(guest: Guest, context: CheckContext) -> str | None:
    if guest.migrated_at is None:
        return None
    # A time in the future is treated as now.
    elapsed = max(0.0, (context.snapshot.taken_at - guest.migrated_at).total_seconds())
    if elapsed >= context.limits.cooldown:
        return None
    return (
        f"{guest.id}: migrated {elapsed:.0f} s ago, cooldown is "
        f"{context.limits.cooldown:.0f} s"
    )


def target_offline(context: CheckContext) -> str | None:
    """Return the target that is not online, and its state."""
    for target in context.targets:
        if not context.snapshot.nodes[target].online:
            state = context.snapshot.nodes[target].state
            return f"{target}: expected state online, got {state}"
    return None


def cpu_incompatible(context: CheckContext) -> str | None:
    """Return the guest that cannot run on the CPU of its target.

    Architectures are compared if both are known. A guest that requires a CPU model
    needs a target of that model.
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
        f"{target.id}: expected architecture {source.architecture} of {source.id}, "
        f"got {target.architecture}"
    )


def _cpu_model_mismatch(guest: Guest, target: Node) -> str | None:
    if guest.cpu_model in (None, target.cpu_model):
        return None
    actual = target.cpu_model or "unknown"
    return (
        f"{target.id}: expected CPU model {guest.cpu_model} for {guest.id}, "
        f"got {actual}"
    )


def storage_missing(context: CheckContext) -> str | None:
    """Return the target without a storage that a guest has a disk on."""
    return find_missing_storage(context.migrations, context.snapshot)


def local_disks_forbidden(context: CheckContext) -> str | None:
    """Return the guest with a local disk if the limits forbid its copy."""
    if context.limits.migrate_local_disks:
        return None
    return find_forbidden_copy(context.migrations, context.snapshot)


def insufficient_storage(context: CheckContext) -> str | None:
    """Return the storage of a target on which the copies of local disks do not fit."""
    return find_insufficient_storage(context.migrations, context.snapshot)


def metrics_missing(context: CheckContext) -> str | None:
    """Return the metric that is missing for the checks of memory, CPU and loads."""
    for target in context.targets:
        detail = (
            _unknown_node_memory(context.snapshot.nodes[target])
            or _unknown_guest_memory(context, target)
            or _unknown_guest_cpu(context, target)
        )
        if detail:
            return detail
    return find_unmeasured_load(context.migrations, context.snapshot, context.limits)


def load_exceeded(context: CheckContext) -> str | None:
    """Return the target whose further load would exceed its threshold."""
    return find_exceeded_load(context.migrations, context.snapshot, context.limits)


def insufficient_memory(context: CheckContext) -> str | None:
    """Return the target whose measured use would exceed its memory less headroom.

    A migrating guest counts in full, however much of it has arrived.
    """
    for target in context.targets:
        arriving = [
            guest.usage.memory or 0 for guest in context.arriving_guests(target)
        ]
        measured, capacity = _measured_memory(context.snapshot.nodes[target])
        allowed = context.usable_resources(target).memory
        if measured + sum(arriving) > allowed:
            return (
                f"{target}: {format_memory(measured)} in use and "
                f"{format_memory(sum(arriving))} arriving, allowed are "
                f"{format_memory(allowed)} of {format_memory(capacity)}"
            )
    return None


def memory_overcommitted(context: CheckContext) -> str | None:
    """Return the target whose committed memory would exceed its limit."""
    for target in context.targets:
        committed = sum(
            committed_memory(guest) or 0
            for guest in _present_and_arriving(context, target)
        )
        _, capacity = _measured_memory(context.snapshot.nodes[target])
        allowed = context.usable_resources(target).committed_memory
        if committed > allowed:
            return (
                f"{target}: {format_memory(committed)} committed, allowed are "
                f"{format_memory(allowed)} ({allowed / capacity:g} times its memory)"
            )
    return None


def cpu_overcommitted(context: CheckContext) -> str | None:
    """Return the target whose committed CPU would exceed its limit, if it has one."""
    for target in context.targets:
        allowed = context.usable_resources(target).committed_cpu
        if allowed is None:
            continue
        guests = _present_and_arriving(context, target)
        committed = math.fsum(committed_cpu(guest) or 0.0 for guest in guests)
        if committed - allowed > ROUNDING:
            return f"{target}: {committed:g} cores committed, allowed are {allowed:g}"
    return None


ROUNDING = 0.01  # cores; plans are made with whole millicores of each guest


def committed_cpu(guest: Guest) -> float | None:
    """Return the cores that a guest may use.

    This is its limit, or its measured use if it has no limit. None if neither is known.
    """
    if guest.limit is not None and guest.limit.cpu > 0:
        return guest.limit.cpu
    return guest.usage.cpu


def committed_memory(guest: Guest) -> int | None:
    """Return the memory that a guest may use, in bytes.

    This is its limit, or its measured use if it has no limit. None if neither is known.
    """
    if guest.limit is not None and guest.limit.memory > 0:
        return guest.limit.memory
    return guest.usage.memory


def _unknown_node_memory(target: Node) -> str | None:
    if target.capacity is None:
        return f"{target.id}: memory capacity is unknown"
    if target.usage.memory is None:
        return f"{target.id}: memory usage was not measured"
    return None


def _unknown_guest_memory(context: CheckContext, target: NodeId) -> str | None:
    for guest in context.arriving_guests(target):
        if guest.usage.memory is None:
            return f"{guest.id}: memory usage was not measured"
    for guest in _present_and_arriving(context, target):
        if committed_memory(guest) is None:
            return f"{guest.id}: memory limit and usage are unknown"
    return None


def _unknown_guest_cpu(context: CheckContext, target: NodeId) -> str | None:
    if context.usable_resources(target).committed_cpu is None:
        return None
    for guest in _present_and_arriving(context, target):
        if committed_cpu(guest) is None:
            return f"{guest.id}: CPU limit and usage are unknown"
    return None


def _measured_memory(node: Node) -> tuple[int, int]:
    """Return memory in use and capacity; `metrics_missing` has checked both."""
    return node.usage.memory or 0, node.capacity.memory if node.capacity else 0


def _present_and_arriving(context: CheckContext, target: NodeId) -> tuple[Guest, ...]:
    """Return the guests that are on *target*, or will be."""
    return (*context.present_guests(target), *context.arriving_guests(target))


def rule_violated(context: CheckContext) -> str | None:
    """Return the strict rule that would be newly violated, and when.

    Compared are the cluster while all migrations are in progress, after them, and after
    all other migrations in progress as well. Guests that belong in one domain may
    gather in any: the rules that bind them to a chosen one do not count.
    """
    snapshot, settled = context.snapshot, _settled(context.snapshot)
    futures = [
        (snapshot, _during, "during the migration"),
        (snapshot, _after, "after the migration"),
    ]
    if settled is not snapshot:
        futures.append((settled, _after, "after all migrations"))
    for before, change, when in futures:
        for each in new_violations(before, change(before, context.migrations)):
            if each.rule.origin != DOMAIN_ORIGIN:
                return f"{each}, {when}"
    return _separation(context.migrations, snapshot)


def _separation(migrations: Iterable[Migration], snapshot: Snapshot) -> str | None:
    """Return the strict rule whose guests would be further from being in one domain.

    Guests in one domain stay in it. Those in several may gather in any, but leave none
    for a node without a domain. A migrating guest is in the domains of both nodes until
    it has arrived.
    """
    targets = {each.guest: each.target for each in migrations}
    for rule in snapshot.rules:
        if not (isinstance(rule, DomainAffinity) and rule.strict):
            continue
        moving = {name: targets[name] for name in rule.guests if name in targets}
        if not moving:
            continue
        after = _domains(rule, snapshot, moving)
        before = _domains(rule, snapshot, {})
        if len(before) == 1 and None not in before and after != before:
            names = ", ".join(sorted(each or "none" for each in after))
            return f"{rule}: in several domains: {names}"
        for name, target in sorted(moving.items()):
            source = snapshot.guests[name].node
            left, entered = (
                snapshot.nodes[each].domain(rule.domain) for each in (source, target)
            )
            if left is not None and entered is None:
                return f"{rule}: {name} would leave {left} for {target}, in no domain"
    return None


def _domains(
    rule: DomainAffinity, snapshot: Snapshot, moving: Mapping[GuestId, NodeId]
) -> set[str | None]:
    """Return the domains of the active guests of *rule* while some of them migrate.

    None stands for nodes without a domain.
    """
    nodes: set[NodeId] = set()
    for name in rule.guests & snapshot.guests.keys():
        guest = snapshot.guests[name]
        if guest.is_active:
            nodes.update(guest.occupied_nodes)
            if name in moving:
                nodes.add(moving[name])
    return {snapshot.nodes[name].domain(rule.domain) for name in nodes}


def _during(snapshot: Snapshot, migrations: tuple[Migration, ...]) -> Snapshot:
    for migration in migrations:
        snapshot = snapshot.with_in_flight(migration)
    return snapshot


def failure_not_tolerated(context: CheckContext) -> str | None:
    """Return the failure that would newly not be tolerated after the migrations."""
    if not context.limits.tolerates_failures:
        return None
    before = _settled(context.snapshot)
    after = _after(before, context.migrations)
    return find_intolerated_failure(before, after, context.limits)


def relocation_forbidden(context: CheckContext) -> str | None:
    """Return the strict rule that forbids the target of a stopped guest.

    A stopped guest violates no rule, but must not be brought where it could not start.
    Nor must a platform that moves the guests of an affinity with one request move
    running ones along.
    """
    return _first_detail(
        f"{migration.target} is not allowed for {migration.guest}: {rule}"
        for migration in context.migrations
        for rule in context.snapshot.rules
        if (
            isinstance(rule, NodeAffinity)
            and rule.strict
            and migration.guest in rule.guests
            and migration.target not in rule.nodes
        )
        or (
            isinstance(rule, Affinity)
            and rule.strict
            and migration.guest in rule.guests
            and _would_part(rule, migration, context)
        )
    )


def _would_part(rule: Affinity, migration: Migration, context: CheckContext) -> bool:
    """Return whether guests of *rule* run, and none will be on the target."""
    going = {each.guest: each.target for each in context.running}
    guests = (context.snapshot.guests.get(name) for name in rule.guests)
    ends = [
        going.get(guest.id, guest.migrating_to or guest.node)
        for guest in guests
        if guest is not None and guest.is_active
    ]
    return bool(ends) and migration.target not in ends


def _after(snapshot: Snapshot, migrations: tuple[Migration, ...]) -> Snapshot:
    for migration in migrations:
        snapshot = snapshot.apply(migration)
    return snapshot


def _settled(snapshot: Snapshot) -> Snapshot:
    """Return the cluster after all migrations in progress."""
    in_flight = (
        LiveMigration(guest.id, guest.node, guest.migrating_to)
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
    )
    return _after(snapshot, tuple(in_flight))


def check_power_action(
    action: PowerOn | PowerOff, snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    """Return why *action* must not start, or None.

    Only a node without guests may be powered off. The cooldown since its last power-on
    prevents oscillation.
    """
    node = snapshot.nodes.get(action.node)
    if node is None:
        detail = f"{action.node}: no longer in the cluster"
        return Rejection(RejectionReason.STALE_PLAN, detail)
    if isinstance(action, PowerOff):
        return (
            _check_power_off(node, snapshot)
            or _check_power_off_cooldown(node, snapshot, limits)
            or _check_power_off_tolerance(action, snapshot, limits)
        )
    if node.online:
        return Rejection(RejectionReason.STALE_PLAN, f"{node.id}: already online")
    return None


def _check_power_off(node: Node, snapshot: Snapshot) -> Rejection | None:
    if node.state is NodeState.OFFLINE:
        return Rejection(RejectionReason.STALE_PLAN, f"{node.id}: already offline")
    if node.state is NodeState.UNKNOWN:
        detail = f"{node.id}: unreachable, its guests are unknown"
        return Rejection(RejectionReason.NODE_UNREACHABLE, detail)
    # Stopped guests count as well: they could not be started on a powered-off node.
    guests = snapshot.guests.values()
    if remaining := [g.id for g in guests if node.id in (g.node, g.migrating_to)]:
        detail = f"{node.id}: not empty: {', '.join(sorted(remaining))}"
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
        f"{node.id}: powered on {elapsed:.0f} s ago, cooldown is "
        f"{limits.cooldown:.0f} s"
    )
    return Rejection(RejectionReason.COOLDOWN, detail)


def _check_power_off_tolerance(
    action: PowerOff, snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    if not limits.tolerates_failures:
        return None
    before = _settled(snapshot)
    detail = find_intolerated_failure(before, before.apply(action), limits)
    if detail is None:
        return None
    return Rejection(RejectionReason.FAILURE_NOT_TOLERATED, detail)


# In order: the first failure is reported, and a check may assume that the checks
# before it have passed. A check returns the detail of its failure, or None.
_CHECKS: Sequence[tuple[RejectionReason, Callable[[CheckContext], str | None]]] = (
    (RejectionReason.NODE_UNREACHABLE, source_unreachable),
    (RejectionReason.STALE_PLAN, stale_plan),
    (RejectionReason.MIGRATION_NOT_ALLOWED, migration_not_allowed),
    (RejectionReason.MANAGED_ELSEWHERE, managed_elsewhere),
    (RejectionReason.GUEST_LOCKED, guest_locked),
    (RejectionReason.TARGET_OFFLINE, target_offline),
    (RejectionReason.CPU_INCOMPATIBLE, cpu_incompatible),
    (RejectionReason.LOCAL_DISKS, local_disks_forbidden),
    (RejectionReason.STORAGE_MISSING, storage_missing),
    (RejectionReason.INSUFFICIENT_STORAGE, insufficient_storage),
    (RejectionReason.METRICS_MISSING, metrics_missing),
    (RejectionReason.INSUFFICIENT_MEMORY, insufficient_memory),
    (RejectionReason.MEMORY_OVERCOMMITTED, memory_overcommitted),
    (RejectionReason.CPU_OVERCOMMITTED, cpu_overcommitted),
    (RejectionReason.LOAD_EXCEEDED, load_exceeded),
    (RejectionReason.RULE_VIOLATED, rule_violated),
    (RejectionReason.FAILURE_NOT_TOLERATED, failure_not_tolerated),
    (RejectionReason.COOLDOWN, in_cooldown),
    (RejectionReason.RECENTLY_STARTED, recently_started),
)

# A stopped guest uses no memory of its target, and moves without a restart.
_RELOCATION_CHECKS: Sequence[
    tuple[RejectionReason, Callable[[CheckContext], str | None]]
] = (
    (RejectionReason.NODE_UNREACHABLE, source_unreachable),
    (RejectionReason.STALE_PLAN, stale_plan),
    (RejectionReason.MIGRATION_NOT_ALLOWED, migration_not_allowed),
    (RejectionReason.MANAGED_ELSEWHERE, managed_elsewhere),
    (RejectionReason.GUEST_LOCKED, guest_locked),
    (RejectionReason.TARGET_OFFLINE, target_offline),
    (RejectionReason.CPU_INCOMPATIBLE, cpu_incompatible),
    (RejectionReason.LOCAL_DISKS, local_disks_forbidden),
    (RejectionReason.STORAGE_MISSING, storage_missing),
    (RejectionReason.INSUFFICIENT_STORAGE, insufficient_storage),
    (RejectionReason.RULE_VIOLATED, relocation_forbidden),
)


def check(
    actions: Sequence[Action],
    snapshot: Snapshot,
    limits: Limits,
) -> Rejection | None:
    """Return why *actions* must not start together, or None.

    Args:
        actions: Actions to start: one action, or the migrations of a move group.
        snapshot: Current state of the cluster.
        limits: Limits of the operator.
    """
    for action in actions:
        if isinstance(action, PowerOn | PowerOff):
            rejection = check_power_action(action, snapshot, limits)
        elif isinstance(action, DiskMove):
            rejection = check_disk_move(action, snapshot, limits)
        else:
            continue
        if rejection is not None:
            return rejection
    migrations = tuple(each for each in actions if isinstance(each, Migration))
    relocations = tuple(each for each in migrations if isinstance(each, Relocation))
    running = tuple(each for each in migrations if each not in relocations)
    return _first_rejection(
        _CHECKS, CheckContext(running, snapshot, limits)
    ) or _first_rejection(
        _RELOCATION_CHECKS, CheckContext(relocations, snapshot, limits, running)
    )


def _first_rejection(
    checks: Sequence[tuple[RejectionReason, Callable[[CheckContext], str | None]]],
    context: CheckContext,
) -> Rejection | None:
    if not context.migrations:
        return None
    for reason, find_problem in checks:
        if detail := find_problem(context):
            return Rejection(reason, detail)
    return None
