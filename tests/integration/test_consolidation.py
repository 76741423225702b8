"""Consolidation by agents on real hosts, through crashes of all that decides.

Twelve guests on three hosts fit on two by their memory. While they have nothing to
do one host is emptied and put to sleep; once they work it is woken, and receives.
Agents and controller are killed on the way, when it hurts most.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.deployment import Deployment
from integration.lab import HOSTS, Lab, eventually
from integration.power import Rack
from opendrs.model import GuestId, Migration, NodeId, NodeState, PowerOff, PowerOn
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
    "power": True,
    "detector": "last-n-average",
    "parameter": 0.2,
    "relief": 0.2,
    "target": 0.16,
    "last_n": 3,
    "history": 6,
    "interval": INTERVAL,
}


def test_guests_gather_while_idle_and_spread_when_they_work(
    lab: Lab, tmp_path: Path
) -> None:
    rack = Rack(lab)
    for name, host in GUESTS.items():
        rack.vm(host, name, memory=MEMORY)
    deployed = Deployment(lab, rack, tmp_path, CONSOLIDATE, INTERVAL)

    with deployed.running():
        gather(lab, rack, deployed)
        (asleep,) = set(HOSTS) - rack.on()
        silent = fall_silent(lab, rack, deployed)
        spread(lab, rack, deployed, silent)
        deployed.stop_controller()

    assert rack.switches() == {f"off h{asleep}": 1, f"on h{asleep}": 1}
    assert switches(deployed.steps()) == [
        (PowerOff(NodeId(f"h{asleep}")), Outcome.DONE),
        (PowerOn(NodeId(f"h{asleep}")), Outcome.DONE),
    ]
    assert homes_by_record(deployed.steps()) == homes(lab)
    for name in GUESTS:
        ends = [step.outcome for step in moves(deployed.steps(), name)]
        assert ends.count(Outcome.DONE) <= lab.arrivals(name) <= len(ends)
        assert lab.where(name) == lab.running(name)
        lab.require_alive(name)


def gather(lab: Lab, rack: Rack, deployed: Deployment) -> None:
    """Let the cluster shrink to two hosts, and all but one crash on the way."""
    eventually(lambda: bool(deployed.under_way()), 90, "a guest is on its way")
    deployed.crash_controller()
    assert deployed.under_way()
    for host in HOSTS[1:]:
        rack.crash(host)
    deployed.start_controller()
    for host in HOSTS[1:]:
        rack.boot(host)

    eventually(lambda: asleep(deployed) is not None, 120, "one host is put to sleep")

    assert len(rack.on()) == 2
    found = homes(lab)
    assert {host for host, names in found.items() if names} == rack.on()
    assert set().union(*found.values()) == GUESTS.keys()


def fall_silent(lab: Lab, rack: Rack, deployed: Deployment) -> int:
    """Kill the agent of the emptier host; return which host that is."""
    found = homes(lab)
    silent = min(rack.on(), key=lambda host: len(found[host]))
    (sleeping,) = set(HOSTS) - rack.on()
    (heard,) = rack.on() - {silent}
    rack.crash(silent)

    states = {
        f"h{silent}": NodeState.UNKNOWN,
        f"h{sleeping}": NodeState.OFFLINE,
        f"h{heard}": NodeState.ONLINE,
    }
    eventually(lambda: deployed.states() == states, 90, "one host is not heard")
    return silent


def spread(lab: Lab, rack: Rack, deployed: Deployment, silent: int) -> None:
    """Let the guests work, until all hosts are needed, and the controller crash."""
    before = homes(lab)
    for name in GUESTS:
        rack.work(name, WORK)

    eventually(lambda: rack.on() == set(HOSTS), 120, "the host is woken")
    deployed.crash_controller()
    deployed.start_controller()
    eventually(lambda: inhabited(deployed) == set(HOSTS), 120, "it receives guests")

    # What nobody tells of is neither filled nor emptied, though it has work.
    assert homes(lab)[silent] == before[silent]
    rack.boot(silent)
    eventually(lambda: heard(deployed) == set(HOSTS), 90, "all agents are heard")
    online = {f"h{host}": NodeState.ONLINE for host in HOSTS}
    eventually(lambda: deployed.states() == online, 60, "all hosts are online")


def homes(lab: Lab) -> dict[int, set[str]]:
    """Return the guests that run on each host."""
    return {
        host: set(lab.names(host, "--state-running")) & GUESTS.keys() for host in HOSTS
    }


def homes_by_record(steps: tuple[StepRecord, ...]) -> dict[int, set[str]]:
    """Return who is where after *steps*, each of which began where the guest was."""
    place = {GuestId(name): NodeId(f"h{host}") for name, host in GUESTS.items()}
    for step in steps:
        assert step.outcome not in (None, Outcome.LOST), step
        if isinstance(step.action, Migration) and step.outcome is Outcome.DONE:
            assert place[step.action.guest] == step.action.source, step
            place[step.action.guest] = step.action.target
    return {
        host: {name for name, node in place.items() if node == f"h{host}"}
        for host in HOSTS
    }


def moves(steps: tuple[StepRecord, ...], name: str) -> list[StepRecord]:
    """Return the steps that should have moved the guest."""
    return [
        step
        for step in steps
        if isinstance(step.action, Migration) and step.action.guest == name
    ]


def inhabited(deployed: Deployment) -> set[int]:
    """Return the hosts on which guests are, by the steps that were done."""
    done = tuple(step for step in deployed.steps() if step.outcome is Outcome.DONE)
    return {host for host, names in homes_by_record(done).items() if names}


def switches(steps: tuple[StepRecord, ...]) -> list[tuple[object, Outcome | None]]:
    """Return which hosts were switched, and what came of it."""
    return [
        (step.action, step.outcome)
        for step in steps
        if isinstance(step.action, PowerOn | PowerOff)
    ]


def asleep(deployed: Deployment) -> NodeId | None:
    """Return the host that was put to sleep, once it is confirmed."""
    done = [action for action, end in switches(deployed.steps()) if end is Outcome.DONE]
    return done[-1].node if done and isinstance(done[-1], PowerOff) else None


def heard(deployed: Deployment) -> set[int]:
    """Return the hosts whose newest request came after the last step ended."""
    ends = [step.ended_at for step in deployed.steps() if step.ended_at is not None]
    return {
        int(request.node.removeprefix("h"))
        for request in deployed.requests()
        if request.taken_at > max(ends)
    }
