"""opendrs report: what was done, and what the policy would have done."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tomli_w

from opendrs.config.policy_loading import build_policy
from opendrs.controller.serialization import cycle_record
from opendrs.model import DEFAULT_LIMITS, GuestId, LiveMigration, NodeId, StepId
from opendrs.ports import Outcome, StepRecord, TaskId
from opendrs.store import SqliteStore
from support.builders import NOON, cluster
from support.persistent_cluster import configure_persistent_platform
from support.terminal import RunOpendrs
from support.webhook_server import WebhookServer

Words = Callable[..., list[str]]
CYCLES = 6
INTERVAL = timedelta(minutes=10)
IMBALANCED = cluster(
    {"a": 0.9, "b": 0.1}, {"v": ("a", 0.4), "w": ("a", 0.3), "x": ("b", 0.1)}
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "opendrs.toml"


@pytest.fixture
def words(config: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    """Record an imbalanced hour, in which one migration failed; return arguments."""
    path = config.with_name("record.sqlite")
    policy = build_policy("balance", {}, replace(DEFAULT_LIMITS, bandwidth=10**9))
    with SqliteStore(path) as store:
        store.save("platform", {"name": "lab"})
        for number in range(CYCLES):
            snapshot = replace(IMBALANCED, taken_at=NOON + number * INTERVAL)
            decision = policy.decide(snapshot, None)
            at = snapshot.taken_at + timedelta(seconds=1)
            store.record_cycle(
                cycle_record(
                    f"run {number}",
                    at,
                    snapshot,
                    policy=policy,
                    memory=None,
                    decision=decision,
                )
            )
        move = LiveMigration(GuestId("v"), NodeId("a"), NodeId("b"))
        failed = StepRecord(
            run="run 0",
            step=StepId("1"),
            action=move,
            intended_at=NOON,
            task=TaskId("task"),
            ended_at=NOON + timedelta(seconds=30),
            outcome=Outcome.FAILED,
        )
        store.write(failed)
    return configure_persistent_platform(monkeypatch, config, path)


def test_report_has_what_was_done_and_what_would_have_been(
    opendrs: RunOpendrs, words: Words
) -> None:
    result = opendrs(*words("report", "--policy", "balance", "--format", "json"))

    assert (result.status, result.err) == (0, "")
    report = json.loads(result.out)
    assert report["record"]["snapshots"] == CYCLES
    assert report["activity"]["reasons"] == {"improves-balance": CYCLES}
    assert report["activity"]["steps"] == {"failed": 1}
    assert report["activity"]["duration_ratio"] is None
    recorded, static, balance = report["rows"]
    assert [row["kind"] for row in report["rows"]] == ["recorded", "static", "policy"]
    assert recorded["migrations"] == static["migrations"] == 0
    assert balance["migrations"] >= 1
    assert balance["highest_load_mean"] < recorded["highest_load_mean"]
    assert balance["regret"] is None
    assert report["summary"].startswith("balance would have done ")
    assert not any("series" in row for row in report["rows"])


def test_report_simulates_the_schedule_unless_a_policy_is_named(
    opendrs: RunOpendrs, words: Words, config: Path
) -> None:
    document = '[[schedule]]\npolicy = "balance"\nwindows = ["00:00-24:00"]\n'
    config.write_text(config.read_text() + document)

    scheduled, named = (
        json.loads(opendrs(*words("report", *options, "--format", "json")).out)
        for options in ((), ("--policy", "balance"))
    )

    assert [row["kind"] for row in scheduled["rows"]][2:] == ["schedule"]
    assert scheduled["rows"][-1]["migrations"] >= 1
    assert scheduled["summary"].startswith("the schedule would have done ")
    assert [row["kind"] for row in named["rows"]][2:] == ["policy"]


def test_report_as_text_begins_with_the_summary(
    opendrs: RunOpendrs, words: Words
) -> None:
    lines = opendrs(*words("report", "--policy", "balance")).out.splitlines()

    assert lines[0].startswith(f"lab: {CYCLES} snapshots from ")
    assert lines[1:4] == [
        f"decisions: {CYCLES} improves-balance",
        "plans: none",
        "steps of executed plans: 1 failed",
    ]
    assert lines[5].startswith("balance would have done ")
    assert [line.split("\t")[0] for line in lines if "\t" in line] == [
        "policy",
        "(as recorded)",
        "(nothing moved)",
        "balance",
    ]


def test_period_is_the_newest_part(opendrs: RunOpendrs, words: Words) -> None:
    result = opendrs(*words("report", "--since", "20 min", "--format", "json"))

    report = json.loads(result.out)
    assert report["record"]["snapshots"] == 3
    assert report["activity"]["steps"] == {}


@pytest.fixture
def server() -> WebhookServer:
    return WebhookServer()


def add_notification(config: Path, **settings: object) -> None:
    document = tomllib.loads(config.read_text())
    document.setdefault("notifications", []).append({"kind": "webhook", **settings})
    config.write_text(tomli_w.dumps(document))


def test_report_is_sent(
    opendrs: RunOpendrs, words: Words, config: Path, server: WebhookServer
) -> None:
    add_notification(config, url=server.url, level="info", events=["report"])
    other = ["rules-broken"]
    add_notification(config, url=server.url, level="info", events=other)

    result = opendrs(*words("report", "--policy", "balance", "--send"))
    server.close()

    assert (result.status, result.err) == (0, "")
    ((_, body),) = server.received
    sent = json.loads(body)
    assert (sent["event"], sent["platform"]) == ("report", "lab")
    assert sent["message"] == sent["fields"]["summary"]
    assert sent["fields"]["activity"]["steps"] == {"failed": 1}


def test_report_that_no_notification_selects_is_an_error(
    opendrs: RunOpendrs, words: Words, config: Path, server: WebhookServer
) -> None:
    add_notification(config, url=server.url, events=["report"])  # level warning

    result = opendrs(*words("report", "--send"))
    server.close()

    assert result.status == 2
    assert 'no table selects "report"; expected one with level "info"' in result.err
    assert server.received == []


def test_report_that_is_not_delivered_is_a_failure(
    opendrs: RunOpendrs, words: Words, config: Path, server: WebhookServer
) -> None:
    add_notification(config, url=server.url, level="info")
    server.statuses = [403]

    result = opendrs(*words("report", "--send"))
    server.close()

    assert result.status == 3
    assert "webhook at 127.0.0.1: not delivered: response 403" in result.err


def test_unknown_policy_is_an_error(opendrs: RunOpendrs, words: Words) -> None:
    assert opendrs(*words("report", "--policy", "balanced")).status == 2


class _References(HTMLParser):
    """Collect what a page refers to, and its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value is not None:
                self.references.append(value)


def test_page_has_the_report_and_needs_no_network(
    opendrs: RunOpendrs, words: Words, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"

    result = opendrs(*words("report", "--policy", "balance", "--html", str(page)))

    assert (result.status, result.err) == (0, "")
    text = page.read_text()
    parser = _References()
    parser.feed(text)
    assert {"svg", "table", "h2"} <= parser.tags
    assert not {"script", "link", "img", "iframe"} & parser.tags
    # An SVG refers to its own parts only.
    assert all(each.startswith("#") for each in parser.references)
    assert "default-src 'none'" in text
    for title in ("Balance", "Service", "Moves", "Not done", "Predicted", "Energy"):
        assert title in text
    assert "<td>failed</td>" in text  # the step that failed


def test_page_of_another_suffix_is_rejected(
    opendrs: RunOpendrs, words: Words, tmp_path: Path
) -> None:
    page = tmp_path / "report.txt"

    assert opendrs(*words("report", "--html", str(page))).status == 2
    assert not page.exists()
