"""The judges of approvals and of undone moves find what they are to find."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from soak.consent import ADVISE, AUTOMATIC, OBSERVE, ConfiguredConsent, ConsentJudge
from soak.invariants import Invariant
from soak.record import Record, SqliteDatabase
from soak.undo import Look, UndoJudge

MOVE = {"kind": "live-migration", "guest": "a", "source": "h1", "target": "h2"}
RUN, PLAN = "run", "p1"


class JudgedHistory:
    """A history of one plan with one step, written by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.violated: list[Invariant] = []
        self._execute("CREATE TABLE plans (id, run, policy, reason, state, steps)")
        self._execute("CREATE TABLE entries (key, value)")
        self._execute("CREATE TABLE operator_actions (id)")
        self.record = Record(SqliteDatabase(path))

    def consent(self, **configured: object) -> ConsentJudge:
        return ConsentJudge(
            self.record,
            ConfiguredConsent(**configured),  # type: ignore[arg-type]
            self.report,
        )

    def report(self, invariant: Invariant, detail: str, *names: str) -> None:
        del detail, names
        self.violated.append(invariant)

    def plan(
        self,
        state: str = "running",
        policy: str = "balance",
        reason: str = "improves-balance",
        run: str = RUN,
        name: str = PLAN,
    ) -> None:
        steps = json.dumps([["1", json.dumps(MOVE), [], ""]])
        self._execute("DELETE FROM plans WHERE id = ?", name)
        self._execute(
            "INSERT INTO plans VALUES (?, ?, ?, ?, ?, ?)",
            *(name, run, policy, reason, state, steps),
        )

    def open_breaker(self) -> None:
        self._execute("INSERT INTO entries VALUES ('operator/breaker', '{}')")

    def command(self, judge: ConsentJudge, at: float, name: str, **f: object) -> None:
        self._execute("INSERT INTO operator_actions VALUES (1)")
        judge.event(at, "command", {"command": name, **f})

    def _execute(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(statement, values)


@pytest.fixture
def history(tmp_path: Path) -> JudgedHistory:
    return JudgedHistory(tmp_path / "record.sqlite")


def intend(judge: ConsentJudge | UndoJudge, at: float, run: str = RUN) -> None:
    judge.event(at, "writing", {"run": run, "step": "1", "outcome": None, **MOVE})


@pytest.mark.parametrize("mode", [OBSERVE, ADVISE])
def test_start_without_approval_violates_consent(
    history: JudgedHistory, mode: str
) -> None:
    history.plan()
    intend(history.consent(mode=mode), 1)

    assert history.violated == [Invariant.CONSENT]


def test_start_in_mode_automatic_is_allowed(history: JudgedHistory) -> None:
    history.plan()
    intend(history.consent(mode=AUTOMATIC), 1)

    assert history.violated == []


def test_start_of_no_plan_violates_consent(history: JudgedHistory) -> None:
    intend(history.consent(mode=AUTOMATIC), 1)

    assert history.violated == [Invariant.CONSENT]


def test_approved_step_may_start(history: JudgedHistory) -> None:
    judge = history.consent(mode=ADVISE)
    history.plan("proposed")
    history.command(judge, 1, "approve", plan=PLAN, steps=["1"])
    history.plan("running")
    intend(judge, 2)

    assert history.violated == []


def test_step_that_was_not_approved_violates_consent(history: JudgedHistory) -> None:
    judge = history.consent(mode=ADVISE)
    history.plan("approved")
    history.command(judge, 1, "approve", plan=PLAN, steps=[])
    history.plan("running")
    intend(judge, 2)

    assert history.violated == [Invariant.CONSENT]


def test_other_action_than_planned_violates_consent(history: JudgedHistory) -> None:
    history.plan()
    judge = history.consent()
    other = {**MOVE, "target": "h3", "run": RUN, "step": "1", "outcome": None}
    judge.event(1, "writing", other)

    assert history.violated == [Invariant.CONSENT]


def test_start_while_paused_violates_consent(history: JudgedHistory) -> None:
    history.plan()
    judge = history.consent()
    history.command(judge, 1, "pause", seconds=100.0)
    intend(judge, 50)
    history.plan(run="next", name="p2")
    intend(judge, 102, "next")

    assert history.violated == [Invariant.CONSENT]


def test_start_after_resume_is_allowed(history: JudgedHistory) -> None:
    history.plan()
    judge = history.consent()
    history.command(judge, 1, "pause", seconds=100.0)
    history.command(judge, 2, "resume")
    intend(judge, 3)

    assert history.violated == []


def test_start_with_open_breaker_violates_consent(history: JudgedHistory) -> None:
    history.plan()
    history.open_breaker()
    intend(history.consent(repair=AUTOMATIC), 1)

    assert history.violated == [Invariant.CONSENT]


def test_start_after_change_to_observe_violates_consent(
    history: JudgedHistory,
) -> None:
    history.plan()
    judge = history.consent()
    history.command(judge, 1, "mode", mode=OBSERVE)
    intend(judge, 2)

    assert history.violated == [Invariant.CONSENT]


def test_repair_may_be_automatic(history: JudgedHistory) -> None:
    history.plan(reason="repairs-rules")
    intend(history.consent(mode=ADVISE, repair=AUTOMATIC), 1)

    assert history.violated == []


def test_restricted_policy_violates_consent(history: JudgedHistory) -> None:
    history.plan()
    intend(history.consent(policy_modes={"balance": ADVISE}), 1)

    assert history.violated == [Invariant.CONSENT]


def test_advised_guest_violates_consent(history: JudgedHistory) -> None:
    history.plan()
    intend(history.consent(advise_guests=["a"]), 1)

    assert history.violated == [Invariant.CONSENT]


@pytest.mark.parametrize(
    ("settings", "violated"),
    [
        ({}, []),
        ({"advise_guests": ["a"]}, [Invariant.CONSENT]),
        ({"mode": OBSERVE}, [Invariant.CONSENT]),
    ],
)
def test_automatic_guest_needs_no_approval_in_mode_advise(
    history: JudgedHistory, settings: dict[str, Any], violated: list[Invariant]
) -> None:
    history.plan()
    consent = {"mode": ADVISE, "automatic_guests": ["a"], **settings}
    intend(history.consent(**consent), 1)

    assert history.violated == violated


def test_automatic_guest_with_open_breaker_violates_consent(
    history: JudgedHistory,
) -> None:
    history.plan()
    history.open_breaker()
    intend(history.consent(mode=ADVISE, automatic_guests=["a"]), 1)

    assert history.violated == [Invariant.CONSENT]


def test_start_of_cancelled_plan_violates_consent(history: JudgedHistory) -> None:
    judge = history.consent()
    history.plan("cancelled")
    history.command(judge, 1, "cancel", plan=PLAN)
    intend(judge, 2)

    assert history.violated == [Invariant.CONSENT]


def test_start_of_old_plan_violates_expired(history: JudgedHistory) -> None:
    history.plan()
    judge = history.consent(lifetime=600.0)
    judge.event(1, "cycle", {"run": RUN})
    intend(judge, 700)

    assert history.violated == [Invariant.EXPIRED]


@pytest.mark.parametrize(
    ("moves", "violated"),
    [
        ([(MOVE["guest"], MOVE["target"]), ("b", "h3")], []),
        ([(MOVE["guest"], "h3")], [Invariant.EXPIRED]),
    ],
)
def test_start_of_old_plan_that_was_decided_again_is_in_time(
    history: JudgedHistory,
    moves: list[tuple[str, str]],
    violated: list[Invariant],
) -> None:
    judge = history.consent(lifetime=600.0)
    judge.event(1, "cycle", {"run": RUN, "moves": []})
    history.plan("proposed")
    judge.event(500, "cycle", {"run": "newer", "moves": moves})
    history.plan()
    intend(judge, 700)

    assert history.violated == violated


def test_plan_that_ends_twice_violates_plan(history: JudgedHistory) -> None:
    judge = history.consent()
    history.plan("rejected")
    judge.event(1, "process", {})
    history.plan("running")
    judge.event(2, "process", {})

    assert history.violated == [Invariant.PLAN]


def test_lost_decision_of_operator_violates_plan(history: JudgedHistory) -> None:
    judge = history.consent()
    history.plan("running")
    history.command(judge, 1, "cancel", plan=PLAN)

    assert history.violated == [Invariant.PLAN]


def test_lost_command_violates_durable(history: JudgedHistory) -> None:
    judge = history.consent()
    judge.event(1, "command", {"command": "resume"})

    assert history.violated == [Invariant.DURABLE]


def test_plan_left_running_violates_open(history: JudgedHistory) -> None:
    history.plan("running")
    history.consent().finish()

    assert history.violated == [Invariant.OPEN]


@pytest.mark.parametrize("seen", [True, False])
def test_move_to_drained_host_violates_drained(
    history: JudgedHistory, *, seen: bool
) -> None:
    judge = history.consent()
    history.command(judge, 1, "drain", host="h2")
    if seen:
        judge.event(2, "look", {})
    judge.event(3, "start", MOVE)

    assert history.violated == ([Invariant.DRAINED] if seen else [])


def test_move_to_host_after_drain_is_allowed(history: JudgedHistory) -> None:
    judge = history.consent()
    history.command(judge, 1, "drain", host="h2")
    history.command(judge, 2, "undrain", host="h2")
    judge.event(3, "look", {})
    judge.event(4, "start", MOVE)

    assert history.violated == []


def look(h1: float, h2: float, where: str) -> Look:
    """Return two hosts of ten cores, and guest a of one core."""
    return Look(
        use={"h1": (h1, None), "h2": (h2, None), "a": (1.0, None)},
        size={"h1": (10.0, None), "h2": (10.0, None)},
        places={"a": (where, where)},
    )


def moved_back(
    history: JudgedHistory,
    now: Look,
    *,
    after: float = 600.0,
    policy: str = "balance",
) -> list[Invariant]:
    """Let guest a leave h2 for h1, and go back; return what is violated."""
    judge = UndoJudge(history.record, 3600.0, 0.1, (), history.report)
    judge.event(1, "look", {"shown": look(4.0, 6.0, "h2")})
    away = {**MOVE, "source": "h2", "target": "h1", "run": "first", "step": "1"}
    judge.event(2, "writing", {**away, "outcome": None})
    judge.event(3, "written", {**away, "outcome": "done"})
    judge.event(3 + after, "look", {"shown": now})
    judge.event(3 + after, "cycle", {"run": RUN})
    history.plan(policy=policy)
    intend(judge, 4 + after)
    return history.violated


def test_return_within_the_horizon_violates_undone(history: JudgedHistory) -> None:
    assert moved_back(history, look(5.0, 5.0, "h1")) == [Invariant.UNDONE]


def test_return_after_the_horizon_is_allowed(history: JudgedHistory) -> None:
    assert moved_back(history, look(5.0, 5.0, "h1"), after=4000.0) == []


def test_return_after_change_of_load_is_allowed(history: JudgedHistory) -> None:
    assert moved_back(history, look(7.5, 5.0, "h1")) == []


def test_return_by_drain_is_allowed(history: JudgedHistory) -> None:
    assert moved_back(history, look(5.0, 5.0, "h1"), policy="drain") == []
