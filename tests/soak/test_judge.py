"""The judge finds each promise that is broken, and nothing where all are kept."""

from __future__ import annotations

import ast
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from opendrs.controller import loop
from opendrs.controller.history import Past
from opendrs.controller.in_flight import InFlight
from opendrs.controller.ledger import Ledger
from opendrs.controller.pursuit import Pursuit
from opendrs.controller.stores import SqliteStore
from opendrs.model import Limits, Step
from opendrs.ports import Outcome, StepRecord
from soak import judge as judging
from soak import truth
from soak.cluster import GIB, Rule
from soak.episode import Episode
from soak.judge import Judge
from soak.truth import Promise, Terms

TERMS = Terms(
    headroom=0.1,
    overcommit=1.0,
    per_node=1,
    per_cluster=2,
    networks={"uplink": (("h1",), 1)},
    cooldown=300.0,
    quiet_time=60.0,
    timeout=90.0,
)


class Story:
    """Events that a judge is shown, by hand: four hosts of 32 GiB."""

    def __init__(self, place: Path, *rules: Rule, terms: Terms = TERMS) -> None:
        self.database = place / "record.sqlite"
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("CREATE TABLE records (run, step, action, outcome)")
        hosts = dict.fromkeys(("h1", "h2", "h3", "h4"), (32 * GIB, 2 * GIB))
        self.judge = Judge(
            terms=terms, database=self.database, hosts=hosts, rules=rules
        )
        self.say(0, "process")

    def say(self, at: float, event: str, **facts: object) -> None:
        self.judge.event(at, event, **facts)

    def guest(self, name: str, host: str, *, memory: int = 4, at: float = -1e4) -> None:
        self.say(
            max(0.0, at), "guest", guest=name, host=host, memory=memory * GIB,
            used=memory * GIB, running=True, live=True, tags=(), since=at,
        )  # fmt: skip

    def look(self, at: float, *silent: str) -> None:
        self.say(at, "look", taken=at, measured=at, silent=silent)

    def record(
        self,
        at: float,
        step: str,
        path: str,
        outcome: str | None = None,
        kind: str = "",
    ) -> None:
        """Record a step of a run; *path* is like "a h1 h2", or "h1" for a switch."""
        run, number = step.split(".")
        facts = _facts(path, kind)
        self.say(at, "writing", run=run, step=number, outcome=outcome)
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute(
                "DELETE FROM records WHERE run = ? AND step = ?", (run, number)
            )
            row = (run, number, json.dumps(facts), outcome)
            database.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)
        self.say(at, "written", run=run, step=number, outcome=outcome, **facts)

    def start(self, at: float, step: str, path: str, kind: str = "") -> None:
        """Start a job that is called as its step, which is recorded."""
        self.record(at, step, path, kind=kind)
        self.start_again(at, step, path, kind)

    def start_again(self, at: float, job: str, path: str, kind: str = "") -> None:
        """Start a job whose step is recorded already, or is not."""
        facts = _facts(path, kind)
        self.say(at, "start", **facts)
        self.say(at, "job", job=job, by="controller", **facts)

    def move(self, start: float, end: float, step: str, path: str) -> None:
        """Let a migration be done."""
        self.start(start, step, path)
        self.end(end, step, path)

    def end(self, at: float, step: str, path: str, outcome: str = "done") -> None:
        error = "" if outcome == "done" else "an error"
        self.say(at, "job-end", job=step, error=error)
        self.record(at, step, path, outcome)

    @property
    def broken(self) -> set[Promise]:
        return {violation.promise for violation in self.judge.violations}


def _facts(path: str, kind: str = "") -> dict[str, str]:
    guest, source, target = path.split() if " " in path else ("", path, path)
    kind = kind or ("migrate" if guest else "power-off")
    return {"kind": kind, "guest": guest, "source": source, "target": target}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    found = Story(tmp_path)
    for name, host in (("a", "h2"), ("b", "h2"), ("c", "h1")):
        found.guest(name, host)
    found.look(1)
    return found


@pytest.mark.parametrize("module", [judging, truth])
def test_the_judge_imports_nothing_of_the_project(module: ModuleType) -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {getattr(n, "module", None) or n.names[0].name for n in imports}

    assert {name for name in names if not name.startswith("soak.truth")} <= {
        "__future__", "collections", "collections.abc", "contextlib", "dataclasses",
        "enum", "json", "math", "pathlib", "sqlite3", "typing",
    }  # fmt: skip


def test_one_migration_after_the_other_breaks_nothing(story: Story) -> None:
    story.move(2, 20, "run.1", "a h2 h3")
    story.look(21)
    story.move(22, 40, "run.2", "b h2 h3")
    story.look(400)
    story.move(401, 420, "next.1", "a h3 h2")

    story.judge.finish({"a": ("h2", True), "b": ("h3", True), "c": ("h1", True)})

    assert story.broken == set()


def test_a_second_migration_from_a_node_is_found(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.start(3, "run.2", "b h2 h4")

    assert story.broken == {Promise.PER_NODE}


def test_a_migration_of_a_host_that_fell_silent_still_counts(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.look(10, "h2")
    story.start(11, "run.2", "c h1 h3")

    assert story.broken == {Promise.PER_NODE}


def test_a_migration_that_is_recorded_as_lost_still_counts(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(4, "unanswered", job="run.1")
    story.record(100, "run.1", "a h2 h3", "lost")
    story.look(101, "h2")
    story.start(102, "run.2", "c h1 h3")

    assert story.broken == {Promise.PER_NODE}


def test_migrations_of_others_count_once_they_were_seen(story: Story) -> None:
    facts = {**_facts("a h2 h3"), "job": "by-hand", "by": "operator"}
    story.say(2, "job", **facts)
    story.start(3, "run.1", "c h1 h3")
    unseen = story.broken
    story.end(5, "run.1", "c h1 h3", "failed")
    story.look(6)
    story.start(7, "run.2", "c h1 h3")

    assert unseen == set()
    assert story.broken == {Promise.PER_NODE}


def test_a_migration_too_many_in_the_cluster_is_found(tmp_path: Path) -> None:
    story = Story(tmp_path, terms=replace(TERMS, per_node=9))
    for name in ("a", "b", "c"):
        story.guest(name, "h2")
    story.look(1)
    for number, name in enumerate(("a", "b", "c")):
        story.start(2, f"run.{number}", f"{name} h2 h3")

    assert story.broken == {Promise.PER_CLUSTER}


def test_a_migration_too_many_over_a_network_is_found(tmp_path: Path) -> None:
    story = Story(tmp_path, terms=replace(TERMS, per_node=9))
    story.guest("a", "h1")
    story.guest("b", "h2")
    story.look(1)
    story.start(2, "run.1", "a h1 h3")
    story.start(3, "run.2", "b h2 h1")

    assert story.broken == {Promise.PER_NETWORK}


def test_guests_that_must_start_together_may_be_too_many_alone(tmp_path: Path) -> None:
    story = Story(tmp_path, Rule("affinity", ("a", "b")))
    story.guest("a", "h2")
    story.guest("b", "h2")
    story.look(1)
    story.start(2, "run.1", "a h2 h3")
    story.start(2, "run.2", "b h2 h3")
    story.end(9, "run.1", "a h2 h3")
    story.end(9, "run.2", "b h2 h3")

    assert story.broken == set()


@pytest.mark.parametrize(
    ("jumps", "broken"),
    [
        ([], {Promise.COOLDOWN}),
        ([(30, -86400)], {Promise.COOLDOWN}),  # set back: the move is in the future
        ([(10, 86400), (30, 0)], {Promise.COOLDOWN}),  # the move was noted as of then
        ([(30, -100), (32, 100)], {Promise.COOLDOWN}),
        ([(30, 86400)], set()),  # all that can be known is that a day has passed
    ],
)
def test_a_guest_that_migrates_again_within_the_cooldown_is_found(
    story: Story, jumps: list[tuple[float, float]], broken: set[Promise]
) -> None:
    story.start(2, "run.1", "a h2 h3")
    for at, offset in jumps:
        if at < 20:
            story.say(at, "clock", offset=offset)
    story.end(20, "run.1", "a h2 h3")
    for at, offset in jumps:
        if at > 20:
            story.say(at, "clock", offset=offset)
    story.look(40)
    story.start(41, "next.1", "a h3 h2")

    assert story.broken == broken


def test_a_guest_that_has_just_started_is_found(story: Story) -> None:
    story.guest("new", "h2", at=100)
    story.look(110)
    story.start(111, "run.1", "new h2 h3")

    assert story.broken == {Promise.QUIET_TIME}


def test_memory_that_is_promised_twice_is_found(story: Story) -> None:
    story.guest("large", "h2", memory=20)
    story.guest("larger", "h1", memory=16)
    story.look(2)
    story.move(3, 9, "run.1", "large h2 h3")
    story.look(10)
    story.start(11, "run.2", "larger h1 h3")

    assert story.broken == {Promise.HEADROOM, Promise.OVERCOMMIT}


def test_memory_in_use_counts_as_it_was_measured(tmp_path: Path) -> None:
    story = Story(tmp_path, terms=replace(TERMS, overcommit=2.0))
    for name, host in (("large", "h2"), ("larger", "h1")):
        story.guest(name, host, memory=16)
    story.look(2)
    story.move(3, 9, "run.1", "large h2 h3")
    story.say(10, "look", taken=10, measured=8, silent=())
    story.start(11, "run.2", "larger h1 h3")
    before = story.broken
    story.end(12, "run.2", "larger h1 h3", "failed")
    story.look(13)
    story.start(14, "run.3", "larger h1 h3")

    assert before == set()
    assert story.broken == {Promise.HEADROOM}


def test_memory_of_guests_that_appeared_since_the_look_does_not_count(
    story: Story,
) -> None:
    story.guest("large", "h3", memory=28, at=5)
    story.start(6, "run.1", "a h2 h3")

    assert story.broken == set()


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (Rule("anti-affinity", ("a", "c")), {Promise.RULE}),
        (Rule("node-affinity", ("a",), ("h2", "h3")), {Promise.RULE}),
        (Rule("pin", ("a",)), {Promise.IMMOBILE}),
        (Rule("anti-affinity", ("a", "c"), strict=False), set()),
        (Rule("anti-affinity", ("a", "b")), set()),
    ],
)
def test_a_rule_that_a_migration_breaks_is_found(
    tmp_path: Path, rule: Rule, broken: set[Promise]
) -> None:
    story = Story(tmp_path, rule)
    for name, host in (("a", "h2"), ("b", "h2"), ("c", "h1")):
        story.guest(name, host)
    story.look(1)
    story.start(2, "run.1", "a h2 h1")

    assert story.broken == broken


def test_guests_that_a_migration_separates_are_found(tmp_path: Path) -> None:
    story = Story(tmp_path, Rule("affinity", ("a", "b")))
    story.guest("a", "h2")
    story.guest("b", "h2")
    story.look(1)
    story.move(2, 9, "run.1", "a h2 h3")

    assert story.broken == {Promise.RULE}


def test_guests_that_arrive_together_while_no_controller_looks_break_nothing(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, Rule("affinity", ("a", "b")))
    story.guest("a", "h2")
    story.guest("b", "h2")
    story.look(1)
    story.start(2, "run.1", "a h2 h3")
    story.start(2, "run.2", "b h2 h3")
    story.say(3, "process-end")
    story.say(4, "process")
    story.end(9, "run.1", "a h2 h3")
    story.end(10, "run.2", "b h2 h3")

    assert story.broken == set()


def test_a_start_that_is_not_recorded_is_found(story: Story) -> None:
    story.start_again(2, "job-1", "a h2 h3")

    assert story.broken == {Promise.UNRECORDED}


def test_a_step_that_starts_twice_is_found(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(9, "job-end", job="run.1", error="an error")
    story.start_again(10, "job-2", "a h2 h3")

    assert story.broken == {Promise.TWICE}


def test_a_start_on_a_host_that_was_not_seen_is_found(story: Story) -> None:
    story.look(2, "h3")
    story.start(3, "run.1", "a h2 h3")

    assert story.broken == {Promise.UNSEEN}


def test_a_node_with_guests_that_is_powered_off_is_found(story: Story) -> None:
    story.start(2, "run.1", "h2", "power-off")

    assert story.broken == {Promise.NOT_EMPTY}


def test_a_node_that_a_guest_is_migrating_to_and_is_powered_off_is_found(
    story: Story,
) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.look(3)
    story.start(4, "run.2", "h3", "power-off")

    assert story.broken == {Promise.NOT_EMPTY}


def test_a_node_that_is_powered_off_right_after_it_was_powered_on_is_found(
    story: Story,
) -> None:
    story.start(2, "run.1", "h4", "power-on")
    story.say(90, "job-end", job="run.1", error="")
    story.record(91, "run.1", "h4", "done", kind="power-on")
    story.look(100)
    story.start(101, "run.2", "h4", "power-off")

    assert story.broken == {Promise.STAYS_ON}


def test_a_node_that_came_on_after_it_was_recorded_as_lost_may_be_powered_off(
    story: Story,
) -> None:
    story.start(2, "run.1", "h4", "power-on")
    story.say(3, "unanswered", job="run.1")
    story.record(200, "run.1", "h4", "lost", kind="power-on")
    story.say(300, "job-end", job="run.1", error="")
    story.look(510)
    story.start(511, "run.2", "h4", "power-off")

    assert story.broken == set()


def test_an_abort_before_the_timeout_is_found(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(60, "abort", job="run.1")

    assert story.broken == {Promise.EARLY_ABORT}


def test_an_abort_at_the_timeout_or_by_the_operator_breaks_nothing(
    story: Story,
) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(92, "abort", job="run.1")
    story.end(93, "run.1", "a h2 h3", "aborted")
    story.start(100, "run.2", "b h2 h3")
    story.say(101, "abort-all")
    story.say(102, "abort", job="run.2")

    assert story.broken == set()


def test_a_migration_that_runs_far_beyond_its_timeout_is_found(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.judge.tick(380)
    in_time = story.broken
    story.judge.tick(400)

    assert in_time == set()
    assert story.broken == {Promise.LATE_ABORT}


def test_a_migration_that_cannot_be_asked_after_may_run_on(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(80, "silent", host="h2", seconds=400)
    story.judge.tick(400)

    assert story.broken == set()


def test_a_migration_that_is_given_up_too_soon_is_found(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(4, "unanswered", job="run.1")
    story.record(40, "run.1", "a h2 h3", "lost")

    assert story.broken == {Promise.EARLY_LOSS}


@pytest.mark.parametrize("outcome", ["done", "failed", "aborted"])
def test_an_outcome_of_what_still_runs_is_found(story: Story, outcome: str) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.record(9, "run.1", "a h2 h3", outcome)

    assert story.broken == {Promise.OUTCOME}


def test_a_record_that_is_gone_is_found(story: Story) -> None:
    story.move(2, 9, "run.1", "a h2 h3")
    with closing(sqlite3.connect(story.database)) as database, database:
        database.execute("UPDATE records SET outcome = NULL")
    story.say(10, "process")

    assert story.broken == {Promise.DURABLE}


def test_a_start_before_what_an_earlier_process_left_has_an_outcome_is_found(
    story: Story,
) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(9, "job-end", job="run.1", error="")
    story.say(10, "process")
    story.look(11)
    story.start(12, "next.1", "b h2 h3")

    assert story.broken == {Promise.OPEN}


def test_a_step_without_an_outcome_is_found_in_the_end(story: Story) -> None:
    story.start(2, "run.1", "a h2 h3")
    story.say(9, "job-end", job="run.1", error="")

    story.judge.finish({"a": ("h3", True), "b": ("h2", True), "c": ("h1", True)})

    assert story.broken == {Promise.OPEN}


def test_a_guest_that_is_gone_is_found_in_the_end(story: Story) -> None:
    story.judge.finish({"a": ("h2", True), "b": ("h2", True)})

    assert story.broken == {Promise.GUEST}


# The production controller, with one limit of it out of force.


def limit(**changes: float | tuple[()]) -> Callable[[Limits], Limits]:
    return lambda limits: replace(limits, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seed", "promise", "changed"),
    [
        (3, Promise.PER_NODE, limit(moves_per_node=9)),
        (14, Promise.PER_CLUSTER, limit(moves_at_once=9)),
        (10, Promise.PER_NETWORK, limit(networks=())),
        (3, Promise.COOLDOWN, limit(cooldown=0.0)),
        (25, Promise.OVERCOMMIT, limit(memory_overbooking=9.0)),
        (1, Promise.EARLY_ABORT, limit(patience=5.0)),
        (4, Promise.LATE_ABORT, limit(patience=1e5)),
    ],
)
def test_a_limit_that_the_controller_does_not_keep_is_found(
    tmp_path: Path, seed: int, promise: Promise, changed: Callable[[Limits], Limits]
) -> None:
    result = Episode(seed, tmp_path, changed=changed).play()

    assert promise in result.broken, result.broken


@pytest.mark.parametrize(
    ("seed", "promise"), [(7, Promise.RULE), (1, Promise.IMMOBILE)]
)
def test_rules_that_the_controller_does_not_know_are_found(
    tmp_path: Path, seed: int, promise: Promise
) -> None:
    result = Episode(seed, tmp_path, rules=False).play()

    assert promise in result.broken, result.broken


def test_a_controller_that_forgets_what_it_moved_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Past(moves={}, wakes={})
    for module in ("execution", "cycle"):
        path = f"opendrs.controller.{module}.past"
        monkeypatch.setattr(path, lambda *_: nothing)

    result = Episode(3, tmp_path).play()

    assert result.broken == {Promise.COOLDOWN}


def test_a_controller_that_counts_only_what_it_sees_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InFlight, "counted", lambda _, seen: seen)

    result = Episode(10, tmp_path).play()

    assert Promise.PER_NODE in result.broken


def test_a_controller_that_starts_before_it_records_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def intend(self: Ledger, step: Step) -> StepRecord:
        record = self._record(step)
        del self._to_start[step.id]
        return record

    monkeypatch.setattr(Ledger, "intend", intend)

    result = Episode(1, tmp_path).play()

    assert Promise.UNRECORDED in result.broken


def test_a_controller_that_does_not_recover_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "resume", lambda _: ())

    result = Episode(1, tmp_path).play()

    assert Promise.OPEN in result.broken


def test_a_controller_that_calls_everything_done_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Pursuit.end
    monkeypatch.setattr(Pursuit, "end", lambda self, *_: end(self, Outcome.DONE))

    result = Episode(1, tmp_path).play()

    assert Promise.OUTCOME in result.broken


def test_a_record_that_does_not_last_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SqliteStore.write

    def forget(self: SqliteStore, record: StepRecord) -> None:
        if record.outcome is None:
            write(self, record)

    monkeypatch.setattr(SqliteStore, "write", forget)

    result = Episode(1, tmp_path).play()

    assert Promise.DURABLE in result.broken
