import json
from dataclasses import replace

import pytest

from opendrs.errors import InvalidFileError
from opendrs.ha import events
from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId
from opendrs.sim.drill import AT_ONCE, Drill, hold_drill
from opendrs.sim.drill.happenings import WatchdogBit
from unit.sim.drill.drills import scenario

VM = ServiceId("vm:101")


def times(drill: Drill, kind: type[events.Event]) -> list[int]:
    return [entry.time for entry in drill.entries if isinstance(entry.event, kind)]


def test_a_cluster_starts_its_services_and_comes_to_rest() -> None:
    drill = hold_drill(scenario({"vm:101": "node2"}))

    assert drill.failure is None
    assert times(drill, events.Started) == [23]
    assert drill.log().endswith("hardware: exit simulation - done\n")


def test_a_node_without_network_is_fenced_before_its_service_runs_elsewhere() -> None:
    drill = hold_drill(scenario({"vm:101": "node3"}, ["network node3 off"]))

    (bitten,) = times(drill, WatchdogBit)
    (fenced,) = times(drill, events.FencingAcknowledged)
    _, restarted = times(drill, events.Started)
    assert 120 < bitten < fenced < restarted


def test_the_first_commands_come_after_a_pass_and_the_next_after_five() -> None:
    drill = hold_drill(scenario({}, ["network node1 on"], ["network node1 on"]))

    executed = [e.time for e in drill.entries if e.source == "cmdlist"]
    assert executed == [20, 20, 20, 120, 220]


def test_a_delay_holds_up_the_commands_that_follow() -> None:
    drill = hold_drill(scenario({}, ["delay 300"], ["network node1 on"]))

    executed = [e.time for e in drill.entries if e.source == "cmdlist"]
    assert executed[-2:] == [120, 500]


def test_so_many_nodes_that_watchdogs_bite_are_refused_unless_all_act_at_once() -> None:
    many = scenario({"vm:101": "node2"}, nodes=30)

    refused = hold_drill(many)
    held = hold_drill(replace(many, timing=AT_ONCE))

    assert refused.failure is not None
    assert "unable to simulate so many nodes" in refused.failure
    assert refused.log().endswith("timeouts.\n \n")
    assert held.failure is None
    assert times(held, events.Started)


def test_twenty_nine_nodes_are_not_too_many() -> None:
    assert hold_drill(scenario({}, nodes=29)).failure is None


@pytest.mark.parametrize(("services", "fails"), [(149, False), (151, True)])
def test_an_agent_that_is_busy_too_long_ends_the_drill(
    services: int, *, fails: bool
) -> None:
    many = scenario({f"vm:{1000 + n}": "node1" for n in range(services)})

    drill = hold_drill(many)

    assert (drill.failure == "loop took too long (303 seconds)") is fails


def test_the_same_scenario_gives_the_same_log() -> None:
    case = scenario({"vm:101": "node1"}, ["power node1 off"])

    assert hold_drill(case).log() == hold_drill(case).log()


def test_what_happens_is_told_as_json_too() -> None:
    drill = hold_drill(scenario({"vm:101": "node2"}))

    told = [json.loads(entry.json()) for entry in drill.entries]

    assert {
        "time": 23,
        "source": "node2/lrm",
        "level": "info",
        "event": "started",
        "service": "vm:101",
        "message": "service status vm:101 started",
    } in told


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("power node9 on", "no such node 'node9'"),
        ("power node1 maybe", "say on or off"),
        ("explode node1", "unknown command"),
        ("delay abc", "unknown command"),
        ("", "unknown command"),
        ("service vm:101 dance", "unknown command for a service"),
        ("service 101 started", "no such service '101'"),
        ("service vm:101 set-static-stats cores 3", "unknown name 'cores'"),
        ("service vm:101 set-static-stats maxcpu x", "not a number: 'x'"),
        ("service vm:101 set-static-stats maxmem inf", "not a finite number: 'inf'"),
        ("service vm:101 set-static-stats maxcpu -1", "0 or more"),
        ("service vm:9 started", "no such service 'vm:9'"),
        ("service vm:101 add node1", "exists already"),
        ("service vm:101 manual-migrate node2", "not to be moved by hand"),
        ("crm node1 fly", "unknown command for a manager"),
    ],
)
def test_a_command_that_cannot_be_is_told_with_its_place(
    command: str, complaint: str
) -> None:
    case = scenario({"vm:101": "node1"}, ["network node1 on", command])

    with pytest.raises(InvalidFileError, match="batch 2, command 2") as caught:
        hold_drill(case)
    assert complaint in str(caught.value)


def test_services_that_must_be_apart_never_share_a_node() -> None:
    apart = "resource-affinity: apart\n\tresources vm:101,vm:102\n\taffinity negative\n"
    case = scenario(
        {"vm:101": "node1", "vm:102": "node2", "vm:103": "node3"},
        ["power node1 off"],
        rules=apart,
    )

    drill = hold_drill(case)

    recovered = [
        e.event for e in drill.entries if isinstance(e.event, events.Recovered)
    ]
    assert recovered == [events.Recovered(VM, NodeId("node1"), NodeId("node3"))]
