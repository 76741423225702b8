"""Requests of agents: decided together, once, and closed with their steps."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.api.service import MAX_KEPT_REQUESTS
from opendrs.config import snapshot_from
from opendrs.controller.events import LogEventCode
from opendrs.model import (
    GuestId,
    LiveMigration,
    LoadState,
    NodeId,
    NodeState,
    PowerOff,
    Snapshot,
)
from opendrs.ports import Outcome, RequestState
from support.agent_cluster import AGENT_POLICY, AgentCluster
from support.builders import cluster

OVER, UNDER, NORMAL = LoadState.OVERLOADED, LoadState.UNDERLOADED, LoadState.NORMAL
CROWDED = cluster(
    {"h1": 0.95, "h2": 0.2, "h3": 0.2},
    {
        "vm1": ("h1", 0.3),
        "vm2": ("h1", 0.3),
        "vm3": ("h1", 0.3),
        "vm4": ("h2", 0.1),
        "vm5": ("h3", 0.1),
    },
)


@contextmanager
def opened(place: Path, origin: Snapshot = CROWDED) -> Iterator[AgentCluster]:
    with AgentCluster(place, origin) as agent_cluster:
        yield agent_cluster


@pytest.fixture
def agent_cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    with opened(tmp_path) as found:
        yield found


def places(agent_cluster: AgentCluster) -> dict[str, str]:
    snapshot = agent_cluster.simulation.simulated_platform.observe()
    return {name: guest.node for name, guest in snapshot.guests.items()}


def moved(agent_cluster: AgentCluster) -> set[str]:
    """Return who is not where it was in the beginning."""
    return {
        name
        for name, node in places(agent_cluster).items()
        if CROWDED.guests[GuestId(name)].node != node
    }


def test_overloaded_node_evicts_guests(agent_cluster: AgentCluster) -> None:
    request_id = agent_cluster.submit("h1", OVER, ["vm2"])
    others = [agent_cluster.submit("h2"), agent_cluster.submit("h3")]

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.DONE
    (step,) = status.steps
    assert (step.action.kind, step.action.guest) == ("live-migration", "vm2")
    assert step.outcome is Outcome.DONE
    assert moved(agent_cluster) == {"vm2"}
    assert {agent_cluster.get_status(name).state for name in others} == {
        RequestState.DONE
    }


def test_underloaded_node_is_drained(agent_cluster: AgentCluster) -> None:
    request_id = agent_cluster.submit("h3", UNDER)
    agent_cluster.submit("h2")
    agent_cluster.submit("h1")

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE
    assert places(agent_cluster)["vm5"] == "h2"


def test_normal_nodes_migrate_no_guest(agent_cluster: AgentCluster) -> None:
    request_id = [agent_cluster.submit(name) for name in ("h1", "h2", "h3")]

    report = agent_cluster.run_cycle()

    assert report.records == ()
    for name in request_id:
        status = agent_cluster.get_status(name)
        assert (status.state, status.detail) == (RequestState.DONE, "")


def test_node_of_unresponsive_agent_receives_no_guest(
    agent_cluster: AgentCluster,
) -> None:
    request_id = agent_cluster.submit("h1", OVER, ["vm1", "vm2"])

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.REJECTED
    assert status.detail.startswith("no action: ")
    assert moved(agent_cluster) == set()


def test_empty_node_of_unresponsive_agent_stays_on(
    tmp_path: Path,
) -> None:
    origin = cluster({"h1": 0.3, "h2": 0.0}, {"vm1": ("h1", 0.3)})
    policy = replace(AGENT_POLICY, manage_power=True)
    with AgentCluster(tmp_path, origin, policy) as agent_cluster:
        agent_cluster.submit("h1")
        agent_cluster.run_cycle()
        while_silent = dict(agent_cluster.simulation.simulated_platform.starts)
        agent_cluster.submit("h1")
        agent_cluster.submit("h2", UNDER)

        agent_cluster.run_cycle()

        assert while_silent == {}
        assert set(agent_cluster.simulation.simulated_platform.starts) == {
            PowerOff(NodeId("h2"))
        }


def test_agent_is_unresponsive_after_timeout(agent_cluster: AgentCluster) -> None:
    agent_cluster.submit("h2")
    agent_cluster.submit("h3")
    agent_cluster.simulation.clock.sleep(901)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.REJECTED
    assert moved(agent_cluster) == set()


def test_unresponsive_agents_are_logged_on_change(
    agent_cluster: AgentCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opendrs")
    agent_cluster.submit("h1")
    for _ in range(2):
        agent_cluster.run_cycle()
    agent_cluster.submit("h2")
    agent_cluster.submit("h3")
    agent_cluster.run_cycle()

    logged = [
        (r.event, r.getMessage())  # type: ignore[attr-defined]
        for r in caplog.records
        if getattr(r, "event", "").startswith("agents")
    ]
    assert [event for event, _ in logged] == [
        LogEventCode.AGENTS_UNRESPONSIVE,
        LogEventCode.AGENTS_RECOVERED,
    ]
    assert logged[0][1].endswith(": h2, h3")


def test_restart_keeps_unresponsive_agents(agent_cluster: AgentCluster) -> None:
    agent_cluster.submit("h2")
    agent_cluster.submit("h3")
    agent_cluster.run_cycle()
    agent_cluster.restart()
    agent_cluster.simulation.clock.sleep(400)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE


def test_request_is_executed_once(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.submit("h1", OVER, ["vm1"])
    agent_cluster.run_cycle()
    # The guest is moved back: the request stays closed.
    back = LiveMigration(
        GuestId("vm1"), NodeId(places(agent_cluster)["vm1"]), NodeId("h1")
    )
    agent_cluster.simulation.simulated_platform.start(back)
    agent_cluster.simulation.clock.sleep(200)
    assert moved(agent_cluster) == set()

    agent_cluster.restart()
    agent_cluster.run_cycle()

    assert moved(agent_cluster) == set()


def test_departed_guest_is_skipped_and_reported(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm4", "vm1", "deleted"])

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert moved(agent_cluster) == {"vm1"}
    assert status.state is RequestState.DONE
    assert status.detail.endswith(": vm4, deleted")


def test_unplaceable_guest_is_reported(tmp_path: Path) -> None:
    origin = cluster(
        {"h1": 0.95, "h2": 0.5},
        {"vm1": ("h1", 0.3), "vm2": ("h1", 0.3), "vm3": ("h2", 0.5)},
    )
    with opened(tmp_path, origin) as agent_cluster:
        agent_cluster.submit("h2")
        request_id = agent_cluster.submit("h1", OVER, ["vm1", "vm2"])

        agent_cluster.run_cycle()

        status = agent_cluster.get_status(request_id)
        assert status.state is RequestState.DONE
        assert status.detail.endswith(" vm2")


def test_samples_older_than_migration_are_rejected(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.submit("h1", OVER, ["vm1"])
    early = agent_cluster.build_request("h1", OVER, ["vm2"])  # sampled now, sent later
    agent_cluster.run_cycle()
    agent_cluster.send(early)

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(early.id)
    assert status.state is RequestState.REJECTED
    assert status.detail.endswith(": h1")
    assert moved(agent_cluster) == {"vm1"}


def test_samples_older_than_migration_with_clock_ahead_are_rejected(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.submit("h1", OVER, ["vm1"])
    early = []

    def sent_by_a_clock_that_is_ahead() -> None:
        taken_at = agent_cluster.simulation.clock.now() + timedelta(seconds=50)
        early.append(
            agent_cluster.build_request("h1", OVER, ["vm2"], taken_at=taken_at)
        )
        agent_cluster.send(early[0])

    agent_cluster.simulation.simulated_platform.schedule_fault(
        0.1, sent_by_a_clock_that_is_ahead
    )  # while vm1 is moved
    agent_cluster.run_cycle()

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(early[0].id).state is RequestState.REJECTED
    assert moved(agent_cluster) == {"vm1"}


def test_latest_request_of_node_counts(agent_cluster: AgentCluster) -> None:
    first = agent_cluster.submit("h1", OVER, ["vm1"])
    for name in ("h1", "h2", "h3"):
        agent_cluster.submit(name)

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(first).state is RequestState.SUPERSEDED
    assert moved(agent_cluster) == set()


def test_request_of_unknown_node_is_rejected(agent_cluster: AgentCluster) -> None:
    request_id = agent_cluster.submit("h9", OVER, ["vm1"])

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.REJECTED
    assert status.detail.endswith(": h9")


def test_request_after_agent_timeout_is_rejected(agent_cluster: AgentCluster) -> None:
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    agent_cluster.simulation.clock.sleep(901)
    for name in ("h2", "h3"):
        agent_cluster.submit(name)

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.REJECTED


def test_request_in_future_counts_as_now(agent_cluster: AgentCluster) -> None:
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.simulation.clock.jump(-86_400)

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE
    assert moved(agent_cluster) == {"vm1"}


def test_agent_received_in_future_becomes_unresponsive(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h1", "h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.simulation.clock.jump(-86_400)
    agent_cluster.run_cycle()
    agent_cluster.simulation.clock.sleep(901)
    for name in ("h1", "h3"):
        agent_cluster.submit(name)

    assert logged(agent_cluster)["nodes"].keys() == {"h1", "h3"}


def test_request_before_change_is_rejected_with_future_times(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.submit("h1", OVER, ["vm1"])
    early = []

    def ask_meanwhile() -> None:
        early.append(agent_cluster.build_request("h1", OVER, ["vm2"]))
        agent_cluster.send(early[0])

    agent_cluster.simulation.simulated_platform.schedule_fault(0.1, ask_meanwhile)
    assert agent_cluster.run_cycle().all_done
    agent_cluster.simulation.clock.jump(-86_400)

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(early[0].id).state is RequestState.REJECTED
    assert moved(agent_cluster) == {"vm1"}


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=3)])
def test_corrected_clock_delays_no_request(
    agent_cluster: AgentCluster, ahead: timedelta
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    agent_cluster.submit("h1", OVER, ["vm1"])
    for record in agent_cluster.run_cycle().records:
        assert record.ended_at is not None
        begun, ended = record.intended_at + ahead, record.ended_at + ahead
        agent_cluster.store.write(replace(record, intended_at=begun, ended_at=ended))
    agent_cluster.simulation.clock.jump(ahead.total_seconds())  # while nothing moves
    agent_cluster.send(agent_cluster.build_request("h3", guests={"vm5": [0.9]}))
    agent_cluster.simulation.clock.jump(-ahead.total_seconds())
    agent_cluster.run_cycle()
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm2"])

    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE
    assert moved(agent_cluster) == {"vm1", "vm2"}
    assert logged(agent_cluster)["guests"] == {
        "vm5": [0.9]
    }  # as of when the clock was set back


def test_failed_step_fails_only_its_request(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    agent_cluster.simulation.simulated_platform.schedule_fault(
        0.5, lambda: agent_cluster.simulation.simulated_platform.fail_node(NodeId("h2"))
    )

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.FAILED
    assert status.steps[0].outcome is Outcome.FAILED
    assert status.detail.startswith("step 1 failed: ")


def test_stopped_request_is_evaluated_by_next_controller(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    answer = agent_cluster.request_batch.evaluations

    def stopped(snapshot: Snapshot):  # type: ignore[no-untyped-def]  # noqa: ANN202
        agent_cluster.simulation.cancellation.cancel()
        return answer(snapshot)

    agent_cluster.request_batch.evaluations = stopped  # type: ignore[method-assign]
    agent_cluster.run_cycle()
    assert agent_cluster.get_status(request_id).state is RequestState.QUEUED

    agent_cluster.simulation.cancellation = type(
        agent_cluster.simulation.cancellation
    )()
    agent_cluster.restart()
    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE


def test_evaluating_request_is_queued_after_restart(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    next(
        agent_cluster.request_batch.evaluations(
            agent_cluster.simulation.simulated_platform.observe()
        )
    )  # and the process dies
    assert agent_cluster.get_status(request_id).state is RequestState.EVALUATING

    agent_cluster.restart()
    agent_cluster.run_cycle()

    assert agent_cluster.get_status(request_id).state is RequestState.DONE
    assert moved(agent_cluster) == {"vm1"}


def test_evaluating_request_is_superseded_after_restart(
    agent_cluster: AgentCluster,
) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    first = agent_cluster.submit("h1", OVER, ["vm1"])
    next(
        agent_cluster.request_batch.evaluations(
            agent_cluster.simulation.simulated_platform.observe()
        )
    )  # and the process dies
    agent_cluster.restart()
    second = agent_cluster.submit("h1", OVER, ["vm2"])

    agent_cluster.run_cycle()

    status = agent_cluster.get_status(first)
    assert status.state is RequestState.SUPERSEDED
    assert agent_cluster.get_status(second).state is RequestState.DONE
    assert moved(agent_cluster) == {"vm2"}


def test_unstarted_steps_are_reported_as_skipped(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.submit(name)
    request_id = agent_cluster.submit("h1", OVER, ["vm1"])
    seen = agent_cluster.simulation.simulated_platform.observe()
    decision = next(agent_cluster.request_batch.evaluations(seen)).decision
    agent_cluster.request_batch.record_decision(decision, "run", decision.plan.steps)
    assert (
        agent_cluster.get_status(request_id).steps[0].outcome is None
    )  # and the process dies

    agent_cluster.restart()
    agent_cluster.run_cycle()

    status = agent_cluster.get_status(request_id)
    assert status.state is RequestState.FAILED
    assert status.detail.startswith("step 1: ")
    assert status.steps[0].outcome is Outcome.SKIPPED
    assert moved(agent_cluster) == set()


def logged(agent_cluster: AgentCluster) -> dict[str, dict[str, list[float]]]:
    """Return what is decided by: the histories of guests, and those of nodes."""
    memory = next(
        agent_cluster.request_batch.evaluations(
            agent_cluster.simulation.simulated_platform.observe()
        )
    ).memory
    return {"guests": memory["guests"], "nodes": memory["nodes"]}


def test_samples_of_foreign_guests_are_ignored(agent_cluster: AgentCluster) -> None:
    agent_cluster.send(agent_cluster.build_request("h1", guests={"vm1": [0.1, 0.2]}))
    agent_cluster.send(
        agent_cluster.build_request(
            "h3", guests={"vm1": [9.0], "vm4": [9.0], "vm5": [0.3]}
        )
    )

    assert logged(agent_cluster)["guests"] == {"vm1": [0.1, 0.2], "vm5": [0.3]}


def test_history_is_kept_until_new_node_reports(agent_cluster: AgentCluster) -> None:
    agent_cluster.send(agent_cluster.build_request("h1", guests={"vm1": [0.1, 0.2]}))
    agent_cluster.run_cycle()
    agent_cluster.simulation.simulated_platform.start(
        LiveMigration(GuestId("vm1"), NodeId("h1"), NodeId("h2"))
    )
    agent_cluster.simulation.clock.sleep(200)
    on_arrival = logged(agent_cluster)["guests"]
    agent_cluster.send(agent_cluster.build_request("h2", guests={"vm1": [0.2, 0.3]}))

    assert on_arrival == {"vm1": [0.1, 0.2]}
    assert logged(agent_cluster)["guests"] == {"vm1": [0.2, 0.3]}


def test_samples_of_other_interval_are_ignored(agent_cluster: AgentCluster) -> None:
    agent_cluster.send(agent_cluster.build_request("h1", guests={"vm1": [0.1]}))
    agent_cluster.send(
        agent_cluster.build_request("h2", guests={"vm4": [0.2]}, interval=10)
    )

    assert logged(agent_cluster) == {"guests": {"vm1": [0.1]}, "nodes": {"h1": [0.0]}}


def test_recorded_cycle_reproduces_decision(agent_cluster: AgentCluster) -> None:
    for name in ("h2", "h3"):
        agent_cluster.send(
            agent_cluster.build_request(
                name, guests={"vm4" if name == "h2" else "vm5": [1.0, 2.0]}
            )
        )
    agent_cluster.submit("h1", OVER, ["vm1", "vm2"])
    agent_cluster.run_cycle()

    (cycle,) = agent_cluster.store.cycles()
    snapshot = snapshot_from(cycle.document["snapshot"], "the record")
    again = agent_cluster.policy.decide_requests(snapshot, cycle.document["memory"])  # type: ignore[arg-type]

    logged = cycle.document["decision"]
    assert isinstance(logged, dict)
    assert len(logged["steps"]) == 2
    assert [(s.id, s.detail) for s in again.plan.steps] == [
        (s["id"], s["detail"]) for s in logged["steps"]
    ]
    assert again.detail == logged["detail"]


def test_powered_off_node_is_powered_on_for_eviction(tmp_path: Path) -> None:
    origin = cluster(
        {"h1": 0.95, "h2": 0.8, "h3": 0.0},
        {
            "vm1": ("h1", 0.3),
            "vm2": ("h1", 0.3),
            "vm3": ("h2", 0.6),
        },
    )
    powered_off = replace(origin.nodes[NodeId("h3")], state=NodeState.OFFLINE)
    origin = replace(origin, nodes={**origin.nodes, NodeId("h3"): powered_off})
    policy = replace(AGENT_POLICY, manage_power=True)
    with AgentCluster(tmp_path, origin, policy) as agent_cluster:
        agent_cluster.submit("h2")
        request_id = agent_cluster.submit("h1", OVER, ["vm1"])

        agent_cluster.run_cycle()

        status = agent_cluster.get_status(request_id)
        kinds = [step.action.kind for step in status.steps]
        assert kinds == ["power-on", "live-migration"]
        assert status.state is RequestState.DONE
        assert places(agent_cluster)["vm1"] == "h3"


def test_older_requests_of_node_are_pruned(agent_cluster: AgentCluster) -> None:
    other = agent_cluster.submit("h2")
    request_id = [agent_cluster.submit("h1") for _ in range(MAX_KEPT_REQUESTS + 2)]

    left = [
        name
        for name in request_id
        if agent_cluster.request_store.request(str(name)) is not None
    ]

    assert left == request_id[2:]
    assert agent_cluster.request_store.request(str(other)) is not None
