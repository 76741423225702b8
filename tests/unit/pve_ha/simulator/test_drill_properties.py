"""Properties of every drill."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.simulator import Drill, DrillLogEntry, DrillScenario, run_drill
from opendrs.pve_ha.simulator.drill_log import CommandExecuted, ProcessKilledByPowerOff
from opendrs.pve_ha.states import PveNodeState, ServiceId
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings
from support.drills import scenario

NODES = ("node1", "node2", "node3", "node4")
SETTLED_FOR = 200  # of the 500 seconds that a drill lasts after the last command
SERVICE_CHANGES = (
    log_events.ServiceStateChanged
    | log_events.ServiceStarted
    | log_events.ServiceStopped
)
SERVICES = ("vm:101", "vm:102", "ct:103", "fa:130", "vm:105")
APART = "resource-affinity: apart\n\tresources vm:101,vm:102\n\taffinity negative\n\n"
STRICT = "node-affinity: strict\n\tresources vm:105\n\tnodes node1,node2\n\tstrict 1\n"

EXPLANATION = Path(__file__).parents[4] / "docs" / "explanation" / "ha.md"
DOCUMENTED_TRANSITIONS = frozenset(
    re.findall(r"^  +(\w+) --> (\w+)", EXPLANATION.read_text(), re.MULTILINE)
)

nodes = st.sampled_from(NODES)
services = st.sampled_from(SERVICES)
commands = st.one_of(
    st.just("power node1 off"),
    st.builds("power {} {}".format, nodes, st.sampled_from(["on", "off", "off"])),
    st.builds("network {} {}".format, nodes, st.sampled_from(["on", "off", "off"])),
    st.builds("service {} {} {}".format, services, st.just("migrate"), nodes),
    st.builds("service {} {} {}".format, services, st.just("relocate"), nodes),
    st.builds(
        "service {} {}".format, services, st.sampled_from(["started", "stopped"])
    ),
    st.builds("crm {} {}-node-maintenance".format, nodes, st.sampled_from(["enable"])),
    st.builds("reboot {}".format, nodes),
    st.builds("shutdown {}".format, nodes),
)


@st.composite
def scenarios(draw: st.DrawFn) -> DrillScenario:
    batches = draw(st.lists(st.lists(commands, max_size=3), max_size=4))
    # Rules apply to decisions of the manager, not to the initial state. So
    # vm:101 and vm:102 start on different nodes, and vm:105 on an allowed one.
    first, second = draw(st.permutations(NODES))[:2]
    node_of = dict.fromkeys(SERVICES, "node1") | {"vm:101": first, "vm:102": second}
    node_of |= {"ct:103": draw(nodes), "fa:130": draw(nodes)}
    drawn = scenario(node_of, *batches, nodes=len(NODES), rules=APART + STRICT)
    scheduling = CrsSettings(
        mode=draw(st.sampled_from(["basic", "static", "dynamic"])),
        rebalance_on_start=draw(st.booleans()),
        auto_rebalance=draw(st.booleans()),
        hold=1,
    )
    policy = draw(st.sampled_from(["conditional", "freeze", "failover", "migrate"]))
    return replace(drawn, datacenter=DatacenterSettings(scheduling, policy))


def cancels_shutdown(drawn: DrillScenario) -> bool:
    """Return True if a node is powered on after a requested shutdown."""
    done = [command for batch in drawn.batches for command in batch]
    return any(
        f"power {node} on" in done[at:]
        for node in NODES
        for at, command in enumerate(done)
        if command in (f"reboot {node}", f"shutdown {node}")
    )


def node_of(entry: DrillLogEntry) -> NodeId:
    return NodeId(entry.source.partition("/")[0])


def running_nodes(
    drill: Drill,
) -> Iterator[tuple[DrillLogEntry, dict[ServiceId, set[NodeId]]]]:
    """Yield each log entry, and the nodes of each service after it."""
    running: dict[ServiceId, set[NodeId]] = {}
    for entry in drill.entries:
        match entry.event:
            case log_events.ServiceStarted(service):
                running.setdefault(service, set()).add(node_of(entry))
            case log_events.ServiceStopped(service) | log_events.ServiceMoveFinished(
                service
            ):
                running.setdefault(service, set()).discard(node_of(entry))
            case ProcessKilledByPowerOff():
                for where in running.values():
                    where.discard(node_of(entry))
        yield entry, running


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_no_service_runs_on_two_nodes_at_once(drawn: DrillScenario) -> None:
    drill = run_drill(drawn)

    for _, running in running_nodes(drill):
        assert all(len(where) < 2 for where in running.values())


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_service_is_recovered_only_after_fencing(drawn: DrillScenario) -> None:
    fenced: set[NodeId] = set()
    for entry in run_drill(drawn).entries:
        match entry.event:
            case log_events.FencingAcknowledged(node):
                fenced.add(node)
            case log_events.NodeStateChanged(node, _, PveNodeState.ONLINE):
                fenced.discard(node)
            case log_events.ServiceRecovered(_, old, _):
                event("recovered")
                assert old in fenced


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_selected_nodes_satisfy_strict_rules(drawn: DrillScenario) -> None:
    for entry in run_drill(drawn).entries:
        match entry.event:
            case log_events.ServiceRecovered(
                "vm:105", _, node
            ) | log_events.MigrationSelected("vm:105", node):
                event("selected")
                assert node in ("node1", "node2")


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_anti_affine_services_never_share_a_node(drawn: DrillScenario) -> None:
    for entry, running in running_nodes(run_drill(drawn)):
        match entry.event:
            case log_events.ServiceRecovered(
                "vm:101" | "vm:102" as service, _, node
            ) | log_events.MigrationSelected("vm:101" | "vm:102" as service, node):
                event("selected")
                other = ServiceId("vm:102" if service == "vm:101" else "vm:101")
                assert node not in running.get(other, set())


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_every_drill_settles(drawn: DrillScenario) -> None:
    drill = run_drill(drawn)

    # A process that exits after a cancelled shutdown aborts the drill, as in
    # the simulator of Proxmox VE.
    if drill.failure is not None:
        assert cancels_shutdown(drawn)
        return
    end = drill.entries[-1].time
    late = [entry for entry in drill.entries if entry.time > end - SETTLED_FOR]
    assert not [entry for entry in late if isinstance(entry.event, SERVICE_CHANGES)]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(NODES[:3]),
    st.sampled_from(["power", "network"]),
    st.sampled_from(["migrate", "relocate"]),
    st.sampled_from(NODES[:3]),
    services,
)
def test_crm_command_survives_master_failure(
    lost: str, what: str, verb: str, target: str, service: str
) -> None:
    drawn = scenario(
        {service: "node2"},
        [f"{what} {lost} off", f"service {service} {verb} {target}"],
    )

    drill = run_drill(drawn)

    requests = [
        entry
        for entry in drill.entries
        if isinstance(
            entry.event,
            log_events.CrmCommandReceived
            | log_events.NodeNotOnline
            | log_events.CrmCommandRedundant,
        )
    ]
    executed = [e for e in drill.entries if isinstance(e.event, CommandExecuted)]
    assert executed
    assert len(requests) == 1


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_documentation_shows_every_state_transition(drawn: DrillScenario) -> None:
    for entry in run_drill(drawn).entries:
        match entry.event:
            case (
                log_events.ServiceStateChanged(_, old, new, _)
                | log_events.NodeStateChanged(_, old, new)
                | log_events.ProcessStateChanged(old, new)
            ) if old not in ("startup", new):
                event(f"{old} --> {new}")
                assert (old, new) in DOCUMENTED_TRANSITIONS
