"""Impact of node failures, simulated from a common start phase."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing import active_children

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.errors import OpenDRSError
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    Limits,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
)
from opendrs.pve_ha.simulator.actions import SetPower
from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.event_schedule import ScheduledEvent, run_schedule
from opendrs.pve_ha.simulator.node_failure import (
    FAILURE_TIME,
    MAX_RECOVERY_TIME,
    NO_FAILBACK,
    NodeFailureSimulation,
)
from opendrs.pve_ha.simulator.process_pool import simulate_failures
from opendrs.pve_ha.simulator.service_requests import ServiceRequests
from opendrs.pve_ha.simulator.setup import prepare_drill
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings
from support.builders import cluster, guest_ids
from support.drills import simulate_node_failure

A, B, C, D = (NodeId(name) for name in "abcd")
NODES = (A, B, C, D)
LIMITS = Limits()
NAMES = tuple(f"vm:{number}" for number in range(1, 9))


def altered(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    """Return *snapshot* with one guest changed."""
    guest: Guest = replace(snapshot.guests[GuestId(name)], **changes)  # type: ignore[arg-type]
    return replace(snapshot, guests={**snapshot.guests, guest.id: guest})


SMALL = cluster(
    nodes={"a": 0.3, "b": 0.2, "c": 0.2, "d": 0.0},
    guests={"vm:1": ("a", 0.1), "vm:2": ("a", 0.1), "vm:3": ("b", 0.1)},
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw clusters with rules, some violated, and guests without mobility."""
    guests = {name: (draw(st.sampled_from(NODES)), 0.05) for name in NAMES}
    some = st.lists(st.sampled_from(NAMES), min_size=2, max_size=3, unique=True)
    rules: list[Rule] = []
    for kind in draw(
        st.lists(st.sampled_from(["apart", "together", "nodes"]), max_size=3)
    ):
        members = guest_ids(*draw(some))
        if kind == "apart":
            rules.append(AntiAffinity(guests=members, name=f"apart {len(rules)}"))
        elif kind == "together":
            rules.append(Affinity(guests=members, name=f"together {len(rules)}"))
        else:
            nodes = dict.fromkeys(draw(st.sets(st.sampled_from(NODES), min_size=1)), 1)
            rules.append(
                NodeAffinity(guests=members, nodes=nodes, strict=draw(st.booleans()))
            )
    drawn = cluster(nodes=dict.fromkeys("abcd", 0.2), guests=guests, rules=rules)
    in_maintenance = draw(st.sampled_from([None, *NODES]))
    if in_maintenance is not None:
        node = replace(drawn.nodes[in_maintenance], state=NodeState.MAINTENANCE)
        drawn = replace(drawn, nodes={**drawn.nodes, in_maintenance: node})
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        drawn = altered(
            drawn,
            name,
            mobility=Mobility.NONE,
            mobility_detail="a passed-through device",
        )
    return drawn


modes = st.sampled_from(["basic", "static"])


@settings(max_examples=25, deadline=None)
@given(clusters(), modes)
def test_failure_from_common_start_equals_separate_drill(
    drawn: Snapshot, mode: str
) -> None:
    datacenter = DatacenterSettings(CrsSettings(mode=mode))
    common = NodeFailureSimulation(drawn, limits=LIMITS, datacenter=datacenter)

    for nodes in ([A], [B], [C], [D], [A, C]):
        alone = simulate_node_failure(
            drawn, nodes, limits=LIMITS, datacenter=datacenter
        )
        assert common.simulate(nodes).drill.log() == alone.drill.log()


@settings(max_examples=25, deadline=None)
@given(clusters(), modes, st.sampled_from(NODES))
def test_shortened_failure_run_equals_full_drill(
    drawn: Snapshot, mode: str, failed: NodeId
) -> None:
    """LRMs that do not recheck services, and an end once all is settled."""
    datacenter = DatacenterSettings(CrsSettings(mode=mode))
    setup = prepare_drill(drawn, ServiceRequests(default=NO_FAILBACK), datacenter)
    power = SetPower(setup.names.nodes[failed], on=False)
    power_off = ScheduledEvent(
        FAILURE_TIME, CommandStep(f"power {failed} off", "node failure", power)
    )
    whole = run_schedule(
        setup.scenario,
        [*setup.initial_events, power_off],
        settle_time=MAX_RECOVERY_TIME,
    )

    short = simulate_node_failure(
        drawn, [failed], limits=LIMITS, datacenter=datacenter
    ).drill

    assert short.log().splitlines()[:-1] == whole.log().splitlines()[:-1]


def test_process_pool_gives_same_impacts_as_one_process() -> None:
    simulation = NodeFailureSimulation(SMALL, limits=LIMITS)

    with simulate_failures(simulation, NODES, 1) as impacts:
        one = [impact.drill.log() for impact in impacts]
    with simulate_failures(simulation, NODES, 2) as impacts:
        two = [impact.drill.log() for impact in impacts]

    assert one == two
    assert len(set(one)) == len(NODES)


def simulate_while_processes_are_killed(nodes: tuple[NodeId, ...]) -> None:
    simulation = NodeFailureSimulation(SMALL, limits=LIMITS)
    with simulate_failures(simulation, nodes, 2) as impacts:
        next(impacts)
        for process in active_children():
            process.kill()
        list(impacts)


def test_killed_process_raises_error() -> None:
    with pytest.raises(OpenDRSError, match="process killed"):
        simulate_while_processes_are_killed(NODES * 50)

    assert active_children() == []


@pytest.mark.parametrize(
    ("mobility", "mobility_detail", "blocker"),
    [
        (
            Mobility.NONE,
            "a graphics card is passed through",
            "a graphics card is passed",
        ),
        (Mobility.NONE, None, "not migratable"),
        (Mobility.COLD, "its disk is local to the host", "its disk is local"),
        (Mobility.COLD, "disk /x is not on shared storage", "disk /x is not on"),
    ],
)
def test_guest_with_restart_blocker_is_not_restarted(
    mobility: Mobility, mobility_detail: str | None, blocker: str
) -> None:
    snapshot = altered(
        SMALL, "vm:1", mobility=mobility, mobility_detail=mobility_detail
    )

    impact = simulate_node_failure(snapshot, [A], limits=LIMITS)

    assert [one.guest.id for one in impact.unrestartable] == ["vm:1"]
    assert str(impact.unrestartable[0].blocker).startswith(blocker)
    assert (impact.unrestartable[0].target, impact.unrestartable[0].downtime) == (
        None,
        None,
    )
    assert [one.guest.id for one in impact.recovered] == ["vm:2"]
    assert (impact.stranded, impact.survived) == ((), True)


@pytest.mark.parametrize(
    ("kind", "mobility", "mobility_detail"),
    [
        (GuestKind.CONTAINER, Mobility.COLD, "a container moves only stopped"),
        (GuestKind.VM, Mobility.COLD, None),
        (GuestKind.VM, None, None),
    ],
)
def test_guest_with_cold_mobility_is_restarted(
    kind: GuestKind, mobility: Mobility | None, mobility_detail: str | None
) -> None:
    snapshot = altered(
        SMALL, "vm:1", kind=kind, mobility=mobility, mobility_detail=mobility_detail
    )

    impact = simulate_node_failure(snapshot, [A], limits=LIMITS)

    assert impact.unrestartable == ()
    assert [one.guest.id for one in impact.recovered] == ["vm:1", "vm:2"]


def test_guest_moved_before_failure_is_not_restarted() -> None:
    away = NodeAffinity(guests=guest_ids("vm:1"), nodes={B: 1})
    snapshot = replace(SMALL, rules=(away,))

    left = simulate_node_failure(snapshot, [A], limits=LIMITS)
    reached = simulate_node_failure(
        replace(snapshot, rules=(replace(away, nodes={B: 1}),)), [B], limits=LIMITS
    )

    assert left.moved_before == ("vm:1",)
    assert [(one.guest.id, one.downtime) for one in left.affected_guests] == [
        ("vm:2", 180)
    ]
    assert [one.guest.id for one in reached.affected_guests] == ["vm:1", "vm:3"]
    assert [one.guest.id for one in reached.stranded] == ["vm:1"]
