"""Guests that strict rules keep together start together."""

from __future__ import annotations

import pytest

from builders import guest_ids
from opendrs.controller.units import binding, units
from opendrs.model import Affinity, AntiAffinity, NodeId, PowerOn, Rule
from stage import migration, step

VM1 = step("1", migration("vm1", "a", "b"))
VM2 = step("2", migration("vm2", "a", "b"))
VM3 = step("3", migration("vm3", "a", "b"))
FIRST_TWO = Affinity(guests=guest_ids("vm1", "vm2"))
LAST_TWO = Affinity(guests=guest_ids("vm2", "vm3"))


@pytest.mark.parametrize(
    "rule",
    [
        Affinity(guests=guest_ids("vm1", "vm2"), strict=False),
        AntiAffinity(guests=guest_ids("vm1", "vm2")),
        Affinity(guests=guest_ids("vm1", "other")),
    ],
)
def test_a_step_is_alone_without_a_rule_that_binds_it(rule: Rule) -> None:
    assert units([VM1, VM2], [rule]) == ((VM1,), (VM2,))


def test_guests_of_a_rule_are_one_unit() -> None:
    assert units([VM1, VM3, VM2], [FIRST_TWO]) == ((VM1, VM2), (VM3,))


def test_rules_that_share_a_guest_bind_all_of_theirs() -> None:
    assert units([VM1, VM3], [FIRST_TWO, LAST_TWO]) == ((VM1, VM3),)


def test_guests_with_another_way_to_go_are_another_unit() -> None:
    elsewhere = step("2", migration("vm2", "a", "c"))

    assert units([VM1, elsewhere], [FIRST_TWO]) == ((VM1,), (elsewhere,))


def test_a_guest_that_goes_the_same_way_twice_does_not_do_so_at_once() -> None:
    back = step("4", migration("vm1", "b", "a"), "1")
    again = step("5", migration("vm1", "a", "b"), "4")

    assert units([VM1, back, again], [FIRST_TWO]) == ((VM1,), (back,), (again,))


def test_nodes_are_woken_one_by_one() -> None:
    wake = step("0", PowerOn(NodeId("c")))

    assert units([wake, VM1], [FIRST_TWO]) == ((wake,), (VM1,))


def test_names_the_rules_that_bind_a_unit() -> None:
    soft = Affinity(guests=guest_ids("vm1", "vm2"), strict=False)
    other = Affinity(guests=guest_ids("vm8", "vm9"))

    assert binding((VM1, VM2), [soft, FIRST_TWO, other, LAST_TWO]) == (
        FIRST_TWO,
        LAST_TWO,
    )
