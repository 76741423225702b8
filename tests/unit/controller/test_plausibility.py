"""Numbers that cannot be are errors, improbable ones warnings; a unit is guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders import NOON
from opendrs.controller.plausibility import implausible, impossible, odd_limits
from opendrs.model import (
    GIB,
    Guest,
    GuestId,
    GuestKind,
    Limits,
    Network,
    Node,
    NodeId,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.platforms.file import Severity, dotted
from opendrs.sim import draw_cluster

MIB = 1 << 20


def cluster_with(
    node: dict[str, Any] | None = None, guest: dict[str, Any] | None = None
) -> Snapshot:
    """Return a node with 16 cores and 64 GiB, and a guest with 2 and 16 on it."""
    usual: dict[str, Any] = {"capacity": Resources(16, 64 * GIB)}
    host = Node(id=NodeId("n"), **(usual | (node or {})))
    usual = {"limit": Resources(2, 16 * GIB)}
    made = Guest(
        id=GuestId("g"), node=host.id, kind=GuestKind.VM, **(usual | (guest or {}))
    )
    return Snapshot(taken_at=NOON, nodes={host.id: host}, guests={made.id: made})


def on_node(**fields: object) -> Callable[[], Snapshot]:
    return lambda: cluster_with(node=fields)


def on_guest(**fields: object) -> Callable[[], Snapshot]:
    return lambda: cluster_with(guest=fields)


@pytest.mark.parametrize(
    ("snapshot", "field", "told"),
    [
        (on_node(capacity=Resources(16, 64)), "nodes.n.capacity.memory", '"64 GiB"?'),
        (on_node(capacity=Resources(16, 65_536)), "nodes.n.capacity.memory", '6 MiB"?'),
        (on_node(usage=Usage(cpu=59)), "nodes.n.usage.cpu", "59 % of them are 9.44"),
        (on_node(usage=Usage(memory=128 * GIB)), "nodes.n.usage.memory", "of 64 GiB"),
        (on_guest(limit=Resources(2, 4096)), "guests.g.limit.memory", '"4096 MiB"?'),
        (on_guest(usage=Usage(memory=99 * 10**12)), "guests.g.usage.memory", "90.04"),
        (on_guest(usage=Usage(memory=50 * GIB)), "guests.g.usage.memory", "of 16 GiB"),
        (on_guest(usage=Usage(cpu=200)), "guests.g.usage.cpu", "a node that has 16"),
    ],
)
def test_what_cannot_be_is_an_error(
    snapshot: Callable[[], Snapshot], field: str, told: str
) -> None:
    (found,) = implausible(snapshot())

    assert (found.severity, dotted(found.at)) == (Severity.ERROR, field)
    assert told in found.text
    assert list(impossible(snapshot())) == [found]


@pytest.mark.parametrize(
    ("snapshot", "field"),
    [
        (on_node(capacity=Resources(16, 64 * MIB)), "nodes.n.capacity.memory"),
        (on_node(capacity=Resources(38_400, GIB)), "nodes.n.capacity.cpu"),
        (on_node(usage=Usage(cpu=17)), "nodes.n.usage.cpu"),
        (on_node(usage=Usage(memory=65 * GIB)), "nodes.n.usage.memory"),
        (on_node(load_average=1e6), "nodes.n.load_average"),
        (on_node(ksm_shared=10**12), "nodes.n.ksm_shared"),
        (on_guest(limit=Resources(2, 4 * MIB)), "guests.g.limit.memory"),
        (on_guest(limit=Resources(2400 * 4, GIB)), "guests.g.limit.cpu"),
        (on_guest(usage=Usage(memory=24 * GIB)), "guests.g.usage.memory"),
        (on_guest(usage=Usage(cpu=10)), "guests.g.usage.cpu"),
        (on_guest(uptime=1e10), "guests.g.uptime"),
        (on_guest(dirty_rate=1e15), "guests.g.dirty_rate"),
    ],
)
def test_what_is_improbable_is_a_warning(
    snapshot: Callable[[], Snapshot], field: str
) -> None:
    (found,) = implausible(snapshot())

    assert (found.severity, dotted(found.at)) == (Severity.WARNING, field)
    assert not list(impossible(snapshot()))


@pytest.mark.parametrize(
    "snapshot",
    [
        on_node(),
        on_node(capacity=None, usage=Usage(cpu=1e6)),
        on_node(usage=Usage(cpu=16.2, memory=64 * GIB)),
        on_node(capacity=Resources(512, 24 * 1024 * GIB)),
        on_guest(limit=None, usage=Usage(cpu=16, memory=64 * GIB)),
        on_guest(limit=Resources(0, 0), usage=Usage(cpu=8, memory=GIB)),
        on_guest(usage=Usage(cpu=2.4, memory=17 * GIB)),
        lambda: draw_cluster(1),
    ],
)
def test_what_is_measured_a_little_beyond_is_neither(
    snapshot: Callable[[], Snapshot],
) -> None:
    assert list(implausible(snapshot())) == []


def test_limits_that_are_allowed_and_odd_are_warned_about() -> None:
    line = Network(name="line", nodes=(NodeId("n"),), bandwidth=10.0)
    odd = Limits(
        memory_headroom=0.9,
        memory_overbooking=150.0,
        cooldown=600_000_000 / 10,
        quiet_time=1e6,
        patience=0.0,
        bandwidth=1000.0,
        networks=(line,),
    )

    found = list(odd_limits(odd))

    assert {dotted(each.at).removeprefix("limits.") for each in found} == {
        *("memory_headroom", "memory_overbooking", "cooldown", "quiet_time"),
        *("patience", "bandwidth", "networks[0].bandwidth"),
    }
    assert all(each.severity is Severity.WARNING for each in found)
    texts = {dotted(each.at): each.text for each in found}
    assert '"10 Gbit/s"' in texts["limits.networks[0].bandwidth"]
    assert '"1000 Mbit/s"' in texts["limits.bandwidth"]
    assert list(odd_limits(Limits(bandwidth=125e6))) == []
