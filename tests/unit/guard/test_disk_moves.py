"""Moves of disks to other storages, checked before they start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.guard import RejectionReason, check, check_budgets, check_concurrency
from opendrs.model import (
    GIB,
    BudgetScope,
    Disk,
    DiskMove,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    MigrationBudget,
    Mobility,
    NodeId,
    NodeState,
    PastMigration,
    Pin,
    Protection,
    Rule,
    Snapshot,
    Storage,
    StorageGroup,
    TagExclusion,
)
from support.builders import NOON, cluster, guest_ids

A, B, VM, OTHER = NodeId("a"), NodeId("b"), GuestId("vm"), GuestId("other")
MOVE = DiskMove(VM, A, "scsi0", "fast", "large")
GROUP = StorageGroup(name="all", storages=("fast", "large"), threshold=0.8)
LIMITS = Limits(storage_groups=(GROUP,))
COPYING = replace(LIMITS, migrate_local_disks=True)


def local(name: str, free: int | None = 60) -> Storage:
    """Return a local storage of 100 GiB with *free* GiB."""
    size = None if free is None else free * GIB
    return Storage(id=name, shared=False, capacity=100 * GIB, free=size)


def shared(name: str, free: int = 60) -> Storage:
    return replace(local(name, free), shared=True)


def disk(storage: str = "fast", size: int | None = 20) -> Disk:
    return Disk(
        storage=storage, size=None if size is None else size * GIB, name="scsi0"
    )


def lab(*storages: Storage, on_b: tuple[Storage, ...] | None = None) -> Snapshot:
    """Return two nodes with these storages, and two guests on `a` with a disk."""
    plain = cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.3), "other": ("a", 0.1)})
    found = storages or (local("fast", 10), local("large"))
    nodes = {
        A: replace(plain.nodes[A], storages=found),
        B: replace(plain.nodes[B], storages=found if on_b is None else on_b),
    }
    guests = {
        name: replace(guest, disks=(disk(),)) for name, guest in plain.guests.items()
    }
    return replace(plain, nodes=nodes, guests=guests)


def with_vm(snapshot: Snapshot, **changes: object) -> Snapshot:
    changed = replace(snapshot.guests[VM], **changes)  # type: ignore[arg-type]
    return replace(snapshot, guests={**snapshot.guests, VM: changed})


def reason(
    snapshot: Snapshot, move: DiskMove = MOVE, limits: Limits = LIMITS
) -> RejectionReason | None:
    rejection = check([move], snapshot, limits)
    return None if rejection is None else rejection.reason


def test_move_that_fits_is_allowed() -> None:
    assert reason(lab()) is None
    # Neither the placement nor the mobility of the guest is concerned.
    pinned = replace(lab(), rules=(Pin(guests=guest_ids("vm")),))
    assert reason(with_vm(pinned, mobility=Mobility.NONE, uptime=1.0)) is None
    assert reason(with_vm(lab(), state=GuestState.STOPPED)) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"disks": ()}, RejectionReason.STALE_PLAN),
        ({"disks": (disk("large"),)}, RejectionReason.STALE_PLAN),
        ({"node": B}, RejectionReason.STALE_PLAN),
        ({"migrating_to": B}, RejectionReason.STALE_PLAN),
        ({"state": GuestState.PAUSED}, RejectionReason.STALE_PLAN),
        (
            {"disks": (disk(), replace(disk(), name="scsi1", moving_to="large"))},
            RejectionReason.STALE_PLAN,
        ),
        ({"lock": "backup"}, RejectionReason.GUEST_LOCKED),
        ({"disks": (disk(size=None),)}, RejectionReason.INSUFFICIENT_STORAGE),
    ],
)
def test_guest_that_changed_is_rejected(
    changes: dict[str, object], expected: RejectionReason
) -> None:
    assert reason(with_vm(lab(), **changes)) is expected


def test_guest_or_node_that_left_is_rejected() -> None:
    snapshot = lab()
    without = replace(snapshot, guests={OTHER: snapshot.guests[OTHER]})
    assert reason(without) is RejectionReason.STALE_PLAN
    for state, expected in (
        (NodeState.UNKNOWN, RejectionReason.NODE_UNREACHABLE),
        (NodeState.OFFLINE, RejectionReason.TARGET_OFFLINE),
    ):
        node = replace(snapshot.nodes[A], state=state)
        changed = replace(snapshot, nodes={**snapshot.nodes, A: node})
        assert reason(changed) is expected


def test_group_of_both_storages_is_the_permission() -> None:
    without = StorageGroup(name="others", storages=("fast", "third"))
    for groups in ((), (without,)):
        limits = Limits(storage_groups=groups)
        assert reason(lab(), limits=limits) is RejectionReason.DISK_MOVE_NOT_ALLOWED


def test_excluded_tag_keeps_the_disks() -> None:
    rule: Rule = TagExclusion(tags=frozenset({"db"}))
    snapshot = with_vm(replace(lab(), rules=(rule,)), tags=frozenset({"db"}))
    assert reason(snapshot) is RejectionReason.MIGRATION_NOT_ALLOWED


@pytest.mark.parametrize(
    ("on_a", "on_b", "limits", "expected"),
    [
        pytest.param(("lf",), None, LIMITS, "missing", id="node lacks it"),
        pytest.param(("lf", "ll"), ("lf",), LIMITS, None, id="never leaves its node"),
        pytest.param(("lf", "ll"), ("lf",), COPYING, "missing", id="could be copied"),
        pytest.param(
            ("sf", "sl"), ("sf",), LIMITS, "missing", id="other node lacks it"
        ),
        pytest.param(("sf", "sl"), (), LIMITS, None, id="node cannot use it anyway"),
        pytest.param(("sf", "ll"), None, LIMITS, "missing", id="would become local"),
        pytest.param(("lf", "sl"), (), LIMITS, None, id="becomes shared"),
        pytest.param(("uf", "sl"), None, LIMITS, "missing", id="unknown source"),
        pytest.param(("sf", "ul"), None, LIMITS, "missing", id="unknown target"),
    ],
)
def test_no_move_takes_a_node_from_its_guest(
    on_a: tuple[str, ...],
    on_b: tuple[str, ...] | None,
    limits: Limits,
    expected: str | None,
) -> None:
    def storages(kinds: tuple[str, ...]) -> tuple[Storage, ...]:
        names = {"f": "fast", "l": "large"}
        sharing = {"s": True, "l": False, "u": None}
        return tuple(
            replace(local(names[kind[1]]), shared=sharing[kind[0]]) for kind in kinds
        )

    snapshot = lab(*storages(on_a), on_b=None if on_b is None else storages(on_b))

    found = reason(snapshot, limits=limits)

    assert found is (RejectionReason.STORAGE_MISSING if expected else None)


@pytest.mark.parametrize(
    ("free", "size", "fits"),
    # 80 of 100 GiB may be in use: with 60 free, 40 are.
    [(60, 40, True), (60, 41, False), (20, 1, False), (None, 1, False)],
)
def test_target_stays_below_the_threshold(
    free: int | None, size: int, *, fits: bool
) -> None:
    snapshot = lab(local("fast", 10), local("large", free))

    found = reason(with_vm(snapshot, disks=(disk(size=size),)))

    assert found is (None if fits else RejectionReason.INSUFFICIENT_STORAGE)


@pytest.mark.parametrize("kind", [local, shared])
def test_copies_in_progress_count_in_full(kind: object) -> None:
    assert callable(kind)
    snapshot = lab(kind("fast", 10), kind("large", 50))
    # 30 GiB are left up to the threshold: 20 fit, with another 20 on their way not.
    assert reason(snapshot) is None

    busy = snapshot.with_in_flight(replace(MOVE, guest=OTHER))

    assert reason(busy) is RejectionReason.INSUFFICIENT_STORAGE


def test_guest_with_a_moving_disk_does_not_migrate() -> None:
    snapshot = lab(shared("fast"), shared("large")).with_in_flight(MOVE)
    rejection = check([LiveMigration(VM, A, B)], snapshot, LIMITS)
    assert rejection is not None
    assert rejection.reason is RejectionReason.STALE_PLAN


def test_moving_disk_counts_for_copies_of_migrations() -> None:
    # 30 GiB are free on `large` of b: a copy of 20 GiB of `vm` and one in progress.
    snapshot = lab(local("large", 50), local("fast"))
    on_large = with_vm(snapshot, disks=(disk("large"),))
    node = replace(snapshot.nodes[B], storages=(local("large", 30), local("fast")))
    guest = replace(snapshot.guests[OTHER], node=B)
    busy = replace(
        on_large,
        nodes={**on_large.nodes, B: node},
        guests={**on_large.guests, OTHER: guest},
    )
    limits = replace(COPYING, memory_overcommit=9.0, cooldown=0)
    assert check([LiveMigration(VM, A, B)], busy, limits) is None

    moving = busy.with_in_flight(DiskMove(OTHER, B, "scsi0", "fast", "large"))

    rejection = check([LiveMigration(VM, A, B)], moving, limits)
    assert rejection is not None
    assert rejection.reason is RejectionReason.INSUFFICIENT_STORAGE


def test_moves_count_for_the_limits_of_parallel_migrations() -> None:
    limits = replace(LIMITS, max_migrations_per_node=1)
    snapshot = lab()
    assert check_concurrency([MOVE], snapshot, limits) is None

    busy = snapshot.with_in_flight(replace(MOVE, guest=OTHER))

    over = check_concurrency([MOVE], busy, limits)
    assert over is not None
    assert over.reason is RejectionReason.NODE_MIGRATION_LIMIT
    one = replace(LIMITS, max_parallel_migrations=1)
    over = check_concurrency([LiveMigration(VM, A, B)], busy, one)
    assert over is not None
    assert over.reason is RejectionReason.CLUSTER_MIGRATION_LIMIT


@pytest.mark.parametrize("per", [BudgetScope.CLUSTER, BudgetScope.NODE])
def test_bytes_of_disks_count_in_budgets(per: BudgetScope) -> None:
    # A disk has 20 GiB: two are within 40 GiB, three are not.
    past = [PastMigration(replace(MOVE, guest=OTHER), NOON)]
    for memory, fits in ((40, True), (39, False)):
        budget = MigrationBudget(memory=memory * GIB, window=3600, per=per)
        protection = Protection(budgets=(budget,))
        found = check_budgets([MOVE], lab(), past, LIMITS, protection)
        assert (found is None) is fits
