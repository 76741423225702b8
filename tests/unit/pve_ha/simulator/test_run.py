import json
from dataclasses import replace

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.simulator import INSTANT_TIMING, Drill, run_drill
from opendrs.pve_ha.simulator.drill_log import WatchdogExpired
from opendrs.pve_ha.states import ServiceId
from support.drills import scenario
from support.errors import has_code

VM = ServiceId("vm:101")


def times(drill: Drill, kind: type[log_events.LogEvent]) -> list[int]:
    return [entry.time for entry in drill.entries if isinstance(entry.event, kind)]


def test_cluster_starts_its_services_and_settles() -> None:
    drill = run_drill(scenario({"vm:101": "node2"}))

    assert drill.failure is None
    assert times(drill, log_events.ServiceStarted) == [23]
    assert drill.log().endswith("hardware: exit simulation - done\n")


def test_node_without_network_is_fenced_before_recovery() -> None:
    drill = run_drill(scenario({"vm:101": "node3"}, ["network node3 off"]))

    (expired,) = times(drill, WatchdogExpired)
    (fenced,) = times(drill, log_events.FencingAcknowledged)
    _, restarted = times(drill, log_events.ServiceStarted)
    assert 120 < expired < fenced < restarted


def test_first_batch_runs_after_one_round_and_next_after_five() -> None:
    drill = run_drill(scenario({}, ["network node1 on"], ["network node1 on"]))

    executed = [e.time for e in drill.entries if e.source == "cmdlist"]
    assert executed == [20, 20, 20, 120, 220]


def test_delay_postpones_following_commands() -> None:
    drill = run_drill(scenario({}, ["delay 300"], ["network node1 on"]))

    executed = [e.time for e in drill.entries if e.source == "cmdlist"]
    assert executed[-2:] == [120, 500]


def test_too_many_nodes_fail_except_with_instant_timing() -> None:
    many = scenario({"vm:101": "node2"}, nodes=30)

    failed = run_drill(many)
    held = run_drill(replace(many, timing=INSTANT_TIMING))

    assert failed.failure is not None
    assert "unable to simulate so many nodes" in failed.failure
    assert failed.log().endswith("timeouts.\n \n")
    assert held.failure is None
    assert times(held, log_events.ServiceStarted)


def test_twenty_nine_nodes_are_not_too_many() -> None:
    assert run_drill(scenario({}, nodes=29)).failure is None


@pytest.mark.parametrize(("services", "fails"), [(149, False), (151, True)])
def test_too_long_lrm_step_ends_drill(services: int, *, fails: bool) -> None:
    many = scenario({f"vm:{1000 + n}": "node1" for n in range(services)})

    drill = run_drill(many)

    assert (drill.failure == "loop took too long (303 seconds)") is fails


def test_equal_scenarios_give_equal_logs() -> None:
    case = scenario({"vm:101": "node1"}, ["power node1 off"])

    assert run_drill(case).log() == run_drill(case).log()


def test_log_entries_as_json() -> None:
    drill = run_drill(scenario({"vm:101": "node2"}))

    entries = [json.loads(entry.json()) for entry in drill.entries]

    assert {
        "time": 23,
        "source": "node2/lrm",
        "level": "info",
        "event": "service-started",
        "service": "vm:101",
        "message": "service status vm:101 started",
    } in entries


@pytest.mark.parametrize(
    ("command", "diagnostic", "code"),
    [
        ("power node9 on", "no such node 'node9'", DiagnosticCode.UNKNOWN_NAME),
        ("power node1 maybe", "expected on or off", DiagnosticCode.UNKNOWN_VALUE),
        ("explode node1", "unknown command", DiagnosticCode.UNKNOWN_VALUE),
        ("delay abc", "unknown command", DiagnosticCode.UNKNOWN_VALUE),
        ("", "unknown command", DiagnosticCode.UNKNOWN_VALUE),
        (
            "service vm:101 dance",
            "unknown service command",
            DiagnosticCode.UNKNOWN_VALUE,
        ),
        (
            "service 101 started",
            "service '101': expected",
            DiagnosticCode.INVALID_VALUE,
        ),
        (
            "service vm:101 set-static-stats cores 3",
            "unknown name 'cores'",
            DiagnosticCode.UNKNOWN_KEY,
        ),
        (
            "service vm:101 set-static-stats maxcpu x",
            "not a number: 'x'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            "service vm:101 set-static-stats maxmem inf",
            "not a finite number: 'inf'",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "service vm:101 set-static-stats maxcpu -1",
            "of at least 0",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            "service vm:9 started",
            "no such service 'vm:9'",
            DiagnosticCode.UNKNOWN_NAME,
        ),
        ("service vm:101 add node1", "already exists", DiagnosticCode.DUPLICATE_NAME),
        (
            "service vm:101 manual-migrate node2",
            "request state ignored",
            DiagnosticCode.INCONSISTENT,
        ),
        ("crm node1 fly", "unknown crm command", DiagnosticCode.UNKNOWN_VALUE),
    ],
)
def test_invalid_command_is_reported_with_location(
    command: str, diagnostic: str, code: DiagnosticCode
) -> None:
    case = scenario({"vm:101": "node1"}, ["network node1 on", command])

    with pytest.raises(
        InvalidFileError, match="batch 2, command 2", check=has_code(code)
    ) as caught:
        run_drill(case)
    assert diagnostic in str(caught.value)


def test_anti_affine_services_never_share_a_node() -> None:
    apart = "resource-affinity: apart\n\tresources vm:101,vm:102\n\taffinity negative\n"
    case = scenario(
        {"vm:101": "node1", "vm:102": "node2", "vm:103": "node3"},
        ["power node1 off"],
        rules=apart,
    )

    drill = run_drill(case)

    recovered = [
        e.event
        for e in drill.entries
        if isinstance(e.event, log_events.ServiceRecovered)
    ]
    assert recovered == [
        log_events.ServiceRecovered(VM, NodeId("node1"), NodeId("node3"))
    ]
