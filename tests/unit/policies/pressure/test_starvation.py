"""Starved guests and their ranking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import AhpMethod, ahp, judgment_matrix, topsis_array
from opendrs.model import GIB, GuestId, Pressure, Stall, Usage
from opendrs.policies.pressure import (
    PREFERENCES,
    PressureThresholds,
    StarvedGuest,
    criteria_weights,
    rank_starved,
)
from opendrs.policies.pressure.starvation import find_starvation
from unit.policies.pressure.starved_clusters import host, vm

THRESHOLDS = PressureThresholds()


# AHP and TOPSIS. The figures were computed independently of this project.


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            AhpMethod.ROW_MEANS,
            (
                0.6349039364047594,
                0.1640555987481021,
                0.10251736741486854,
                -0.05851884561146868,
                -0.04000425182080127,
            ),
        ),
        (
            AhpMethod.EIGENVECTOR,
            (
                0.6709421812832357,
                0.1530036696583888,
                0.0881730809699044,
                -0.0515598586124644,
                -0.0363212094760068,
            ),
        ),
    ],
)
def test_the_weights_of_the_criteria_are_right_to_12_digits(
    method: AhpMethod, expected: tuple[float, ...]
) -> None:
    assert criteria_weights(method) == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_example_of_the_helpers_is_right_to_12_digits() -> None:
    # Of 80, 79 and 90 % cpu the least is best, of 100, 99 and 102 memory the most,
    # and memory is twice as important.
    names, matrix = judgment_matrix({"mem": {"mem": 1, "cpu": 2}, "cpu": {"cpu": 1}})
    shares = dict(zip(names, ahp(matrix).weights, strict=True))
    table = np.array([[80.0, 100], [79, 99], [90, 102]])

    scores = topsis_array(table, [-shares["cpu"], shares["mem"]])

    expected = (0.745400652669653, 0.688707427881571, 0.311292572118429)
    assert shares == pytest.approx({"cpu": 1 / 3, "mem": 2 / 3}, rel=1e-12)
    assert scores == pytest.approx(np.array(expected), rel=1e-12)


def test_one_criterion_has_one_name() -> None:
    assert set(PREFERENCES["affinity"]) == set(PREFERENCES)
    assert list(PREFERENCES)[-1] == "totalcpu"


# CPU pressure.


@pytest.mark.parametrize(("waits", "is_starved"), [(0.75, False), (0.751, True)])
def test_guest_above_cpu_pressure_threshold_is_starved(
    waits: float, *, is_starved: bool
) -> None:
    found = find_starvation(vm("vm", "a", cpu_stall=waits), host("a", 50), THRESHOLDS)

    assert (found is not None) is is_starved
    if found is not None:
        assert found.cpu_pressure == waits
        assert found.detail == "stalled for CPU 75% of the time, more than 75%"


def test_guest_with_unknown_cpu_pressure_is_not_starved_by_it() -> None:
    unknown = vm("vm", "a", cpu_stall=None)

    assert find_starvation(unknown, host("a", 50), THRESHOLDS) is None
    crowded = find_starvation(unknown, host("a", 90), THRESHOLDS)
    assert crowded is not None
    assert crowded.cpu_pressure == 0.0


def test_full_stalls_are_not_counted() -> None:
    stalled = vm("vm", "a", pressure=Pressure(cpu=Stall(None, 1.0)))

    assert find_starvation(stalled, host("a", 50), THRESHOLDS) is None


# Memory.


@pytest.mark.parametrize(("used", "is_starved"), [(85, False), (85.1, True)])
def test_guests_of_node_above_memory_threshold_are_starved(
    used: float, *, is_starved: bool
) -> None:
    for size in (1, 4, 40):
        found = find_starvation(vm("vm", "a", memory=size), host("a", used), THRESHOLDS)
        assert (found is not None) is is_starved


@pytest.mark.parametrize(
    ("merged", "used", "is_starved"),
    [(20, 82, False), (20.1, 82, True), (20.1, 80, False)],
)
def test_memory_threshold_ksm_applies_above_ksm_threshold(
    merged: float, used: float, *, is_starved: bool
) -> None:
    node = host("a", used, ksm_shared=int(merged * GIB))

    assert (find_starvation(vm("vm", "a"), node, THRESHOLDS) is not None) is is_starved
    assert THRESHOLDS.source_limit(node) == THRESHOLDS.target_limit(node)


def test_unknown_ksm_uses_higher_source_and_lower_target_threshold() -> None:
    unknown = host("a", 82, ksm_shared=None)

    assert find_starvation(vm("vm", "a"), unknown, THRESHOLDS) is None
    assert THRESHOLDS.source_limit(unknown) == pytest.approx(85 * GIB)
    assert THRESHOLDS.target_limit(unknown) == pytest.approx(80 * GIB)


@pytest.mark.parametrize(
    ("size", "pressure"),
    [
        (4, 0.0),  # 86 GiB without it: too small to help alone
        (5, 0.0),  # exactly the bound is not below it
        (6, 5 / 6),
        (10, 5 / 10),
        (50, 5 / 50),
    ],
)
def test_the_memory_pressure_is_what_is_too_much_as_a_part_of_the_guest(
    size: float, pressure: float
) -> None:
    found = find_starvation(vm("vm", "a", memory=size), host("a", 90), THRESHOLDS)

    assert found is not None
    assert found.memory_pressure == pytest.approx(pressure)


def test_a_guest_waits_and_is_crowded_at_once() -> None:
    found = find_starvation(
        vm("vm", "a", memory=10, cpu_stall=0.9), host("a", 90), THRESHOLDS
    )

    assert found is not None
    assert found.detail == (
        "stalled for CPU 90% of the time, more than 75% and a uses 90.0% of its "
        "memory, more than 85%, and 80.0% without it"
    )


def test_guest_with_unknown_memory_is_starved_with_its_node() -> None:
    dark = replace(vm("vm", "a"), usage=Usage(1.0, None))

    found = find_starvation(dark, host("a", 90), THRESHOLDS)

    assert found is not None
    assert found.memory_pressure == 0.0
    assert found.detail == "a uses 90.0% of its memory, more than 85%"


# Who is worst off.


def starved(
    name: str,
    cpu_stall: float = 0.0,
    memory_pressure: float = 0.0,
    memory: float = 4,
    cpu: float = 1.0,
) -> StarvedGuest:
    guest = replace(vm(name, "a"), usage=Usage(cpu, int(memory * GIB)))
    return StarvedGuest(guest, cpu_stall, memory_pressure, "")


def order(*cases: StarvedGuest) -> str:
    return "".join(each.guest.id for each in rank_starved(cases))


def test_higher_cpu_pressure_ranks_first() -> None:
    assert order(starved("x", cpu_stall=0.8), starved("y", cpu_stall=0.9)) == "yx"


def test_guest_that_just_relieves_node_ranks_first() -> None:
    assert (
        order(starved("x", memory_pressure=0.1), starved("y", memory_pressure=0.9))
        == "yx"
    )


def test_smaller_guest_ranks_first() -> None:
    assert order(starved("x", memory=8), starved("y", memory=4)) == "yx"


def test_lower_cpu_usage_ranks_first() -> None:
    assert order(starved("x", cpu=2), starved("y", cpu=1)) == "yx"


def test_waiting_for_cpu_weighs_more_than_memory() -> None:
    assert order(starved("x", memory_pressure=0.9), starved("y", cpu_stall=0.9)) == "yx"


def test_need_weighs_more_than_ease() -> None:
    light, heavy = (
        starved("x", 0.76, memory=1, cpu=0.1),
        starved("y", 1.0, memory=8, cpu=4),
    )

    # By hand, apart by 0.164 in pressure, and by 0.103, 0.051 and 0.039 elsewhere.
    far = rank_starved([starved("x", 0.0, 0.9, memory=1, cpu=0.1), heavy])
    assert [each.guest.id for each in far] == ["y", "x"]
    # Apart by 0.031 in pressure, and by 0.051 and 0.039 elsewhere.
    assert [each.guest.id for each in rank_starved([light, heavy])] == ["x", "y"]


def test_single_starved_guest_with_score_0_is_ranked() -> None:
    assert order(starved("x", cpu_stall=0.9)) == "x"
    assert rank_starved([]) == []


def test_equals_are_ranked_by_name() -> None:
    assert order(starved("z"), starved("x"), starved("y")) == "xyz"


@given(
    st.permutations([starved(f"g{n}", n / 10, 0.1 * (n % 3), n, n) for n in range(9)])
)
def test_the_order_in_which_guests_come_does_not_matter(
    cases: list[StarvedGuest],
) -> None:
    found = [each.guest.id for each in rank_starved(cases)]

    assert found == [each.guest.id for each in rank_starved(sorted(cases, key=_name))]


def _name(starved_guest: StarvedGuest) -> GuestId:
    return starved_guest.guest.id
