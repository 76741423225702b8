"""Consolidation by agents on real hosts, with crashes of agents and controller.

Twelve guests on three hosts fit on two by their memory. While they are
idle, one host is drained and powered off. Under load it is powered on and receives
guests. Agents and controller are killed at critical moments.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.agent_deployment import AgentDeployment
from integration.libvirt_lab import HOSTS, LibvirtLab, eventually
from integration.power_lab import PowerLab
from opendrs.model import GuestId, LiveMigration, NodeId, NodeState, PowerOff, PowerOn
from opendrs.ports import Outcome, StepRecord

pytestmark = [pytest.mark.shared, pytest.mark.lab]

INTERVAL = 6.0  # seconds
GUESTS = {f"vm{number:02}": 1 + number % 3 for number in range(1, 13)}
MEMORY = 256  # MiB for each guest: seven fill a host
WORK = 10  # percent of a processor for each guest

# Hosts have two processors, and three of them share the two of this machine: each
# is full, here, at a fifth of its own. At work the guests need three times as much
# as that, and at rest hardly anything. An agent that starts and a guest that arrives
# keep a processor busy for half a second: three samples hide that.
CONSOLIDATE = {
    "manage_power": True,
    "detector": "last-n-average",
    "detector_parameter": 0.2,
    "relief_target": 0.2,
    "fill_target": 0.16,
    "averaging_window": 3,
    "history_length": 6,
    "interval": INTERVAL,
}


def test_idle_guests_are_consolidated_and_busy_ones_spread(
    lab: LibvirtLab, tmp_path: Path
) -> None:
    rack = PowerLab(lab)
    for name, host in GUESTS.items():
        rack.vm(host, name, memory=MEMORY)
    deployed = AgentDeployment(lab, rack, tmp_path, CONSOLIDATE, INTERVAL)

    with deployed.running():
        consolidate_idle_guests(lab, rack, deployed)
        (powered_off,) = set(HOSTS) - rack.on()
        silent = stop_agents(lab, rack, deployed)
        spread_busy_guests(lab, rack, deployed, silent)
        deployed.stop_controller()

    assert rack.power_actions() == {f"off h{powered_off}": 1, f"on h{powered_off}": 1}
    assert power_actions_in(deployed.steps()) == [
        (PowerOff(NodeId(f"h{powered_off}")), Outcome.DONE),
        (PowerOn(NodeId(f"h{powered_off}")), Outcome.DONE),
    ]
    assert guest_hosts_in_records(deployed.steps()) == guest_hosts(lab)
    for name in GUESTS:
        ends = [step.outcome for step in migrations_of(deployed.steps(), name)]
        assert ends.count(Outcome.DONE) <= lab.arrivals(name) <= len(ends)
        assert lab.locate(name) == lab.running(name)
        lab.require_alive(name)


def consolidate_idle_guests(
    lab: LibvirtLab, rack: PowerLab, deployed: AgentDeployment
) -> None:
    """Let the cluster shrink to two hosts, and all but one crash on the way."""
    eventually(deployed.is_stopped_during_a_step, 90, "a guest is on its way")
    deployed.crash_controller()
    assert deployed.unfinished_steps()
    for host in HOSTS[1:]:
        rack.crash(host)
    deployed.start_controller()
    for host in HOSTS[1:]:
        rack.boot(host)

    eventually(
        lambda: powered_off_hosts(deployed) is not None, 120, "one host is put to sleep"
    )

    assert len(rack.on()) == 2
    found = guest_hosts(lab)
    assert {host for host, names in found.items() if names} == rack.on()
    assert set().union(*found.values()) == GUESTS.keys()


def stop_agents(lab: LibvirtLab, rack: PowerLab, deployed: AgentDeployment) -> int:
    """Kill the agent of the emptier host; return which host that is."""
    found = guest_hosts(lab)
    silent = min(rack.on(), key=lambda host: len(found[host]))
    (sleeping,) = set(HOSTS) - rack.on()
    (received,) = rack.on() - {silent}
    rack.crash(silent)

    states = {
        f"h{silent}": NodeState.UNKNOWN,
        f"h{sleeping}": NodeState.OFFLINE,
        f"h{received}": NodeState.ONLINE,
    }
    eventually(lambda: deployed.states() == states, 90, "one host is not heard")
    return silent


def spread_busy_guests(
    lab: LibvirtLab, rack: PowerLab, deployed: AgentDeployment, silent: int
) -> None:
    """Let the guests work, until all hosts are needed, and the controller crash."""
    before = guest_hosts(lab)
    for name in GUESTS:
        rack.work(name, WORK)

    eventually(lambda: rack.on() == set(HOSTS), 120, "the host is woken")
    deployed.crash_controller()
    deployed.start_controller()
    eventually(
        lambda: occupied_hosts(deployed) == set(HOSTS), 120, "it receives guests"
    )

    # A host without an agent receives and loses no guests, despite its load.
    assert guest_hosts(lab)[silent] == before[silent]
    rack.boot(silent)
    eventually(
        lambda: received_requests(deployed) == set(HOSTS),
        90,
        "all agents are responsive",
    )
    online = {f"h{host}": NodeState.ONLINE for host in HOSTS}
    eventually(lambda: deployed.states() == online, 60, "all hosts are online")


def guest_hosts(lab: LibvirtLab) -> dict[int, set[str]]:
    """Return the guests that run on each host."""
    return {
        host: set(lab.names(host, "--state-running")) & GUESTS.keys() for host in HOSTS
    }


def guest_hosts_in_records(steps: tuple[StepRecord, ...]) -> dict[int, set[str]]:
    """Return who is where after *steps*, each of which began where the guest was."""
    place = {GuestId(name): NodeId(f"h{host}") for name, host in GUESTS.items()}
    for step in steps:
        assert step.outcome not in (None, Outcome.LOST), step
        if isinstance(step.action, LiveMigration) and step.outcome is Outcome.DONE:
            assert place[step.action.guest] == step.action.source, step
            place[step.action.guest] = step.action.target
    return {
        host: {name for name, node in place.items() if node == f"h{host}"}
        for host in HOSTS
    }


def migrations_of(steps: tuple[StepRecord, ...], name: str) -> list[StepRecord]:
    """Return the steps that should have moved the guest."""
    return [
        step
        for step in steps
        if isinstance(step.action, LiveMigration) and step.action.guest == name
    ]


def occupied_hosts(deployed: AgentDeployment) -> set[int]:
    """Return the hosts on which guests are, by the steps that were done."""
    done = tuple(step for step in deployed.steps() if step.outcome is Outcome.DONE)
    return {host for host, names in guest_hosts_in_records(done).items() if names}


def power_actions_in(
    steps: tuple[StepRecord, ...],
) -> list[tuple[object, Outcome | None]]:
    """Return which hosts were switched, and what came of it."""
    return [
        (step.action, step.outcome)
        for step in steps
        if isinstance(step.action, PowerOn | PowerOff)
    ]


def powered_off_hosts(deployed: AgentDeployment) -> NodeId | None:
    """Return the host that was powered off, once it is confirmed."""
    done = [
        action
        for action, end in power_actions_in(deployed.steps())
        if end is Outcome.DONE
    ]
    return done[-1].node if done and isinstance(done[-1], PowerOff) else None


def received_requests(deployed: AgentDeployment) -> set[int]:
    """Return the hosts whose newest request came after the last step ended."""
    ends = [step.ended_at for step in deployed.steps() if step.ended_at is not None]
    return {
        int(request.node.removeprefix("h"))
        for request in deployed.requests()
        if request.taken_at > max(ends)
    }
