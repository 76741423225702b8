"""The desk writes down what it accepts, and accepts nothing twice and nothing stale."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.api.service import ServiceResponse
from opendrs.config.api_schema import (
    GuestSamples,
    RequestStatus,
)
from opendrs.errors import StoreError
from opendrs.model import GuestId, LoadState, NodeId
from opendrs.ports import RequestState
from support.agent_cluster import AgentCluster
from support.builders import NOON, cluster

TWO = cluster({"h1": 0.5, "h2": 0.1}, {"vm1": ("h1", 0.3), "vm2": ("h1", 0.1)})


@pytest.fixture
def agent_cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    with AgentCluster(tmp_path, TWO) as found:
        yield found


def detail(answer: ServiceResponse) -> str:
    assert isinstance(answer.body, ProblemError)
    return answer.body.detail


def code(answer: ServiceResponse) -> str:
    assert isinstance(answer.body, ProblemError)
    return answer.body.code


def state(answer: ServiceResponse) -> RequestState:
    assert isinstance(answer.body, RequestStatus)
    return answer.body.state


def test_accepted_request_is_recorded(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1", LoadState.OVERLOADED, ["vm1"])

    answer = agent_cluster.send(request)

    assert (answer.status, state(answer)) == (202, RequestState.QUEUED)
    record = agent_cluster.record(request.id)
    assert record.received_at == NOON
    assert record.evict == ("vm1",)


def test_repeated_request_returns_status(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1")
    agent_cluster.send(request)
    agent_cluster.run_cycle()
    agent_cluster.simulation.clock.sleep(10_000)  # also when it would be stale by now

    answer = agent_cluster.send(request)

    assert (answer.status, state(answer)) == (200, RequestState.DONE)
    assert agent_cluster.record(request.id).received_at == NOON


def test_repeated_request_with_other_guest_order_is_same(
    agent_cluster: AgentCluster,
) -> None:
    one = agent_cluster.build_request("h1", guests={"vm1": [0.1], "vm2": [0.2]})
    other = one.model_copy(
        update={
            "samples": one.samples.model_copy(
                update={"guests": {"vm2": [0.2], "vm1": [0.1]}}
            )
        }
    )
    agent_cluster.send(one)

    assert agent_cluster.send(other).status == 200


def test_same_id_with_other_content_is_conflict(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1")
    agent_cluster.send(request)

    answer = agent_cluster.send(request.model_copy(update={"sequence": 99}))

    assert (answer.status, code(answer)) == (409, ApiProblem.ID_CONFLICT)
    assert agent_cluster.record(request.id).sequence == request.sequence


@pytest.mark.parametrize("sequence", [7, 6, 0])
def test_a_sequence_that_does_not_grow_is_stale(
    agent_cluster: AgentCluster, sequence: int
) -> None:
    agent_cluster.send(agent_cluster.build_request("h1", sequence=7))

    answer = agent_cluster.send(agent_cluster.build_request("h1", sequence=sequence))

    assert (answer.status, code(answer)) == (412, ApiProblem.REQUEST_STALE)
    assert isinstance(answer.body, ProblemError)
    assert answer.body.last_sequence == 7  # so that the agent can go on from there
    assert (
        agent_cluster.send(agent_cluster.build_request("h2", sequence=sequence)).status
        == 202
    )


@pytest.mark.parametrize(
    ("seconds", "status"), [(-300, 202), (-301, 412), (60, 202), (61, 412)]
)
def test_samples_beyond_age_or_skew_are_rejected(
    agent_cluster: AgentCluster, seconds: float, status: int
) -> None:
    taken_at = NOON + timedelta(seconds=seconds)

    answer = agent_cluster.send(agent_cluster.build_request("h1", taken_at=taken_at))

    assert answer.status == status


def test_samples_in_future_count_as_received(agent_cluster: AgentCluster) -> None:
    ahead = NOON + timedelta(seconds=50)
    request = agent_cluster.build_request("h1", guests={"vm1": [0.5]}, taken_at=ahead)

    agent_cluster.send(request)
    again = agent_cluster.send(request)
    agent_cluster.run_cycle()

    assert again.status == 200  # it is the same as it was sent
    assert agent_cluster.record(request.id).taken_at == NOON
    found = agent_cluster.request_store.history(GuestId("vm1"))
    assert found is not None
    assert found.taken_at == NOON


def test_stale_samples_detail_names_age_and_limit(agent_cluster: AgentCluster) -> None:
    old = agent_cluster.send(
        agent_cluster.build_request("h1", taken_at=NOON - timedelta(hours=1))
    )
    ahead = agent_cluster.send(
        agent_cluster.build_request("h1", taken_at=NOON + timedelta(hours=1))
    )

    assert code(old) is ApiProblem.SAMPLES_TOO_OLD
    assert "at most 300 s" in detail(old)
    assert detail(old).endswith("got 3600 s")
    assert code(ahead) is ApiProblem.CLOCK_AHEAD
    assert "at most 60 s" in detail(ahead)
    assert detail(ahead).endswith("got 3600 s")


def test_rejected_request_is_not_recorded(agent_cluster: AgentCluster) -> None:
    late = agent_cluster.build_request(
        "h1", guests={"vm1": [1.0]}, taken_at=NOON - timedelta(hours=1)
    )

    agent_cluster.send(late)

    assert agent_cluster.request_store.latest_per_node() == ()
    assert agent_cluster.service.get_samples(GuestId("vm1")).status == 404
    assert (
        agent_cluster.send(
            agent_cluster.build_request("h1", sequence=late.sequence)
        ).status
        == 202
    )


def test_token_of_other_node_is_forbidden(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1")

    answer = agent_cluster.service.submit(request, NodeId("h2"))

    assert (answer.status, code(answer)) == (403, ApiProblem.TOKEN_MISMATCH)
    assert detail(answer) == "token: expected that of h1, got h2"
    assert agent_cluster.request_store.latest_per_node() == ()


def test_status_is_returned_to_own_node_only(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1")
    agent_cluster.send(request)

    assert agent_cluster.service.get_status(str(request.id), NodeId("h1")).status == 200
    assert agent_cluster.service.get_status(str(request.id), NodeId("h2")).status == 403
    assert agent_cluster.service.get_status(str(uuid4()), NodeId("h1")).status == 404


def test_only_actionable_request_notifies_controller(
    agent_cluster: AgentCluster,
) -> None:
    agent_cluster.submit("h1", LoadState.NORMAL)
    after_normal = agent_cluster.wakeup_event.consume()
    agent_cluster.submit("h1", LoadState.UNDERLOADED)
    after_little = agent_cluster.wakeup_event.consume()
    again = agent_cluster.build_request("h1", LoadState.OVERLOADED, ["vm1"])
    agent_cluster.send(again)
    after_much = agent_cluster.wakeup_event.consume()
    agent_cluster.send(again)

    assert (after_normal, after_little, after_much) == (False, True, True)
    assert not agent_cluster.wakeup_event.consume()


def test_interval_mismatch_is_logged_once(
    agent_cluster: AgentCluster, caplog: pytest.LogCaptureFixture
) -> None:
    for interval in (300, 60, 60, 300, 10):
        agent_cluster.send(agent_cluster.build_request("h1", interval=interval))
    agent_cluster.send(agent_cluster.build_request("h2", interval=300))

    logged = [
        r for r in caplog.records if getattr(r, "event", "") == "interval-mismatch"
    ]
    assert [vars(r)["about"] for r in logged] == [
        {"node": "h1", "interval": 60},
        {"node": "h1", "interval": 10},
    ]


def test_the_history_of_a_guest_follows_it(agent_cluster: AgentCluster) -> None:
    agent_cluster.send(
        agent_cluster.build_request("h1", guests={"vm1": [0.25, 0.5], "vm2": []})
    )
    agent_cluster.run_cycle()
    agent_cluster.simulation.clock.sleep(300)
    agent_cluster.send(agent_cluster.build_request("h1", guests={}))

    answer = agent_cluster.service.get_samples(GuestId("vm1"))

    assert answer.body == GuestSamples(interval=300, taken_at=NOON, samples=[0.25, 0.5])
    # An empty history is none.
    assert agent_cluster.service.get_samples(GuestId("vm2")).status == 404


def test_store_failure_rejects_request(agent_cluster: AgentCluster) -> None:
    request = agent_cluster.build_request("h1", LoadState.UNDERLOADED)
    agent_cluster.store.__exit__(None, None, None)

    with pytest.raises(StoreError):
        agent_cluster.send(request)

    assert not agent_cluster.wakeup_event.consume()
    agent_cluster.store.__enter__()
    assert agent_cluster.send(request).status == 202


def test_log_names_first_guests_to_evict(
    agent_cluster: AgentCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = [f"gone{number}" for number in range(50)]

    request_id = agent_cluster.submit("h1", LoadState.OVERLOADED, names)
    agent_cluster.run_cycle()

    assert (
        f"{', '.join(names[:20])} and 30 more"
        in agent_cluster.get_status(request_id).detail
    )
    assert "gone19 and 30 more" in caplog.text
    assert "gone20" not in caplog.text
    (taken,) = (
        r for r in caplog.records if getattr(r, "event", "") == "request-accepted"
    )
    assert vars(taken)["about"]["evict_count"] == 50
    assert agent_cluster.record(request_id).evict == tuple(names)
