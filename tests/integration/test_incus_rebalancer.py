"""threshold-rebalance beside the rebalancer of a real Incus cluster.

Each case sets loads at random from a fixed seed. The policy decides first, then Incus
does one pass: both must move the same guest to the same member, or none.
"""

from __future__ import annotations

import os
import random
from threading import Event

import pytest

from integration.incus_lab import MEMBERS, SUITE, IncusLab
from opendrs.model import GuestState, Limits, LiveMigration
from opendrs.platforms.incus import IncusPlatform
from opendrs.policies.threshold_rebalance import IncusVersion, ThresholdRebalance

pytestmark = [pytest.mark.shared, pytest.mark.lab]

CASES = int(os.environ.get("INCUS_CASES", "30"))
COMPATIBILITY = (
    IncusVersion.INCUS_6_0 if SUITE == "bookworm" else IncusVersion.INCUS_7_0_2
)
COOLDOWN = 1  # seconds in which Incus does not move an instance again
# 7.0.2 keeps loads for ten seconds. With 6.0, the lab reads them every three seconds.
PAUSE = 5.0 if SUITE == "bookworm" else 11.0
MACHINES = {"a": (1, 64), "b": (2, 128), "c": (6, 256), "d": (12, 96)}
NO_LIMITS = Limits(
    memory_headroom=0.0,
    memory_overcommit=100.0,
    cooldown=0.0,
    min_uptime=0.0,
    migrate_local_disks=True,
)


def set_random_loads(lab: IncusLab, source: random.Random) -> dict[str, object]:
    """Set loads up to three times the threads, which overflow the sums of Incus."""
    busiest = source.choice((8, 20, 48))
    loads = {
        member: (source.randint(5, 85), round(source.uniform(0, busiest), 2))
        for member in MEMBERS
    }
    for member, (memory, load) in loads.items():
        lab.load(member, memory, load)
    Event().wait(PAUSE)
    return dict(loads)


def decided_move(platform: IncusPlatform) -> tuple[str, str] | None:
    """Return guest and target that the policy chooses."""
    policy = ThresholdRebalance(
        compatibility=COMPATIBILITY, cooldown=0.0, limits=NO_LIMITS
    )
    snapshot = platform.observe()
    assert {guest.state for guest in snapshot.guests.values()} == {GuestState.RUNNING}
    steps = policy.decide(snapshot, policy.initial_memory()).plan.steps
    moves = [step.action for step in steps]
    assert len(moves) <= 1
    for move in moves:
        assert isinstance(move, LiveMigration)
        return str(move.guest), str(move.target)
    return None


def rebalanced(lab: IncusLab) -> tuple[str, str] | None:
    """Let Incus do one pass and return the instance and its new member."""
    before = lab.locations()
    lab.script("rebalance")
    changed = set(lab.locations().items()) - set(before.items())
    assert len(changed) <= 1
    return next(iter(changed), None)


def test_policy_chooses_what_the_rebalancer_of_incus_chooses(
    incus_lab: IncusLab,
) -> None:
    incus_lab.incus("config", "set", f"cluster.rebalance.cooldown={COOLDOWN}S")
    for number, (name, (cpus, memory)) in enumerate(MACHINES.items()):
        limits = (f"limits.cpu={cpus}", f"limits.memory={memory}MiB")
        member = MEMBERS[number % len(MEMBERS)]
        incus_lab.vm(name, member, "-c", limits[0], "-c", limits[1])
    platform = incus_lab.platform()
    source = random.Random(20261122)  # noqa: S311 - not a secret
    differences, moves = [], 0

    for case in range(CASES):
        loads = set_random_loads(incus_lab, source)
        placement = incus_lab.locations()
        ours = decided_move(platform)
        theirs = rebalanced(incus_lab)
        moves += theirs is not None
        if ours != theirs:
            differences.append((case, loads, placement, ours, theirs))

    assert differences == []
    assert moves >= CASES // 4
