"""A person is told what was interrupted, what was not done and why."""

from dataclasses import replace

import pytest

from builders import NOON, cluster, guest_ids
from opendrs.cli.audience import ScreenAudience
from opendrs.cli.performance import Performance, Task
from opendrs.cli.repair import repair_command
from opendrs.cli.sources import simulation
from opendrs.controller import Report
from opendrs.controller.settings import NO_SETTINGS
from opendrs.controller.stores import MemoryStore
from opendrs.model import (
    AntiAffinity,
    GuestId,
    Migration,
    NodeId,
    Plan,
    PowerOn,
    Relocation,
    Step,
    StepId,
)
from opendrs.policies import Balance, Decision, Reason
from opendrs.ports import Outcome, StepRecord

PAIR = cluster(nodes={"a": 0.8, "b": 0.0}, guests={"vm": ("a", 0.4), "ct": ("a", None)})
WAKE = Step(StepId("1"), PowerOn(NodeId("b")), why="room is needed")
MOVE = Step(
    StepId("2"),
    Relocation(GuestId("ct"), NodeId("a"), NodeId("b")),
    after=(StepId("1"),),
    why="it is the largest",
)
REPAIR = repair_command(["plan", "demo"], None, NO_SETTINGS)
DECISION = Decision(Reason.IMPROVES_BALANCE, None, Plan((WAKE, MOVE)), "because")


def performance(*outcomes: tuple[Outcome, str]) -> Performance:
    task = Task(source=simulation(seed=1), policy=Balance(), store=MemoryStore())
    records = tuple(
        StepRecord(
            run="test",
            step=StepId(str(number)),
            action=Migration(GuestId("vm"), NodeId("a"), NodeId("b")),
            intended_at=NOON,
            outcome=outcome,
            detail=detail,
        )
        for number, (outcome, detail) in enumerate(outcomes, 1)
    )
    return Performance(
        task=task,
        resumed=(),
        before=PAIR,
        decision=DECISION,
        report=Report(records),
        after=PAIR,
    )


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_shows_waking_waiting_and_relocating(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ScreenAudience(REPAIR).decided(performance())

    lines = told(capsys)
    assert "step guest from to cores memory waits for why" in lines
    assert "1 power-on b room is needed" in lines
    assert "2 ct (stop, start) a b ? ? 1 it is the largest" in lines


def test_a_node_that_is_gone_afterwards_is_shown_as_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = {name: node for name, node in PAIR.nodes.items() if name != "b"}

    found = replace(performance(), after=replace(PAIR, nodes=left))
    ScreenAudience(REPAIR).finished(found)

    rows = told(capsys)
    assert "a 80% 80% 80% 80%" in rows
    assert "b 0% ? 0% ?" in rows


def test_a_plan_of_power_actions_counts_no_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wake = Decision(Reason.IMPROVES_BALANCE, None, Plan((WAKE,)), "because")

    ScreenAudience(REPAIR).decided(replace(performance(), decision=wake))

    assert told(capsys)[1] == "plan: 1 node powered on, at least 0 ms"


def test_the_summary_beside_the_question_counts_broken_rules_and_names_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    crowd = [f"g{number}" for number in range(5)]
    rule = AntiAffinity(guests=guest_ids(*crowd), name="apart")
    crowded = cluster({"a": 0.5, "b": 0.1}, dict.fromkeys(crowd, ("a", 0.1)), [rule])
    audience = ScreenAudience(REPAIR)
    nothing = Decision(Reason.NO_CANDIDATE, None, detail="because")

    audience.decided(replace(performance(), before=crowded, decision=nothing))
    first = told(capsys)
    audience.repeat_summary()
    again = told(capsys)

    assert len([line for line in first if line.startswith("cannot be kept")]) == 3
    assert again == [
        "",
        "balance: no feasible move - because",
        "",
        "broken strict rules: 10 of 10 remain: balance does not repair rules",
    ]


def test_tells_what_was_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    records = performance((Outcome.LOST, "")).report
    assert records is not None

    ScreenAudience(REPAIR).interrupted(records.records)

    assert " ".join(told(capsys)) == (
        "An earlier run was interrupted with one step under way; following to the "
        "end what it started."
    )


def test_tells_what_was_not_done_and_one_reason_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = performance(
        (Outcome.DONE, ""),
        (Outcome.FAILED, "no route"),
        (Outcome.SKIPPED, "stopped by the operator"),
        (Outcome.SKIPPED, "stopped by the operator"),
    )

    ScreenAudience(REPAIR).finished(found)

    assert told(capsys)[-3:] == [
        "Result: 1 done, 1 failed, 2 skipped.",
        "failed 2: vm a → b: no route",
        "skipped 3, 4: stopped by the operator",
    ]


def test_says_when_the_cluster_cannot_be_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ScreenAudience(REPAIR).finished(
        replace(performance((Outcome.DONE, "")), after=None)
    )

    lines = told(capsys)
    assert "The cluster cannot be seen now." in lines
    assert lines[-1] == "Result: 1 done."
