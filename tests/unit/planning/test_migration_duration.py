"""Estimated durations of live migrations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import (
    GIB,
    Action,
    ColdMigration,
    Disk,
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
    Snapshot,
    Storage,
    Usage,
)
from opendrs.planning import Certainty
from opendrs.planning.migration_duration import (
    MAX_DOWNTIME,
    DurationEstimate,
    estimate_duration,
    estimate_live_migration,
    estimate_pre_copy,
)
from opendrs.simulation.migration_model import PreCopy
from support.builders import cluster, guest, node

A, B, VM = NodeId("a"), NodeId("b"), GuestId("vm")


def test_memory_without_writes_is_sent_once() -> None:
    assert estimate_pre_copy(8e9, 0.0, 1e9) == DurationEstimate(
        8.0, 0.0, Certainty.ESTIMATED
    )


def test_each_round_sends_what_was_written_in_the_one_before() -> None:
    found = estimate_pre_copy(8e9, 0.5e9, 1e9)

    # Worked by hand: 8, 4, 2, 1, 0.5 s, and 0.25 s in which the guest stands still.
    assert found.seconds == pytest.approx(15.75)
    assert found.downtime == pytest.approx(0.25)


def test_a_guest_stands_still_as_soon_as_the_rest_is_sent_in_time() -> None:
    found = estimate_pre_copy(1e9, 0.3e9, 1e9)

    assert found.seconds == pytest.approx(1.3)
    assert found.downtime == pytest.approx(0.3)


@pytest.mark.parametrize("dirty_rate", [1e9, 2e9])
def test_a_guest_that_writes_as_fast_as_it_is_sent_never_arrives(
    dirty_rate: float,
) -> None:
    assert estimate_pre_copy(8e9, dirty_rate, 1e9) == DurationEstimate(
        None, None, Certainty.NEVER_COMPLETES
    )


def test_a_small_guest_arrives_however_fast_it_writes() -> None:
    found = estimate_pre_copy(0.1e9, 2e9, 1e9)

    assert found.seconds == pytest.approx(0.1 + 0.2)
    assert found.certainty is Certainty.ESTIMATED


@given(st.floats(65 << 20, 1e13), st.floats(0, 0.98), st.floats(1e7, 1e11))
def test_the_closed_form_agrees_with_the_rounds_one_by_one(
    memory: float, ratio: float, bandwidth: float
) -> None:
    whole = int(memory)
    rounds = PreCopy(whole, ratio * bandwidth, math.inf, MAX_DOWNTIME)
    seconds = 0.0
    while not rounds.handle_event(bandwidth):
        passed = rounds.time_to_event(bandwidth)
        rounds.run(passed, bandwidth)
        seconds += passed

    found = estimate_pre_copy(whole, ratio * bandwidth, bandwidth)

    assert found.seconds == pytest.approx(seconds, rel=1e-6, abs=1e-6)
    assert found.downtime is not None
    assert found.downtime <= MAX_DOWNTIME * (1 + 1e-9)


@given(st.floats(0, 1e15), st.floats(0, 1e11), st.floats(1, 1e12))
def test_no_guest_arrives_sooner_than_its_memory(
    memory: float, dirty_rate: float, bandwidth: float
) -> None:
    found = estimate_pre_copy(memory, dirty_rate, bandwidth)

    if found.seconds is None:
        assert dirty_rate >= bandwidth
    else:
        assert found.seconds >= memory / bandwidth * (1 - 1e-9)


def test_without_a_dirty_rate_it_takes_at_least_as_long_as_to_send_all() -> None:
    still = guest("vm", "a", 0.08)  # 8 GiB

    assert estimate_live_migration(still, GIB) == DurationEstimate(
        8.0, None, Certainty.AT_LEAST
    )


def test_without_a_measured_size_nothing_is_known() -> None:
    dark = guest("vm", "a", 0.08, usage=Usage(), dirty_rate=0.0)

    assert estimate_live_migration(dark, GIB).certainty is Certainty.UNKNOWN


@pytest.mark.parametrize("action", [ColdMigration(VM, A, B), PowerOn(A), PowerOff(A)])
def test_duration_of_cold_migration_is_unknown(action: Action) -> None:
    snapshot = cluster({"a": 0.1, "b": 0.0}, {"vm": ("a", 0.08)})

    assert estimate_duration(action, snapshot, GIB).certainty is Certainty.UNKNOWN
    assert estimate_duration(LiveMigration(VM, A, B), snapshot, GIB).seconds == 8.0


def with_local_disk() -> Snapshot:
    """Return a guest with 10 GiB of memory and a local disk of 30 GiB."""
    plain = cluster({"b": 0.1}, {})
    local = (Storage(id="zfs", shared=False),)
    disks = (Disk(storage="zfs", size=30 * GIB),)
    vm = guest("vm", "a", 0.1, disks=disks, dirty_rate=0.0)
    nodes = {**plain.nodes, A: node("a", 0.1, storages=local)}
    return replace(plain, nodes=nodes, guests={VM: vm})


def test_local_disks_are_copied_before_the_memory() -> None:
    found = estimate_duration(LiveMigration(VM, A, B), with_local_disk(), GIB)

    # 30 s for the disk and 10 s for the memory, at 1 GiB/s.
    assert found == DurationEstimate(40.0, 0.0, Certainty.ESTIMATED)


def test_cold_migration_takes_at_least_the_copy_of_local_disks() -> None:
    found = estimate_duration(ColdMigration(VM, A, B), with_local_disk(), GIB)

    assert found == DurationEstimate(30.0, None, Certainty.AT_LEAST)
