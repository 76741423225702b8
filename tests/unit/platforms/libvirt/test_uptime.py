"""Start times of guests, learned from one observation to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.model import NodeId
from opendrs.platforms.libvirt.guest_location import locate_guests
from opendrs.platforms.libvirt.responses import DomainResponse
from opendrs.platforms.libvirt.uptime import StartTimes
from support.libvirt_responses import RUNNING, domain, incoming, shut_off

H1, H2 = NodeId("h1"), NodeId("h2")
FIRST, SECOND = replace(RUNNING, domain_id=1), replace(RUNNING, domain_id=2)
# Reasons 2 and 5: migrated, and unpaused.
ARRIVED = replace(domain(state__reason=2), domain_id=7)
RESUMED = replace(domain(state__reason=5), domain_id=2)
PAUSED = replace(domain(state__state=3, state__reason=1), domain_id=1)
Hosts = dict[NodeId, list[DomainResponse]]


def uptime(*observations: tuple[float, Hosts]) -> float | None:
    """Return the uptime of the only guest in the last of some observations."""
    start_times = StartTimes()
    for now, hosts in observations:
        located = locate_guests(hosts)
        start_times.update(located, dict.fromkeys(hosts, now))
    (guest,) = located
    return start_times.uptime(guest, now)


EMPTY: Hosts = {H1: [], H2: []}
ON_H1: Hosts = {H1: [FIRST], H2: []}


def test_guest_that_ran_before_has_unknown_uptime() -> None:
    assert uptime((100.0, ON_H1), (160.0, ON_H1)) is None


@pytest.mark.parametrize("before", [EMPTY, {H1: [shut_off()], H2: []}])
def test_guest_that_started_between_observations_has_an_uptime(before: Hosts) -> None:
    assert uptime((100.0, before), (160.0, ON_H1)) == 0.0
    assert uptime((100.0, before), (160.0, ON_H1), (230.0, ON_H1)) == 70.0


def test_guest_that_restarted_between_observations_has_an_uptime() -> None:
    assert uptime((100.0, ON_H1), (160.0, {H1: [SECOND], H2: []})) == 0.0


def test_guest_that_migrated_keeps_its_start() -> None:
    moving: Hosts = {H1: [FIRST], H2: [replace(incoming(), domain_id=7)]}
    moved: Hosts = {H1: [], H2: [ARRIVED]}

    assert uptime((0, EMPTY), (10, ON_H1), (20, moving), (30, moved)) == 20.0
    assert uptime((0, ON_H1), (20, moving), (30, moved)) is None


def test_guest_that_arrives_from_a_node_not_observed_has_unknown_uptime() -> None:
    assert uptime((100.0, {H1: []}), (160.0, {H1: [ARRIVED]})) is None


def test_guest_that_stopped_and_booted_elsewhere_has_a_new_uptime() -> None:
    elsewhere: Hosts = {H1: [], H2: [SECOND]}

    assert uptime((0, EMPTY), (10, ON_H1), (100, elsewhere), (130, elsewhere)) == 30.0


def test_guest_that_is_resumed_after_its_start_has_unknown_uptime() -> None:
    assert uptime((100.0, EMPTY), (160.0, {H1: [RESUMED], H2: []})) is None


def test_guest_after_unreachable_node_has_unknown_uptime() -> None:
    assert uptime((100.0, {H2: []}), (160.0, ON_H1)) is None


def test_guest_of_unreachable_node_keeps_its_start() -> None:
    unreachable: Hosts = {H2: [replace(RUNNING, uuid="other", name="other")]}
    observations = [(0, EMPTY), (10, ON_H1), (20, unreachable), (30, ON_H1)]

    assert uptime(*observations) == 20.0


def test_paused_guest_has_no_uptime() -> None:
    assert uptime((0, EMPTY), (10, ON_H1), (20, {H1: [PAUSED], H2: []})) is None
