"""Guests that strict rules keep together start together."""

from __future__ import annotations

import pytest

from opendrs.controller.step_groups import binding_rules, group_steps
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    NodeId,
    PowerOn,
    Relocation,
    Rule,
)
from support.builders import guest_ids
from support.simulated_cluster import migration, step

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
def test_step_without_rule_is_own_group(rule: Rule) -> None:
    assert group_steps([VM1, VM2], [rule]) == ((VM1,), (VM2,))


def test_guests_of_affinity_are_one_group() -> None:
    assert group_steps([VM1, VM3, VM2], [FIRST_TWO]) == ((VM1, VM2), (VM3,))


def test_stopped_guest_of_affinity_is_in_the_group() -> None:
    stopped = step("2", Relocation(GuestId("vm2"), NodeId("a"), NodeId("b")))

    assert group_steps([VM1, stopped], [FIRST_TWO]) == ((VM1, stopped),)


def test_rules_sharing_a_guest_form_one_group() -> None:
    assert group_steps([VM1, VM3], [FIRST_TWO, LAST_TWO]) == ((VM1, VM3),)


def test_guests_with_other_target_are_other_group() -> None:
    elsewhere = step("2", migration("vm2", "a", "c"))

    assert group_steps([VM1, elsewhere], [FIRST_TWO]) == ((VM1,), (elsewhere,))


def test_repeated_migration_is_other_group() -> None:
    back = step("4", migration("vm1", "b", "a"), "1")
    again = step("5", migration("vm1", "a", "b"), "4")

    assert group_steps([VM1, back, again], [FIRST_TWO]) == ((VM1,), (back,), (again,))


def test_power_actions_are_single_groups() -> None:
    power_on = step("0", PowerOn(NodeId("c")))

    assert group_steps([power_on, VM1], [FIRST_TWO]) == ((power_on,), (VM1,))


def test_binding_rules_of_group_are_returned() -> None:
    soft = Affinity(guests=guest_ids("vm1", "vm2"), strict=False)
    other = Affinity(guests=guest_ids("vm8", "vm9"))

    assert binding_rules((VM1, VM2), [soft, FIRST_TWO, other, LAST_TWO]) == (
        FIRST_TWO,
        LAST_TWO,
    )
