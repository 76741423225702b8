"""The judge finds each promise that is broken, and nothing where all are kept."""

from __future__ import annotations

import ast
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from opendrs.config.controller_settings import Mode
from opendrs.controller import approvals, cycle, enrichment, executor, protection
from opendrs.controller.history import RecentActions
from opendrs.controller.in_flight import OpenMigrations
from opendrs.controller.modes import EffectiveMode, ModeSource
from opendrs.controller.plan_progress import PlanProgress
from opendrs.controller.task_tracker import TaskTracker
from opendrs.model import Limits, MigrationLoad, Step
from opendrs.ports import Outcome, StepRecord
from opendrs.store import SqliteStore
from opendrs.store.row_lease import RowLease
from soak import checker as judging
from soak import consent, invariants, record, undo
from soak.checker import InvariantChecker
from soak.cluster import GIB, Cluster, Rule
from soak.endpoint import Endpoint
from soak.invariants import CheckedLimits, Invariant
from soak.platform import FaultyPlatform
from soak.record import Record, SqliteDatabase
from soak.run import SoakRun
from support.postgresql_server import PostgresqlServer

TERMS = CheckedLimits(
    headroom=0.1,
    overcommit=1.0,
    per_node=1,
    per_cluster=2,
    networks={"uplink": (("h1",), 1)},
    cooldown=300.0,
    min_uptime=60.0,
    timeout=90.0,
)


class EventScript:
    """Events that a judge is shown, by hand: four hosts of 32 GiB."""

    def __init__(self, place: Path, *rules: Rule, terms: CheckedLimits = TERMS) -> None:
        self.database = place / "record.sqlite"
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("CREATE TABLE steps (run, step, action, outcome)")
        hosts = dict.fromkeys(("h1", "h2", "h3", "h4"), (32 * GIB, 2 * GIB))
        self.judge = InvariantChecker(
            limits=terms,
            record=Record(SqliteDatabase(self.database)),
            node_memory=hosts,
            rules=rules,
        )
        self.event(0, "process")

    def event(self, at: float, event: str, **facts: object) -> None:
        self.judge.event(at, event, **facts)

    def guest(self, name: str, host: str, *, memory: int = 4, at: float = -1e4) -> None:
        self.event(
            max(0.0, at), "guest", guest=name, host=host, memory=memory * GIB,
            used=memory * GIB, running=True, live=True, tags=(), since=at,
        )  # fmt: skip

    def observe(self, at: float, *silent: str) -> None:
        self.event(at, "look", taken=at, measured=at, silent=silent)

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
        self.event(at, "writing", run=run, step=number, outcome=outcome)
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute(
                "DELETE FROM steps WHERE run = ? AND step = ?", (run, number)
            )
            row = (run, number, json.dumps(facts), outcome)
            database.execute("INSERT INTO steps VALUES (?, ?, ?, ?)", row)
        self.event(at, "written", run=run, step=number, outcome=outcome, **facts)

    def start(self, at: float, step: str, path: str, kind: str = "") -> None:
        """Start a job that is called as its step, which is recorded."""
        self.record(at, step, path, kind=kind)
        self.start_again(at, step, path, kind)

    def start_again(self, at: float, job: str, path: str, kind: str = "") -> None:
        """Start a job whose step is recorded already, or is not."""
        facts = _facts(path, kind)
        self.event(at, "start", **facts)
        self.event(at, "job", job=job, by="controller", **facts)

    def move(self, start: float, end: float, step: str, path: str) -> None:
        """Let a migration be done."""
        self.start(start, step, path)
        self.end(end, step, path)

    def end(self, at: float, step: str, path: str, outcome: str = "done") -> None:
        error = "" if outcome == "done" else "an error"
        self.event(at, "job-end", job=step, error=error)
        self.record(at, step, path, outcome)

    @property
    def violated(self) -> set[Invariant]:
        return {violation.invariant for violation in self.judge.violations}


def _facts(path: str, kind: str = "") -> dict[str, str]:
    guest, source, target = path.split() if " " in path else ("", path, path)
    kind = kind or ("live-migration" if guest else "power-off")
    return {"kind": kind, "guest": guest, "source": source, "target": target}


@pytest.fixture
def script(tmp_path: Path) -> EventScript:
    found = EventScript(tmp_path)
    for name, host in (("a", "h2"), ("b", "h2"), ("c", "h1")):
        found.guest(name, host)
    found.observe(1)
    return found


@pytest.mark.parametrize("module", [judging, invariants, record, consent, undo])
def test_checker_imports_nothing_of_the_project(module: ModuleType) -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {getattr(n, "module", None) or n.names[0].name for n in imports}

    judges = {"soak.checker", "soak.consent", "soak.invariants", "soak.record"}
    assert names <= judges | {
        "__future__", "collections", "collections.abc", "contextlib", "dataclasses",
        "enum", "json", "math", "pathlib", "psycopg", "sqlite3", "typing",
    }  # fmt: skip


def test_checker_sequential_migrations_no_violation(script: EventScript) -> None:
    script.move(2, 20, "run.1", "a h2 h3")
    script.observe(21)
    script.move(22, 40, "run.2", "b h2 h3")
    script.observe(400)
    script.move(401, 420, "next.1", "a h3 h2")

    script.judge.finish({"a": ("h2", True), "b": ("h3", True), "c": ("h1", True)})

    assert script.violated == set()


def test_checker_parallel_migrations_of_node_violates_per_node(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.start(3, "run.2", "b h2 h4")

    assert script.violated == {Invariant.PER_NODE}


def test_checker_unreachable_host_migration_counts(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.observe(10, "h2")
    script.start(11, "run.2", "c h1 h3")

    assert script.violated == {Invariant.PER_NODE}


def test_checker_lost_migration_counts(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(4, "unanswered", job="run.1")
    script.record(100, "run.1", "a h2 h3", "lost")
    script.observe(101, "h2")
    script.start(102, "run.2", "c h1 h3")

    assert script.violated == {Invariant.PER_NODE}


def test_checker_observed_foreign_migration_counts(script: EventScript) -> None:
    facts = {**_facts("a h2 h3"), "job": "by-hand", "by": "operator"}
    script.event(2, "job", **facts)
    script.start(3, "run.1", "c h1 h3")
    unseen = script.violated
    script.end(5, "run.1", "c h1 h3", "failed")
    script.observe(6)
    script.start(7, "run.2", "c h1 h3")

    assert unseen == set()
    assert script.violated == {Invariant.PER_NODE}


def test_checker_parallel_migrations_violate_per_cluster(tmp_path: Path) -> None:
    script = EventScript(tmp_path, terms=replace(TERMS, per_node=9))
    for name in ("a", "b", "c"):
        script.guest(name, "h2")
    script.observe(1)
    for number, name in enumerate(("a", "b", "c")):
        script.start(2, f"run.{number}", f"{name} h2 h3")

    assert script.violated == {Invariant.PER_CLUSTER}


def test_checker_parallel_migrations_violate_per_network(tmp_path: Path) -> None:
    script = EventScript(tmp_path, terms=replace(TERMS, per_node=9))
    script.guest("a", "h1")
    script.guest("b", "h2")
    script.observe(1)
    script.start(2, "run.1", "a h1 h3")
    script.start(3, "run.2", "b h2 h1")

    assert script.violated == {Invariant.PER_NETWORK}


def test_checker_affinity_group_may_exceed_limit_alone(tmp_path: Path) -> None:
    script = EventScript(tmp_path, Rule("affinity", ("a", "b")))
    script.guest("a", "h2")
    script.guest("b", "h2")
    script.observe(1)
    script.start(2, "run.1", "a h2 h3")
    script.start(2, "run.2", "b h2 h3")
    script.end(9, "run.1", "a h2 h3")
    script.end(9, "run.2", "b h2 h3")

    assert script.violated == set()


@pytest.mark.parametrize(
    ("jumps", "broken"),
    [
        ([], {Invariant.COOLDOWN}),
        ([(30, -86400)], {Invariant.COOLDOWN}),  # set back: the move is in the future
        ([(10, 86400), (30, 0)], {Invariant.COOLDOWN}),  # the move was noted as of then
        ([(30, -100), (32, 100)], {Invariant.COOLDOWN}),
        ([(30, 86400)], set()),  # all that can be known is that a day has passed
    ],
)
def test_checker_migration_within_cooldown_violates_cooldown(
    script: EventScript, jumps: list[tuple[float, float]], broken: set[Invariant]
) -> None:
    script.start(2, "run.1", "a h2 h3")
    for at, offset in jumps:
        if at < 20:
            script.event(at, "clock", offset=offset)
    script.end(20, "run.1", "a h2 h3")
    for at, offset in jumps:
        if at > 20:
            script.event(at, "clock", offset=offset)
    script.observe(40)
    script.start(41, "next.1", "a h3 h2")

    assert script.violated == broken


def test_checker_recently_started_guest_violates_min_uptime(
    script: EventScript,
) -> None:
    script.guest("new", "h2", at=100)
    script.observe(110)
    script.start(111, "run.1", "new h2 h3")

    assert script.violated == {Invariant.MIN_UPTIME}


def test_checker_memory_committed_twice_violates_overcommit(
    script: EventScript,
) -> None:
    script.guest("large", "h2", memory=20)
    script.guest("larger", "h1", memory=16)
    script.observe(2)
    script.move(3, 9, "run.1", "large h2 h3")
    script.observe(10)
    script.start(11, "run.2", "larger h1 h3")

    assert script.violated == {Invariant.HEADROOM, Invariant.OVERCOMMIT}


def test_checker_memory_usage_counts_as_measured(tmp_path: Path) -> None:
    script = EventScript(tmp_path, terms=replace(TERMS, overcommit=2.0))
    for name, host in (("large", "h2"), ("larger", "h1")):
        script.guest(name, host, memory=16)
    script.observe(2)
    script.move(3, 9, "run.1", "large h2 h3")
    script.event(10, "look", taken=10, measured=8, silent=())
    script.start(11, "run.2", "larger h1 h3")
    before = script.violated
    script.end(12, "run.2", "larger h1 h3", "failed")
    script.observe(13)
    script.start(14, "run.3", "larger h1 h3")

    assert before == set()
    assert script.violated == {Invariant.HEADROOM}


def test_checker_new_guest_memory_does_not_count(
    script: EventScript,
) -> None:
    script.guest("large", "h3", memory=28, at=5)
    script.start(6, "run.1", "a h2 h3")

    assert script.violated == set()


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (Rule("anti-affinity", ("a", "c")), {Invariant.RULE}),
        (Rule("node-affinity", ("a",), ("h2", "h3")), {Invariant.RULE}),
        (Rule("pin", ("a",)), {Invariant.IMMOBILE}),
        (Rule("anti-affinity", ("a", "c"), strict=False), set()),
        (Rule("anti-affinity", ("a", "b")), set()),
    ],
)
def test_checker_broken_rule_violates_rule(
    tmp_path: Path, rule: Rule, broken: set[Invariant]
) -> None:
    script = EventScript(tmp_path, rule)
    for name, host in (("a", "h2"), ("b", "h2"), ("c", "h1")):
        script.guest(name, host)
    script.observe(1)
    script.start(2, "run.1", "a h2 h1")

    assert script.violated == broken


def test_checker_separated_guests_violate_rule(tmp_path: Path) -> None:
    script = EventScript(tmp_path, Rule("affinity", ("a", "b")))
    script.guest("a", "h2")
    script.guest("b", "h2")
    script.observe(1)
    script.move(2, 9, "run.1", "a h2 h3")

    assert script.violated == {Invariant.RULE}


def test_checker_guests_arriving_together_no_violation(
    tmp_path: Path,
) -> None:
    script = EventScript(tmp_path, Rule("affinity", ("a", "b")))
    script.guest("a", "h2")
    script.guest("b", "h2")
    script.observe(1)
    script.start(2, "run.1", "a h2 h3")
    script.start(2, "run.2", "b h2 h3")
    script.event(3, "process-end")
    script.event(4, "process")
    script.end(9, "run.1", "a h2 h3")
    script.end(10, "run.2", "b h2 h3")

    assert script.violated == set()


@pytest.mark.parametrize(
    ("is_answered", "broken"), [(False, set()), (True, {Invariant.RULE})]
)
def test_checker_late_answer_to_a_start_delays_the_group(
    tmp_path: Path,
    is_answered: bool,  # noqa: FBT001 - a parameter of pytest
    broken: set[Invariant],
) -> None:
    script = EventScript(tmp_path, Rule("affinity", ("a", "b")))
    script.guest("a", "h2")
    script.guest("b", "h2")
    script.observe(1)
    script.record(2, "run.2", "b h2 h3")
    script.start(2, "run.1", "a h2 h3")
    if is_answered:
        script.record(3, "run.1", "a h2 h3")
    script.event(9, "job-end", job="run.1", error="")

    assert script.violated == broken


def test_checker_unrecorded_start_violates_unrecorded(script: EventScript) -> None:
    script.start_again(2, "job-1", "a h2 h3")

    assert script.violated == {Invariant.UNRECORDED}


def test_checker_repeated_start_violates_twice(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(9, "job-end", job="run.1", error="an error")
    script.start_again(10, "job-2", "a h2 h3")

    assert script.violated == {Invariant.TWICE}


def test_checker_start_on_unobserved_host_is_violation(script: EventScript) -> None:
    script.observe(2, "h3")
    script.start(3, "run.1", "a h2 h3")

    assert script.violated == {Invariant.UNOBSERVED}


def test_checker_power_off_with_guests_violates_not_empty(script: EventScript) -> None:
    script.start(2, "run.1", "h2", "power-off")

    assert script.violated == {Invariant.NOT_EMPTY}


def test_checker_power_off_of_target_violates_not_empty(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.observe(3)
    script.start(4, "run.2", "h3", "power-off")

    assert script.violated == {Invariant.NOT_EMPTY}


def test_checker_power_off_after_power_on_violates_stays_on(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "h4", "power-on")
    script.event(90, "job-end", job="run.1", error="")
    script.record(91, "run.1", "h4", "done", kind="power-on")
    script.observe(100)
    script.start(101, "run.2", "h4", "power-off")

    assert script.violated == {Invariant.STAYS_ON}


def test_checker_power_off_after_lost_power_on_no_violation(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "h4", "power-on")
    script.event(3, "unanswered", job="run.1")
    script.record(200, "run.1", "h4", "lost", kind="power-on")
    script.event(300, "job-end", job="run.1", error="")
    script.observe(510)
    script.start(511, "run.2", "h4", "power-off")

    assert script.violated == set()


def test_checker_early_abort_is_violation(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(60, "abort", job="run.1")

    assert script.violated == {Invariant.EARLY_ABORT}


def test_checker_abort_at_timeout_no_violation(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(92, "abort", job="run.1")
    script.end(93, "run.1", "a h2 h3", "aborted")
    script.start(100, "run.2", "b h2 h3")
    script.event(101, "abort-all")
    script.event(102, "abort", job="run.2")

    assert script.violated == set()


def test_checker_overdue_migration_violates_late_abort(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.judge.tick(380)
    in_time = script.violated
    script.judge.tick(400)

    assert in_time == set()
    assert script.violated == {Invariant.LATE_ABORT}


def test_checker_unreachable_migration_may_run_on(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(80, "silent", host="h2", seconds=400)
    script.judge.tick(400)

    assert script.violated == set()


def test_checker_early_loss_is_violation(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(4, "unanswered", job="run.1")
    script.record(40, "run.1", "a h2 h3", "lost")

    assert script.violated == {Invariant.EARLY_LOSS}


@pytest.mark.parametrize("outcome", ["done", "failed", "aborted"])
def test_checker_outcome_of_running_job_is_violation(
    script: EventScript, outcome: str
) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.record(9, "run.1", "a h2 h3", outcome)

    assert script.violated == {Invariant.OUTCOME}


def test_checker_missing_record_violates_durable(script: EventScript) -> None:
    script.move(2, 9, "run.1", "a h2 h3")
    with closing(sqlite3.connect(script.database)) as database, database:
        database.execute("UPDATE steps SET outcome = NULL")
    script.event(10, "process")

    assert script.violated == {Invariant.DURABLE}


def test_checker_start_before_recovery_violates_open(
    script: EventScript,
) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(9, "job-end", job="run.1", error="")
    script.event(10, "process")
    script.observe(11)
    script.start(12, "next.1", "b h2 h3")

    assert script.violated == {Invariant.OPEN}


def test_checker_finish_step_without_outcome_is_violation(script: EventScript) -> None:
    script.start(2, "run.1", "a h2 h3")
    script.event(9, "job-end", job="run.1", error="")

    script.judge.finish({"a": ("h3", True), "b": ("h2", True), "c": ("h1", True)})

    assert script.violated == {Invariant.OPEN}


def test_checker_finish_missing_guest_is_violation(script: EventScript) -> None:
    script.judge.finish({"a": ("h2", True), "b": ("h2", True)})

    assert script.violated == {Invariant.GUEST}


# The production controller, with one limit of it out of force.


def limit(**changes: float | tuple[()]) -> Callable[[Limits], Limits]:
    return lambda limits: replace(limits, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seed", "invariant", "changed"),
    [
        (5, Invariant.PER_NODE, limit(max_migrations_per_node=9)),
        (14, Invariant.PER_CLUSTER, limit(max_parallel_migrations=9)),
        (10, Invariant.PER_NETWORK, limit(networks=())),
        (1, Invariant.COOLDOWN, limit(cooldown=0.0)),
        (7, Invariant.OVERCOMMIT, limit(memory_overcommit=9.0)),
        (1, Invariant.EARLY_ABORT, limit(migration_timeout=5.0)),
        (5, Invariant.LATE_ABORT, limit(migration_timeout=1e5)),
    ],
)
def test_soak_run_with_changed_limit_violates_invariant(
    tmp_path: Path, seed: int, invariant: Invariant, changed: Callable[[Limits], Limits]
) -> None:
    result = SoakRun(seed, tmp_path, operated=False, change_limits=changed).run()

    assert invariant in result.violated, result.violated


@pytest.mark.parametrize(
    ("seed", "invariant"), [(7, Invariant.RULE), (1, Invariant.IMMOBILE)]
)
def test_soak_run_with_hidden_rules_violates_invariant(
    tmp_path: Path, seed: int, invariant: Invariant
) -> None:
    result = SoakRun(seed, tmp_path, operated=False, rules=False).run()

    assert invariant in result.violated, result.violated


def test_soak_run_without_history_violates_cooldown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = RecentActions(migrated_at={}, powered_on_at={})
    for module in ("executor", "enrichment"):
        path = f"opendrs.controller.{module}.recent_actions"
        monkeypatch.setattr(path, lambda *_: nothing)

    result = SoakRun(1, tmp_path, operated=False).run()

    assert result.violated == {Invariant.COOLDOWN}


def test_soak_run_without_open_migrations_violates_per_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenMigrations, "add_to", lambda _, seen: seen)

    result = SoakRun(10, tmp_path, operated=False).run()

    assert Invariant.PER_NODE in result.violated


def test_soak_run_without_intention_violates_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def intend(
        self: PlanProgress, step: Step, load: MigrationLoad | None
    ) -> StepRecord:
        del load
        record = self._new_record(step)
        del self._pending[step.id]
        return record

    monkeypatch.setattr(PlanProgress, "record_intention", intend)

    result = SoakRun(1, tmp_path, operated=False).run()

    assert Invariant.UNRECORDED in result.violated


def test_soak_run_without_recovery_violates_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "recover", lambda _: ())

    result = SoakRun(1, tmp_path, operated=False).run()

    assert Invariant.OPEN in result.violated


def test_soak_run_with_false_outcomes_violates_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = TaskTracker.finish
    monkeypatch.setattr(TaskTracker, "finish", lambda self, *_: end(self, Outcome.DONE))

    result = SoakRun(1, tmp_path, operated=False).run()

    assert Invariant.OUTCOME in result.violated


def test_soak_run_with_lost_records_violates_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SqliteStore.write

    def forget(self: SqliteStore, record: StepRecord) -> None:
        if record.outcome is None:
            write(self, record)

    monkeypatch.setattr(SqliteStore, "write", forget)

    result = SoakRun(1, tmp_path, operated=False).run()

    assert Invariant.DURABLE in result.violated


AUTOMATIC = EffectiveMode(mode=Mode.AUTOMATIC, source=ModeSource.OPERATOR, detail="")


def test_soak_run_that_ignores_the_mode_violates_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "effective_mode", lambda *_, **__: AUTOMATIC)

    assert Invariant.CONSENT in SoakRun(1, tmp_path).run().violated


def test_soak_run_that_ignores_drains_violates_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (executor, enrichment):
        monkeypatch.setattr(module, "with_drained_nodes", lambda snapshot, _: snapshot)

    assert Invariant.DRAINED in SoakRun(1, tmp_path).run().violated


def test_soak_run_without_undo_rules_violates_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protection, "undo_rules", lambda *_: ())

    assert Invariant.UNDONE in SoakRun(6, tmp_path, operated=False).run().violated


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_soak_run_without_fencing_violates_leader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgresql_server: PostgresqlServer,
) -> None:
    monkeypatch.setattr(RowLease, "require", lambda *_: None)
    monkeypatch.setattr(RowLease, "require_recent", lambda _: None)

    result = SoakRun(1, tmp_path, server=postgresql_server).run()

    assert Invariant.LEADER in result.violated


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_soak_run_without_a_checked_token_violates_leader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgresql_server: PostgresqlServer,
) -> None:
    monkeypatch.setattr(RowLease, "require", lambda *_: None)

    result = SoakRun(1, tmp_path, server=postgresql_server).run()

    assert Invariant.LEADER in result.violated


@pytest.mark.parametrize(
    ("calls", "violates"),
    [
        (["changing", "committing", "log"], False),
        (["changed", "changing"], False),
        (["committing", "changed"], True),
        (["start"], True),
        (["abort"], True),
    ],
    ids=["commit fails", "committed before", "commits", "starts", "aborts"],
)
def test_former_leader_violates_by_a_change_alone(
    calls: list[str], *, violates: bool, tmp_path: Path
) -> None:
    script = EventScript(tmp_path)
    draw = Random(0)  # noqa: S311 - no secret
    cluster = Cluster(draw)
    cluster.report = script.judge.event
    platform = FaultyPlatform(cluster=cluster, draw=draw)
    endpoint = Endpoint(cluster, platform, script.judge, draw)

    for previous, method in pairwise(["", *calls]):
        endpoint.answer_former(previous, method)

    violated = [each.invariant for each in script.judge.violations]
    assert violated == [Invariant.LEADER] * violates
