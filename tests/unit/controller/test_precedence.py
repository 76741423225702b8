"""Plans that may not start leave the cycle to the decisions after them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendrs.config.controller_settings import Mode
from opendrs.controller.consent import ConsentApproval, RecordedDecision
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.controller.replay import replay
from opendrs.model import GuestId, LoadState, NodeAffinity, NodeId
from opendrs.ports import PlanState, RequestState
from opendrs.store import SqliteStore
from support.advised_controller import LOPSIDED, AdvisedController
from support.agent_cluster import AgentCluster
from support.builders import NOON, cluster

DRAIN = DrainedNode(node=NodeId("c"), since=NOON, user="ada")
THREE_NODES = cluster(
    nodes={"a": 0.8, "b": 0.0, "c": 0.1},
    guests={
        "one": ("a", 0.2),
        "two": ("a", 0.2),
        "three": ("a", 0.2),
        "four": ("c", 0.1),
    },
)
BROKEN_RULE = NodeAffinity(guests=frozenset({GuestId("one")}), nodes={NodeId("b"): 0})


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with SqliteStore(None) as opened:
        yield opened


def draining(store: SqliteStore, mode: Mode, **settings: Any) -> AdvisedController:  # noqa: ANN401 - of the controller
    store.save(DRAIN.key, DRAIN.entry)
    return AdvisedController(store, THREE_NODES, drains=True, mode=mode, **settings)


def decisions(store: SqliteStore) -> list[tuple[str, str]]:
    """Return the policy and the reason of each recorded decision."""
    found = []
    for cycle in store.cycles():
        decision: Any = cycle.document["decision"]
        found.append((decision["policy"], decision["reason"]))
    return found


def test_observe_records_the_drain_and_the_plan_of_the_policy(
    store: SqliteStore,
) -> None:
    draining(store, Mode.OBSERVE).cycle()

    assert decisions(store) == [
        ("drain", "drains-nodes"),
        ("balance", "repairs-rules"),  # a node in maintenance is to be empty
        ("balance", "improves-balance"),
    ]
    assert all(replay(cycle).is_same for cycle in store.cycles())


def test_observe_records_the_repair_and_the_plan_of_the_policy(
    store: SqliteStore,
) -> None:
    origin = replace(LOPSIDED, rules=(BROKEN_RULE,))

    AdvisedController(store, origin).cycle()

    assert decisions(store) == [
        ("balance", "repairs-rules"),
        ("balance", "improves-balance"),
    ]
    assert all(replay(cycle).is_same for cycle in store.cycles())


def test_proposed_drain_precedes_the_policy(store: SqliteStore) -> None:
    advised = draining(store, Mode.ADVISE)

    advised.cycle()
    advised.cycle()

    assert decisions(store) == [("drain", "drains-nodes")] * 2
    assert advised.states() == ["proposed"]


def test_declined_drain_leaves_the_cycle_to_the_policy(store: SqliteStore) -> None:
    advised = draining(store, Mode.ADVISE)
    advised.cycle()
    advised.decide(advised.last(), PlanState.REJECTED)
    advised.simulation.clock.sleep(60)

    advised.cycle()
    advised.cycle()

    assert [plan.reason for plan in advised.plans.plans()] == [
        "drains-nodes",
        "improves-balance",
    ]
    assert advised.states() == ["rejected", "proposed"]  # not superseded by the drain
    advised.approve(advised.last())
    assert advised.cycle() > 0


def test_declined_drain_starts_in_mode_automatic(store: SqliteStore) -> None:
    advised = draining(store, Mode.ADVISE)
    advised.cycle()
    advised.decide(advised.last(), PlanState.REJECTED)
    advised.set_mode(Mode.AUTOMATIC)

    advised.cycle()

    assert advised.simulation.node_of("four") != "c"


def _is_no_repair(decided: RecordedDecision) -> bool:
    return not decided.decision.repair_first


class DeclinedRepair(ConsentApproval):
    def may_start(self, decided: RecordedDecision) -> bool:
        return _is_no_repair(decided)


def test_repair_that_may_not_start_leaves_the_cycle_to_requests(
    tmp_path: Path,
) -> None:
    rule = NodeAffinity(guests=frozenset({GuestId("vm3")}), nodes={NodeId("h3"): 0})
    origin = replace(
        cluster(
            {"h1": 0.9, "h2": 0.2, "h3": 0.0},
            {"vm1": ("h1", 0.3), "vm2": ("h1", 0.3), "vm3": ("h2", 0.2)},
        ),
        rules=(rule,),
    )
    with AgentCluster(
        tmp_path, origin, approval=DeclinedRepair(_is_no_repair)
    ) as agents:
        for name in ("h2", "h3"):
            agents.submit(name)
        request = agents.submit("h1", LoadState.OVERLOADED, ["vm1"])

        agents.run_cycle()
        agents.run_cycle()

        assert agents.get_status(request).state is RequestState.DONE
