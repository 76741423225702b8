"""Output about interrupted and skipped steps, with the reasons."""

from dataclasses import replace

import pytest

from opendrs.cli.apply_cycle import ApplyResult, ApplyTask
from opendrs.cli.output import TableOutput
from opendrs.cli.sources import simulated_source
from opendrs.config.settings import NO_SETTINGS
from opendrs.controller import ExecutionReport
from opendrs.controller.repair_advice import repair_command
from opendrs.model import (
    AntiAffinity,
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    Plan,
    PowerOn,
    Step,
    StepId,
)
from opendrs.policies import Balance, Decision, DecisionReason
from opendrs.ports import Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, cluster, guest_ids

PAIR = cluster(nodes={"a": 0.8, "b": 0.0}, guests={"vm": ("a", 0.4), "ct": ("a", None)})
POWER_ON = Step(StepId("1"), PowerOn(NodeId("b")), detail="room is needed")
MOVE = Step(
    StepId("2"),
    ColdMigration(GuestId("ct"), NodeId("a"), NodeId("b")),
    depends_on=(StepId("1"),),
    detail="it is the largest",
)
REPAIR = repair_command(["plan", "demo"], None, NO_SETTINGS)
DECISION = Decision(
    DecisionReason.IMPROVES_BALANCE, None, Plan((POWER_ON, MOVE)), "because"
)


def apply_result(*outcomes: tuple[Outcome, str]) -> ApplyResult:
    apply_task = ApplyTask(
        source=simulated_source(seed=1), policy=Balance(), store=MemoryStore()
    )
    records = tuple(
        StepRecord(
            run="test",
            step=StepId(str(number)),
            action=LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b")),
            intended_at=NOON,
            outcome=outcome,
            detail=detail,
        )
        for number, (outcome, detail) in enumerate(outcomes, 1)
    )
    return ApplyResult(
        task=apply_task,
        recovered=(),
        before=PAIR,
        decision=DECISION,
        report=ExecutionReport(records),
        after=PAIR,
    )


def printed_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_table_shows_power_on_dependencies_and_cold_migration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    TableOutput(REPAIR).show_decision(apply_result())

    lines = printed_lines(capsys)
    assert "step guest from to cores used memory used depends on detail" in lines
    assert "1 power-on b room is needed" in lines
    assert "2 ct (stop, start) a b ? ? 1 it is the largest" in lines


def test_removed_node_is_shown_as_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = {name: node for name, node in PAIR.nodes.items() if name != "b"}

    found = replace(apply_result(), after=replace(PAIR, nodes=left))
    TableOutput(REPAIR).show_result(found)

    rows = printed_lines(capsys)
    assert "a 80% 80% 80% 80%" in rows
    assert "b 0% ? 0% ?" in rows


def test_plan_of_power_actions_has_no_migrations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    power_on = Decision(
        DecisionReason.IMPROVES_BALANCE, None, Plan((POWER_ON,)), "because"
    )

    TableOutput(REPAIR).show_decision(replace(apply_result(), decision=power_on))

    assert printed_lines(capsys)[1] == "plan: 1 node powered on"


def test_summary_before_confirmation_counts_violations_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    crowded_cluster = [f"g{number}" for number in range(5)]
    rule = AntiAffinity(guests=guest_ids(*crowded_cluster), name="apart")
    crowded = cluster(
        {"a": 0.5, "b": 0.1}, dict.fromkeys(crowded_cluster, ("a", 0.1)), [rule]
    )
    table_output = TableOutput(REPAIR)
    nothing = Decision(DecisionReason.NO_CANDIDATE, None, detail="because")

    table_output.show_decision(
        replace(apply_result(), before=crowded, decision=nothing)
    )
    first = printed_lines(capsys)
    table_output.repeat_summary()
    again = printed_lines(capsys)

    assert len([line for line in first if line.startswith("cannot be repaired")]) == 1
    assert again == [
        "",
        "balance: no feasible move: because",
        "",
        "violated strict rules: 1 of 1 remain (10 violations)",
    ]


def test_recovery_reports_the_interrupted_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = apply_result((Outcome.LOST, "")).report
    assert records is not None

    TableOutput(REPAIR).show_recovery(records.records)

    assert " ".join(printed_lines(capsys)) == (
        "Recovering 1 unfinished step of an interrupted run."
    )


def test_incomplete_steps_are_grouped_by_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = apply_result(
        (Outcome.DONE, ""),
        (Outcome.FAILED, "no route"),
        (Outcome.SKIPPED, "stopped by the operator"),
        (Outcome.SKIPPED, "stopped by the operator"),
    )

    TableOutput(REPAIR).show_result(found)

    assert printed_lines(capsys)[-3:] == [
        "Result: 1 done, 1 failed, 2 skipped.",
        "failed 2: vm a → b: no route",
        "skipped 3, 4: stopped by the operator",
    ]


def test_result_reports_an_unreachable_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    TableOutput(REPAIR).show_result(
        replace(apply_result((Outcome.DONE, "")), after=None)
    )

    lines = printed_lines(capsys)
    assert "The cluster is unreachable; its new state is unknown." in lines
    assert lines[-1] == "Result: 1 done."
