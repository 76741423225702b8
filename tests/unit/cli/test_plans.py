"""Commands of an operator: mode, pause, resume, plans, approve, reject, cancel."""

from __future__ import annotations

import json
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.config import write_snapshot
from opendrs.controller import SystemClock
from opendrs.controller.modes import BREAKER_KEY
from opendrs.model import StepId
from opendrs.ports import CycleRecord, PlanChange, PlanRecord, PlanState
from opendrs.store import Access, DatabasePlanStore, OperatorStore, SqliteStore
from support.builders import cluster
from support.simulated_cluster import migration, step
from support.terminal import RunOpendrs, run_opendrs_in_terminal

NOW = SystemClock().now()
STORE = Path("record.sqlite")
LIFETIME = 86_400.0  # seconds; NOW is the time when all tests are collected


@pytest.fixture(autouse=True)
def _configuration(opendrs: RunOpendrs) -> None:
    del opendrs  # only its directory is needed
    write_snapshot(cluster({"a": 0.5}, {"vm1": ("a", 0.4)}), Path("a.json"))
    document = {
        "platform": {"lab": {"kind": "file", "path": "a.json"}},
        "store": {"path": str(STORE)},
    }
    Path("opendrs.toml").write_text(tomli_w.dumps(document))


def add_plan(state: PlanState = PlanState.PROPOSED, lifetime: float = LIFETIME) -> None:
    plan = PlanRecord(
        id="k7w2x",
        run="run 1",
        created_at=NOW,
        lifetime=lifetime,
        policy="balance",
        reason="improves-balance",
        reason_detail="imbalance 0.5 to 0.1",
        steps=(
            step("1", migration("vm1", "a", "b")),
            step("2", migration("vm2", "a", "b"), "1"),
            step("3", migration("vm3", "a", "b")),
            step("4", migration("vm4", "a", "b")),
        ),
        groups=((StepId("3"), StepId("4")),),
        digest="d" * 64,
        snapshot="s" * 64,
        state=PlanState.PROPOSED,
        changed_at=NOW,
    )
    with SqliteStore(STORE) as store:
        store.save("platform", {"name": "lab"})
        DatabasePlanStore(store).add(plan)
        if state is not PlanState.PROPOSED:
            change = PlanChange(state=state, at=NOW, detail="a test")
            assert DatabasePlanStore(store).change(plan.id, change)


def json_output(opendrs: RunOpendrs, *words: str) -> Any:  # noqa: ANN401 - JSON
    answer = opendrs(*words, "--format", "json")
    assert answer.status == 0, answer.err
    return json.loads(answer.out)


def audit() -> list[tuple[str, dict[str, object]]]:
    """Return the commands that were recorded, with their arguments."""
    with SqliteStore(STORE, Access.READ) as store:
        actions = OperatorStore(store).actions()
    return [(action.command, dict(action.arguments)) for action in actions]


def test_mode_is_observe_until_it_is_set(opendrs: RunOpendrs) -> None:
    before = json_output(opendrs, "mode", "lab")
    assert (before["mode"], before["source"]) == ("observe", "configuration")
    assert not STORE.exists()

    after = json_output(opendrs, "mode", "lab", "automatic")

    assert (after["mode"], after["source"]) == ("automatic", "operator")
    assert json_output(opendrs, "mode", "lab")["mode"] == "automatic"
    assert audit() == [("mode", {"mode": "automatic"})]


def test_guests_that_the_mode_does_not_concern_are_shown(opendrs: RunOpendrs) -> None:
    configured = tomllib.loads(Path("opendrs.toml").read_text())
    configured["controller"] = {"automatic_tags": ["batch"], "advise_guests": ["db"]}
    Path("opendrs.toml").write_text(tomli_w.dumps(configured))

    assert "without approval" not in opendrs("mode", "lab", "observe").out
    assert "automatic_tags" in opendrs("mode", "lab", "advise").out
    assert "automatic_tags" in opendrs("status", "lab").out
    assert "need an approval" in opendrs("mode", "lab", "automatic").out
    assert json_output(opendrs, "mode", "lab")["automatic_tags"] == ["batch"]
    with SqliteStore(STORE) as store:
        store.save(BREAKER_KEY, {})
    assert "automatic_tags" not in opendrs("mode", "lab").out


def test_pause_ends_by_resume(opendrs: RunOpendrs) -> None:
    opendrs("mode", "lab", "automatic")

    paused = json_output(
        opendrs, "pause", "lab", "--for", "2h", "--because", "an upgrade"
    )

    assert (paused["mode"], paused["source"]) == ("observe", "pause")
    assert paused["pause"]["because"] == "an upgrade"
    assert "after the pause: mode automatic" in opendrs("mode", "lab").out
    assert json_output(opendrs, "resume", "lab")["mode"] == "automatic"
    assert [command for command, _ in audit()] == ["mode", "pause", "resume"]


@pytest.mark.parametrize(
    ("invalid", "status"),
    [
        ({"limits": {"max_parallel_migrations": "many"}}, 0),
        ({"policy": {"name": "balance", "balance": {"threshold": -1}}}, 0),
        ({"controller": {"mode": "eager"}}, 2),
        ({"policy": {"name": "other"}}, 2),
        ({"stor": {"path": "other.sqlite"}}, 2),
        ({"store": {"path": str(STORE), "retention": "long"}}, 2),
    ],
)
def test_pause_and_status_need_only_what_concerns_the_store(
    opendrs: RunOpendrs, invalid: dict[str, dict[str, object]], status: int
) -> None:
    configured = tomllib.loads(Path("opendrs.toml").read_text())
    Path("opendrs.toml").write_text(tomli_w.dumps({**configured, **invalid}))
    (table,) = invalid

    paused = opendrs("pause", "lab", "--for", "2h", "--because", "an upgrade")

    assert paused.status == status
    assert f"opendrs.toml: {table}" in paused.err
    assert STORE.exists() == (status == 0)
    shown = opendrs("status", "lab")
    assert f"opendrs.toml: {table}" in shown.err
    assert ("mode observe (paused" in shown.out) == (status == 0)
    assert opendrs("resume", "lab").status == status


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--for", "1h", "--until", "2999-01-01"],
        ["--until", "2020-01-01"],
        ["--until", "2999-01-01"],
        ["--for", "0"],
        ["--for", "nan"],
        ["--for", "2 years"],
    ],
)
def test_pause_needs_an_end_in_the_future(
    opendrs: RunOpendrs, options: list[str]
) -> None:
    assert opendrs("pause", "lab", *options, "--because", "x").status == 2
    assert not STORE.exists()


def test_plans_are_listed_and_filtered(opendrs: RunOpendrs) -> None:
    assert opendrs("plans", "lab").out == "lab: no plans\n"
    add_plan()

    assert [each["id"] for each in json_output(opendrs, "plans", "lab")] == ["k7w2x"]
    assert json_output(opendrs, "plans", "lab", "--state", "done") == []
    assert "k7w2x\tproposed\t4" in opendrs("plans", "lab").out
    shown = opendrs("plans", "lab", "k7w2x")
    assert "improves the balance: imbalance 0.5 to 0.1" in shown.out
    assert "vm2: a → b\t1" in shown.out


def test_plan_shows_its_estimated_duration(opendrs: RunOpendrs) -> None:
    add_plan()
    seconds = {"1": 60.0, "2": 90.0, "3": 30.0}
    document = {"decision": {"steps": []}, "estimates": seconds}
    record = CycleRecord(run="run 1", decided_at=NOW, document=document)
    with SqliteStore(STORE) as store:
        store.record_cycle(record)

    shown = json_output(opendrs, "plans", "lab", "k7w2x")
    text = opendrs("plans", "lab", "k7w2x").out

    # Steps 1 and 3 start at once, 2 after 1; 4 has no estimate.
    times = {
        each["id"]: (each["estimated_start"], each["estimated_seconds"])
        for each in shown["steps"]
    }
    assert times == {
        "1": (0.0, 60.0),
        "2": (60.0, 90.0),
        "3": (0.0, 30.0),
        "4": (None, None),
    }
    assert shown["estimated_seconds"] == 150.0
    assert "estimated duration: at least 2 min 30 s\n" in text
    assert "1 min 0 s to 2 min 30 s" in text


def test_list_has_one_line_per_plan_on_a_terminal_of_80_columns() -> None:
    add_plan()

    lines = run_opendrs_in_terminal("plans", "lab").lines

    expires = NOW + timedelta(seconds=LIFETIME)
    (row,) = (line for line in lines if line.startswith("k7w2x"))
    assert row.split() == [
        *("k7w2x", "proposed", "4"),
        *(f"{NOW:%m-%d %H:%M} balance expires {expires:%Y-%m-%d %H:%M:%S} UTC".split()),
    ]


def test_wrapped_lines_of_status_stay_indented() -> None:
    configured = tomllib.loads(Path("opendrs.toml").read_text())
    configured["controller"] = {"mode": "advise", "automatic_tags": ["batch"]}
    configured["controller"]["advise_tags"] = ["db"]
    Path("opendrs.toml").write_text(tomli_w.dumps(configured))

    shown = run_opendrs_in_terminal("status", "lab").lines

    (first,) = (n for n, line in enumerate(shown) if "automatic_tags" in line)
    assert shown[first].startswith("  steps of guests")
    assert shown[first + 1].startswith("  ")


def test_running_plan_is_cancelled_and_its_running_steps_finish(
    opendrs: RunOpendrs,
) -> None:
    add_plan(PlanState.APPROVED)
    with SqliteStore(STORE) as store:
        change = PlanChange(state=PlanState.RUNNING, at=NOW)
        assert DatabasePlanStore(store).change("k7w2x", change)

    answer = opendrs("cancel", "lab", "k7w2x")

    assert "running steps finish" in answer.out


def test_steps_of_a_partial_approval_are_named(opendrs: RunOpendrs) -> None:
    add_plan()

    approved = opendrs("approve", "lab", "k7w2x", "--step", "4")

    assert "approved: 2 of 4 steps: 3, 4\n" in approved.out
    assert "2 of 4 steps: 3, 4\n" in opendrs("plans", "lab", "k7w2x").out


@pytest.mark.parametrize(
    ("chosen", "steps"),
    [
        ([], ["1", "2", "3", "4"]),
        (["2"], ["1", "2"]),
        (["1"], ["1"]),
        (["4"], ["3", "4"]),
        (["1", "3"], ["1", "3", "4"]),
    ],
)
def test_approval_includes_what_the_chosen_steps_need(
    opendrs: RunOpendrs, chosen: list[str], steps: list[str]
) -> None:
    add_plan()
    options = [word for each in chosen for word in ("--step", each)]

    approved = json_output(opendrs, "approve", "lab", "k7w2x", *options)

    assert approved["state"] == "approved"
    assert approved["approval"]["steps"] == steps
    assert audit() == [
        ("approve", {"plan": "k7w2x", "steps": steps, "digest": "d" * 64})
    ]


def test_rejection_is_recorded_with_its_cause(opendrs: RunOpendrs) -> None:
    add_plan()

    rejected = json_output(
        opendrs, "reject", "lab", "k7w2x", "--because", "vm1 is being tested"
    )

    assert rejected["state"] == "rejected"
    assert rejected["detail"].endswith(": vm1 is being tested")
    assert audit() == [("reject", {"plan": "k7w2x", "because": "vm1 is being tested"})]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (PlanState.PROPOSED, ["cancel"]),
        (PlanState.APPROVED, ["approve"]),
        (PlanState.APPROVED, ["reject", "--because", "x"]),
        (PlanState.SUPERSEDED, ["approve"]),
        (PlanState.SUPERSEDED, ["cancel"]),
    ],
)
def test_state_that_does_not_allow_a_command_is_an_error(
    opendrs: RunOpendrs, state: PlanState, words: list[str]
) -> None:
    add_plan(state)
    name, *options = words

    answer = opendrs(name, "lab", "k7w2x", *options)

    assert answer.status == 2
    assert f"plan k7w2x: cannot {name} it: it is {state}" in answer.err
    assert audit() == []


def test_cancel_of_a_proposed_plan_names_reject(opendrs: RunOpendrs) -> None:
    add_plan()
    assert "reject it instead" in opendrs("cancel", "lab", "k7w2x").err

    add_plan_approval(opendrs)
    answer = opendrs("reject", "lab", "k7w2x", "--because", "x")
    assert "cancel it instead" in answer.err


def add_plan_approval(opendrs: RunOpendrs) -> None:
    assert opendrs("approve", "lab", "k7w2x").status == 0


def test_approved_plan_names_the_cause_of_its_wait(opendrs: RunOpendrs) -> None:
    add_plan()

    answer = opendrs("approve", "lab", "k7w2x")

    expires = f"{NOW + timedelta(seconds=LIFETIME):%Y-%m-%d %H:%M:%S} UTC"
    assert "no controller is running" in answer.out
    assert f"expires {expires}" in answer.out


def test_proposed_plan_names_the_commands_that_decide(opendrs: RunOpendrs) -> None:
    add_plan()
    shown = opendrs("plans", "lab", "k7w2x").out
    assert "opendrs approve lab k7w2x\n" in shown
    assert "opendrs reject lab k7w2x --because TEXT\n" in shown

    opendrs("approve", "lab", "k7w2x", "--step", "1")

    approved = opendrs("plans", "lab", "k7w2x").out
    assert "opendrs approve" not in approved
    rows = [line.split("\t") for line in approved.splitlines() if "\t" in line][1:]
    assert [row[4] for row in rows] == ["", *["not approved"] * 3]


def test_expired_plan_cannot_be_approved(opendrs: RunOpendrs) -> None:
    assert timedelta(seconds=1e-6) < SystemClock().now() - NOW
    add_plan(lifetime=1e-6)

    answer = opendrs("approve", "lab", "k7w2x")

    assert answer.status == 2
    assert "it has expired" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plans", "lab", "other"], 'lab: no plan "other"'),
        (["approve", "lab", "other"], 'lab: no plan "other"'),
        (["cancel", "lab", "other"], 'lab: no plan "other"'),
        (["approve", "lab", "k7w2x", "--step", "9"], "--step 9: plan k7w2x has"),
        (["mode", "unknown"], "unknown platform"),
        (["mode", "lab", "eager"], "'eager' is not one of 'observe', 'advise'"),
        (["pause", "lab", "--for", "1h"], "Missing option '--because'"),
    ],
)
def test_invalid_input_is_an_error_that_changes_nothing(
    opendrs: RunOpendrs, words: list[str], message: str
) -> None:
    add_plan()

    answer = opendrs(*words)

    assert answer.status == 2
    assert message in answer.err
    assert audit() == []
