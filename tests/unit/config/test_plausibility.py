"""Impossible numbers are errors, improbable ones warnings with a likely unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opendrs.config import Severity, path_text
from opendrs.config.plausibility import check_limits, find_implausible, find_impossible
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
from opendrs.simulation import demo_cluster
from support.builders import NOON

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
    ("snapshot", "field", "message"),
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
def test_impossible_value_is_error(
    snapshot: Callable[[], Snapshot], field: str, message: str
) -> None:
    (found,) = find_implausible(snapshot())

    assert (found.severity, path_text(found.path)) == (Severity.ERROR, field)
    assert message in found.text
    assert list(find_impossible(snapshot())) == [found]


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
def test_implausible_value_is_warning(
    snapshot: Callable[[], Snapshot], field: str
) -> None:
    (found,) = find_implausible(snapshot())

    assert (found.severity, path_text(found.path)) == (Severity.WARNING, field)
    assert not list(find_impossible(snapshot()))


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
        lambda: demo_cluster(1),
    ],
)
def test_value_within_tolerance_is_accepted(
    snapshot: Callable[[], Snapshot],
) -> None:
    assert list(find_implausible(snapshot())) == []


def test_unusual_limits_are_warnings() -> None:
    line = Network(name="line", nodes=(NodeId("n"),), bandwidth=10.0)
    odd = Limits(
        memory_headroom=0.9,
        memory_overcommit=150.0,
        cooldown=600_000_000 / 10,
        min_uptime=1e6,
        migration_timeout=0.0,
        bandwidth=1000.0,
        networks=(line,),
    )

    found = list(check_limits(odd))

    assert {path_text(each.path).removeprefix("limits.") for each in found} == {
        *("memory_headroom", "memory_overcommit", "cooldown", "min_uptime"),
        *("migration_timeout", "bandwidth", "networks[0].bandwidth"),
    }
    assert all(each.severity is Severity.WARNING for each in found)
    texts = {path_text(each.path): each.text for each in found}
    assert '"10 Gbit/s"' in texts["limits.networks[0].bandwidth"]
    assert '"1000 Mbit/s"' in texts["limits.bandwidth"]
    assert list(check_limits(Limits(bandwidth=125e6))) == []
