"""The log of the controller reports decisions and broken rules when they change."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from builders import cluster, guest_ids
from opendrs.cli.logs import JsonLines
from opendrs.controller.cyclelog import CycleLog
from opendrs.model import AntiAffinity, Plan, Snapshot
from opendrs.policies import Balance, Decision, Optimize, Reason
from stage import HASTY, migration, step

APART = AntiAffinity(guests=guest_ids("vm1", "vm2"), name="web apart")
BALANCE = Balance(limits=HASTY)


def level(*rules: AntiAffinity) -> Snapshot:
    """Return two nodes in balance, with two guests on the first."""
    guests = {"vm1": ("a", 0.1), "vm2": ("a", 0.1), "vm3": ("b", 0.2)}
    return cluster({"a": 0.2, "b": 0.2}, guests, rules)


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def logged(
    caplog: pytest.LogCaptureFixture, *events: str, least: int = logging.INFO
) -> list[str]:
    """Return the messages of such events at that level or above."""
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") in events and record.levelno >= least
    ]


def idle(reason: Reason, detail: str, *notes: str) -> Decision[None]:
    return Decision(reason, None, detail=detail, notes=notes)


def test_the_reason_for_which_nothing_is_done_is_logged_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLog("lab")
    details = [
        (Reason.BALANCED, "imbalance 0.053; below 0.1: enough"),
        (Reason.BALANCED, "imbalance 0.061; below 0.1: enough"),
        (Reason.MIGRATION_UNDER_WAY, "on the move: vm1"),
        (Reason.MIGRATION_UNDER_WAY, "on the move: vm2"),
        (Reason.BALANCED, "imbalance 0.053; below 0.1: enough"),
    ]

    for reason, detail in details:
        log.decided(BALANCE, idle(reason, detail), level(), "run")

    assert logged(caplog, "decided") == [
        "balance: nothing to do; balanced, imbalance 0.053; below 0.1: enough",
        "balance: nothing to do; migration-under-way, on the move: vm1",
        "balance: nothing to do; migration-under-way, on the move: vm2",
        "balance: nothing to do; balanced, imbalance 0.053; below 0.1: enough",
    ]
    assert len(logged(caplog, "decided", least=logging.DEBUG)) == 5


def test_a_plan_is_always_logged_and_what_follows_it_is_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLog("lab")
    plan = Plan((step("1", migration("vm1", "a", "b")),))
    acting = Decision(Reason.IMPROVES_BALANCE, None, plan, "imbalance 0.3")
    resting = idle(Reason.BALANCED, "enough")

    for decision in (acting, acting, resting, acting, resting):
        log.decided(BALANCE, decision, level(), "run")

    assert logged(caplog, "decided") == [
        "balance: 1 step; improves-balance, imbalance 0.3",
        "balance: 1 step; improves-balance, imbalance 0.3",
        "balance: nothing to do; balanced, enough",
        "balance: 1 step; improves-balance, imbalance 0.3",
        "balance: nothing to do; balanced, enough",
    ]


def test_notes_say_more_where_nothing_is_done(caplog: pytest.LogCaptureFixture) -> None:
    notes = [f"left alone: vm{number}: it is pinned" for number in range(1, 6)]

    CycleLog("lab").decided(
        BALANCE, idle(Reason.NO_CANDIDATE, "no move helps", *notes), level(), "run"
    )

    (message,) = logged(caplog, "decided")
    assert message.startswith("balance: nothing to do; no-candidate, no move helps; ")
    assert message.endswith("; left alone: vm3: it is pinned; and 2 notes more")
    assert vars(caplog.records[-1])["about"]["notes"] == notes


def test_broken_strict_rules_are_logged_when_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLog("lab")
    resting = idle(Reason.BALANCED, "enough")

    for rules in ((), (APART,), (APART,), (), ()):
        log.decided(BALANCE, resting, level(*rules), "run")

    broken, kept = logged(caplog, "rules-broken", "rules-kept")
    assert broken.startswith(
        "rules: broken strict rules: 1; after this plan: 1; stays broken: "
    )
    assert "broken by vm1, vm2 on a; to repair, configure the policy" in broken
    assert broken.endswith("and run: opendrs apply lab --policy optimize")
    assert kept == "rules: no strict rule is broken any more"


def test_a_plan_that_repairs_all_rules_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan = Plan((step("1", migration("vm1", "a", "b")),))
    repairing = Decision(Reason.MENDS_RULES, None, plan)

    CycleLog("lab").decided(Optimize(limits=HASTY), repairing, level(APART), "run")

    assert logged(caplog, "rules-broken") == [
        "rules: broken strict rules: 1; after this plan: 0"
    ]
    assert logged(caplog, "rules-broken", least=logging.WARNING) == []


def test_rules_that_cannot_be_kept_have_no_cure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2", "vm3"), name="three apart")

    CycleLog("lab").decided(
        BALANCE, idle(Reason.BALANCED, "enough"), level(apart), "run"
    )

    (message,) = logged(caplog, "rules-broken")
    assert "; cannot be kept: " in message
    assert "optimize" not in message


def test_soft_rules_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    soft = replace(APART, strict=False)

    CycleLog("lab").decided(
        BALANCE, idle(Reason.BALANCED, "enough"), level(soft), "run"
    )

    assert logged(caplog, "rules-broken", "rules-kept") == []


def test_programs_read_the_same_as_json(caplog: pytest.LogCaptureFixture) -> None:
    CycleLog("lab").decided(
        BALANCE, idle(Reason.BALANCED, "enough"), level(APART), "run"
    )

    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    rules, decided = lines
    assert (rules["event"], rules["level"]) == ("rules-broken", "warning")
    assert rules["broken"] == rules["remaining"]
    assert rules["broken"][0]["guests"] == ["vm1", "vm2"]
    assert decided["event"] == "decided"
    assert decided["reason"] == "balanced"
