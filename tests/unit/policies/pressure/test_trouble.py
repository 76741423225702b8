"""Who is in trouble, and who most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GIB, GuestId, Pressure, Stall, Usage
from opendrs.policies.pressure import PREFERENCES, Bounds, Trouble, ranked, weights
from opendrs.policies.pressure.trouble import trouble_of
from opendrs.scoring import AhpMethod, ahp, judgements, topsis_columns
from unit.policies.pressure.wards import host, vm

BOUNDS = Bounds()


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
    assert weights(method) == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_example_of_the_helpers_is_right_to_12_digits() -> None:
    # Of 80, 79 and 90 % cpu the least is best, of 100, 99 and 102 memory the most,
    # and memory is twice as important.
    names, matrix = judgements({"mem": {"mem": 1, "cpu": 2}, "cpu": {"cpu": 1}})
    shares = dict(zip(names, ahp(matrix).weights, strict=True))
    table = np.array([[80.0, 100], [79, 99], [90, 102]])

    scores = topsis_columns(table, [-shares["cpu"], shares["mem"]])

    expected = (0.745400652669653, 0.688707427881571, 0.311292572118429)
    assert shares == pytest.approx({"cpu": 1 / 3, "mem": 2 / 3}, rel=1e-12)
    assert scores == pytest.approx(np.array(expected), rel=1e-12)


def test_one_criterion_has_one_name() -> None:
    assert set(PREFERENCES["affinity"]) == set(PREFERENCES)
    assert list(PREFERENCES)[-1] == "totalcpu"


# CPU pressure.


@pytest.mark.parametrize(("waits", "in_trouble"), [(0.75, False), (0.751, True)])
def test_a_guest_is_in_trouble_that_waits_for_cpu_more_than_three_quarters(
    waits: float, *, in_trouble: bool
) -> None:
    found = trouble_of(vm("vm", "a", waits=waits), host("a", 50), BOUNDS)

    assert (found is not None) is in_trouble
    if found is not None:
        assert found.cpu_pressure == waits
        assert found.why == "it waits for cpu 75% of the time, more than 75%"


def test_a_guest_whose_waiting_is_not_known_is_not_in_trouble_by_it() -> None:
    unknown = vm("vm", "a", waits=None)

    assert trouble_of(unknown, host("a", 50), BOUNDS) is None
    crowded = trouble_of(unknown, host("a", 90), BOUNDS)
    assert crowded is not None
    assert crowded.cpu_pressure == 0.0


def test_full_stalls_are_not_counted() -> None:
    stalled = vm("vm", "a", pressure=Pressure(cpu=Stall(None, 1.0)))

    assert trouble_of(stalled, host("a", 50), BOUNDS) is None


# Memory.


@pytest.mark.parametrize(("used", "in_trouble"), [(85, False), (85.1, True)])
def test_all_guests_of_a_node_above_85_percent_of_its_memory_are_in_trouble(
    used: float, *, in_trouble: bool
) -> None:
    for size in (1, 4, 40):
        found = trouble_of(vm("vm", "a", memory=size), host("a", used), BOUNDS)
        assert (found is not None) is in_trouble


@pytest.mark.parametrize(
    ("merged", "used", "in_trouble"),
    [(20, 82, False), (20.1, 82, True), (20.1, 80, False)],
)
def test_where_more_than_a_fifth_is_merged_80_percent_is_the_bound(
    merged: float, used: float, *, in_trouble: bool
) -> None:
    node = host("a", used, ksm_shared=int(merged * GIB))

    assert (trouble_of(vm("vm", "a"), node, BOUNDS) is not None) is in_trouble
    assert BOUNDS.giving(node) == BOUNDS.receiving(node)


def test_where_it_is_not_known_how_much_is_merged_nobody_gives_and_nobody_gets() -> (
    None
):
    unknown = host("a", 82, ksm_shared=None)

    assert trouble_of(vm("vm", "a"), unknown, BOUNDS) is None
    assert BOUNDS.giving(unknown) == pytest.approx(85 * GIB)
    assert BOUNDS.receiving(unknown) == pytest.approx(80 * GIB)


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
    found = trouble_of(vm("vm", "a", memory=size), host("a", 90), BOUNDS)

    assert found is not None
    assert found.memory_pressure == pytest.approx(pressure)


def test_a_guest_waits_and_is_crowded_at_once() -> None:
    found = trouble_of(vm("vm", "a", memory=10, waits=0.9), host("a", 90), BOUNDS)

    assert found is not None
    assert found.why == (
        "it waits for cpu 90% of the time, more than 75% and a uses 90.0% of its "
        "memory, more than 85%, and 80.0% without it"
    )


def test_a_guest_whose_memory_is_not_known_is_in_trouble_with_its_node() -> None:
    dark = replace(vm("vm", "a"), usage=Usage(1.0, None))

    found = trouble_of(dark, host("a", 90), BOUNDS)

    assert found is not None
    assert found.memory_pressure == 0.0
    assert found.why == "a uses 90.0% of its memory, more than 85%"


# Who is worst off.


def case(
    name: str,
    waits: float = 0.0,
    crowded: float = 0.0,
    memory: float = 4,
    cpu: float = 1.0,
) -> Trouble:
    guest = replace(vm(name, "a"), usage=Usage(cpu, int(memory * GIB)))
    return Trouble(guest, waits, crowded, "")


def order(*cases: Trouble) -> str:
    return "".join(each.guest.id for each in ranked(cases))


def test_who_waits_longer_comes_first() -> None:
    assert order(case("x", waits=0.8), case("y", waits=0.9)) == "yx"


def test_who_just_suffices_to_relieve_the_node_comes_first() -> None:
    assert order(case("x", crowded=0.1), case("y", crowded=0.9)) == "yx"


def test_who_is_smaller_comes_first() -> None:
    assert order(case("x", memory=8), case("y", memory=4)) == "yx"


def test_who_uses_less_cpu_comes_first() -> None:
    assert order(case("x", cpu=2), case("y", cpu=1)) == "yx"


def test_waiting_for_cpu_weighs_more_than_memory() -> None:
    assert order(case("x", crowded=0.9), case("y", waits=0.9)) == "yx"


def test_need_weighs_more_than_ease() -> None:
    light, heavy = case("x", 0.76, memory=1, cpu=0.1), case("y", 1.0, memory=8, cpu=4)

    # By hand, apart by 0.164 in pressure, and by 0.103, 0.051 and 0.039 elsewhere.
    far = ranked([case("x", 0.0, 0.9, memory=1, cpu=0.1), heavy])
    assert [each.guest.id for each in far] == ["y", "x"]
    # Apart by 0.031 in pressure, and by 0.051 and 0.039 elsewhere.
    assert [each.guest.id for each in ranked([light, heavy])] == ["x", "y"]


def test_a_single_guest_in_trouble_is_ranked_although_it_scores_0() -> None:
    assert order(case("x", waits=0.9)) == "x"
    assert ranked([]) == []


def test_equals_are_ranked_by_name() -> None:
    assert order(case("z"), case("x"), case("y")) == "xyz"


@given(st.permutations([case(f"g{n}", n / 10, 0.1 * (n % 3), n, n) for n in range(9)]))
def test_the_order_in_which_guests_come_does_not_matter(cases: list[Trouble]) -> None:
    found = [each.guest.id for each in ranked(cases)]

    assert found == [each.guest.id for each in ranked(sorted(cases, key=_name))]


def _name(trouble: Trouble) -> GuestId:
    return trouble.guest.id
