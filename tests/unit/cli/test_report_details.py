"""Details of a report: results of plans, what was not done, and energy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.cli.report_details import read_details
from opendrs.config.controller_settings import Mode
from opendrs.controller.serialization import cycle_record
from opendrs.model import GuestId, LiveMigration, NodeId, StepId
from opendrs.policies import Balance, Decision, DecisionReason
from opendrs.ports import Outcome, PlanState, StepRecord
from opendrs.store import Access, History, SqliteStore
from support.advised_controller import AdvisedController
from support.builders import NOON, cluster

HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        yield store


def test_executed_plan_has_its_prediction_and_result(store: SqliteStore) -> None:
    controller = AdvisedController(store, mode=Mode.ADVISE)
    controller.cycle()
    controller.approve(controller.last())
    for _ in range(2):
        controller.simulation.clock.sleep(900)
        controller.cycle()

    details = read_details(History(store), controller.plans.plans(), NOON)

    (result,) = [each for each in details.results if each.metric == "imbalance"]
    assert result.before == pytest.approx(1.0)
    assert result.predicted == pytest.approx(result.realized, abs=0.01)
    assert result.realized < result.before
    assert [each["outcome"] for each in details.moves] == ["done"] * len(details.moves)


def test_what_was_not_done_has_its_cause(store: SqliteStore) -> None:
    controller = AdvisedController(store, mode=Mode.ADVISE)
    controller.cycle()
    controller.decide(controller.last(), PlanState.REJECTED)
    move = LiveMigration(GuestId("one"), NodeId("a"), NodeId("b"))
    for number, outcome in enumerate((Outcome.REJECTED, Outcome.DONE)):
        record = StepRecord(
            run="run",
            step=StepId(str(number)),
            action=move,
            intended_at=NOON,
            ended_at=NOON,
            outcome=outcome,
            detail="insufficient memory",
        )
        store.write(record)

    details = read_details(History(store), controller.plans.plans(), NOON)

    assert details.not_done == {("rejected", "insufficient memory"): 1}
    assert list(details.not_executed) == [("rejected", "")]
    assert details.results == []


@pytest.mark.parametrize(("watts", "energy"), [(500.0, 1.0), (None, None)])
def test_energy_is_that_of_the_decisions(
    store: SqliteStore, watts: float | None, energy: float | None
) -> None:
    snapshot = cluster({"a": 0.1, "b": 0.1}, {})
    before = {} if watts is None else {"power_watts": watts}
    for number in range(4):  # the last gap is too long to assume the same power
        at = NOON + (number if number < 3 else 10) * HOUR
        record = cycle_record(
            f"run {number}",
            at,
            replace(snapshot, taken_at=at),
            policy=Balance(),
            memory=None,
            decision=Decision(DecisionReason.ALREADY_CONSOLIDATED, None, before=before),
        )
        store.record_cycle(record)

    details = read_details(History(store), [], NOON)

    assert details.energy == energy  # 500 W for two hours
    assert details.energy_hours == (2 if energy else 0)
    assert details.idle == {"already-consolidated": 4}
