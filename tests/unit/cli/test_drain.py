"""The commands drain and undrain on a cluster that outlives them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from sqlalchemy import update

from opendrs.cli.platforms import PLATFORMS
from opendrs.config.controller_settings import Mode
from opendrs.config.platform_kinds import PlatformKind
from opendrs.controller import SystemClock
from opendrs.controller.modes import BREAKER_KEY, MODE_KEY, ModeChange
from opendrs.errors import PlatformUnavailableError
from opendrs.model import (
    GIB,
    GuestId,
    GuestState,
    NodeId,
    NodeState,
    Relocation,
    Snapshot,
)
from opendrs.ports import (
    PlanApproval,
    PlanChange,
    PlanState,
)
from opendrs.simulation import SimulatedPlatform, running_action
from opendrs.store import Access, DatabasePlanStore, SqliteStore
from opendrs.store.tables import PLANS
from support.builders import NOON, cluster
from support.howto_pages import HowToPage
from support.open_plans import open_plan
from support.simulated_cluster import migration, step
from support.terminal import CommandResult, RunOpendrs


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoSettings:
    """The settings of a platform that needs none."""


def initial_cluster(*, locked: bool = True) -> Snapshot:
    snapshot = cluster(
        {"n1": 0.4, "n2": 0.1, "n3": 0.1},
        {
            "a": ("n1", 0.1),
            "b": ("n1", 0.1),
            "backup": ("n1", 0.1),
            "stopped": ("n1", 0.1),
            "d": ("n2", 0.1),
            "e": ("n3", 0.1),
        },
    )
    changed = {
        "stopped": replace(
            snapshot.guests[GuestId("stopped")], state=GuestState.STOPPED
        ),
        "backup": replace(
            snapshot.guests[GuestId("backup")], lock="backup" if locked else None
        ),
    }
    guests = {**snapshot.guests, **{each.id: each for each in changed.values()}}
    return replace(snapshot, guests=guests)


class Lab:
    """A platform, and commands about it."""

    def __init__(self, opendrs: RunOpendrs, config: Path, origin: Snapshot) -> None:
        self._opendrs = opendrs
        self._config = config
        self.replace(origin)

    def replace(self, origin: Snapshot, bandwidth: float = 1000 * GIB) -> None:
        self.platform = SimulatedPlatform(
            origin, SystemClock(), bandwidth=bandwidth, load_variation=0.0, name="lab"
        )

    def run(self, command: str, *options: str) -> CommandResult:
        return self._opendrs(command, "lab", *options, "--config", str(self._config))

    def document(self, command: str, *options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.run(command, *options, "--format", "json").out
        )
        return found

    def on(self, node: str) -> list[str]:
        guests = self.platform.observe().guests.values()
        return sorted(guest.id for guest in guests if guest.node == node)


@pytest.fixture
def lab(opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    sleep = SystemClock.sleep
    monkeypatch.setattr(
        SystemClock, "sleep", lambda clock, seconds: sleep(clock, min(seconds, 0.05))
    )
    monkeypatch.setattr(running_action, "RESTART_TIME", 0.1)
    config = tmp_path / "opendrs.toml"
    config.write_text(
        tomli_w.dumps(
            {
                "platform": {"lab": {"kind": "shared"}},
                "store": {"path": str(tmp_path / "record.sqlite")},
            }
        )
    )
    found = Lab(opendrs, config, initial_cluster())
    kind = PlatformKind(
        settings_type=_NoSettings,
        create=lambda _name, _settings, _rules: found.platform,
    )
    monkeypatch.setitem(PLATFORMS.kinds, "shared", lambda: kind)
    return found


def test_drain_names_what_stays_and_what_it_needs(lab: Lab) -> None:
    result = lab.run("drain", "n1", "--yes", "--because", "new disk")

    assert (result.status, result.err) == (1, "")
    assert lab.on("n1") == ["backup"]
    assert "1 guest cannot leave n1:" in result.out
    assert result.out.splitlines()[0].endswith(", 1 cannot leave")
    assert "wait for the end of the operation" in result.out
    listed = lab.run("drain").out
    assert listed.count("new disk") == 1
    assert re.search(r"\t20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\t", listed)


def test_drain_reports_targets_with_their_load_afterwards(lab: Lab) -> None:
    document = lab.document("drain", "n1", "--yes")

    assert (document["executed_by"], document["empty"]) == ("drain", False)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("backup", "guest-locked")
    by_node = {each["node"]: each for each in document["plan"]["targets"]}
    assert sorted(by_node) == ["n2", "n3"]
    assert by_node["n2"]["cpu_before"] == pytest.approx(0.1)
    assert by_node["n2"]["cpu_after"] == pytest.approx(0.2)
    assert {each["outcome"] for each in document["records"]} == {"done"}


def test_node_stays_empty_and_is_refilled(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes")

    assert lab.run("apply", "--yes", "--policy", "optimize").status == 0
    assert lab.on("n1") == ["backup"]
    assert lab.run("undrain", "n1", "--bring-back").status == 0
    assert lab.on("n1") == ["a", "b", "backup", "stopped"]
    assert lab.document("drain") == {"nodes": [], "rolling": None}
    assert lab.run("replay").status == 0


def test_undrain_leaves_guests_where_they_are(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes")

    shown = lab.document("show")["snapshot"]["nodes"]
    assert (shown["n1"]["state"], shown["n2"]["state"]) == ("maintenance", "online")
    assert lab.run("undrain", "n1").status == 0
    assert lab.on("n1") == ["backup"]


def add_plan(store: SqliteStore, name: str, source: str, *states: PlanState) -> None:
    """Add a plan that drains *source*, in the last of *states*."""
    steps = (step("1", migration("a", source, "n3")),)
    approval = PlanApproval(user="ada", at=NOON, steps=(steps[0].id,), digest="d")
    first, *others = states
    plan = replace(
        open_plan(*steps, run=f"run {name}"),
        id=name,
        policy="drain",
        reason="drains-nodes",
        digest="d",
        state=first,
        approval=approval,
    )
    plans = DatabasePlanStore(store)
    assert plans.add(plan)
    for state in others:
        assert plans.change(name, PlanChange(state=state, at=NOON))


def test_undrain_ends_the_plans_that_drain_the_node(lab: Lab, tmp_path: Path) -> None:
    lab.run("drain", "n1", "--yes")
    with SqliteStore(tmp_path / "record.sqlite") as store:
        add_plan(store, "waiting", "n1", PlanState.PROPOSED)
        add_plan(store, "approved", "n1", PlanState.APPROVED)
        add_plan(store, "running", "n1", PlanState.APPROVED, PlanState.RUNNING)
        add_plan(store, "other", "n2", PlanState.APPROVED)

    assert lab.run("undrain", "n1").status == 0

    with SqliteStore(tmp_path / "record.sqlite") as store:
        states = {plan.id: plan.state for plan in DatabasePlanStore(store).plans()}
    assert states == {
        "waiting": PlanState.SUPERSEDED,
        "approved": PlanState.SUPERSEDED,
        "running": PlanState.CANCELLED,
        "other": PlanState.APPROVED,
    }


def test_mode_of_a_controller_prevents_the_return_and_undrain_says_so(
    lab: Lab, tmp_path: Path
) -> None:
    lab.run("drain", "n1", "--yes")

    with SqliteStore(tmp_path / "record.sqlite"):  # as a controller
        result = lab.run("undrain", "n1", "--bring-back", "--format", "json")

    assert result.status == 1
    assert "mode observe" in json.loads(result.out)["blocked"]
    assert "mode observe" in result.err


def wait_beside_controller(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    store: SqliteStore,
    *actions: Callable[[], object],
) -> dict[str, Any]:
    """Drain n1 and wait, while a controller does *actions*, one at each pause."""
    left, shorter_sleep = list(actions), SystemClock.sleep

    def controlled_sleep(clock: SystemClock, seconds: float) -> None:
        if left:
            left.pop(0)()
        shorter_sleep(clock, seconds)

    monkeypatch.setattr(SystemClock, "sleep", controlled_sleep)
    store.save("platform", {"name": "lab"})
    mode = ModeChange(mode=Mode.AUTOMATIC, user="ada", at=NOON)
    store.save(MODE_KEY, mode.entry())
    document = lab.document("drain", "n1", "--yes", "--wait")
    assert (left, document["executed_by"]) == ([], "controller")
    return document


def cluster_of(*names: str) -> Snapshot:
    snapshot = initial_cluster()
    guests = {GuestId(name): snapshot.guests[GuestId(name)] for name in names}
    return replace(snapshot, guests=guests)


def test_wait_for_a_drain_outlasts_other_migrations(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While d migrates, no drain is planned: it is unknown which guests will remain."""
    lab.replace(cluster_of("backup", "stopped", "d"), bandwidth=GIB / 1000)
    other = lab.platform.start(migration("d", "n2", "n3"))
    move = Relocation(GuestId("stopped"), NodeId("n1"), NodeId("n3"))

    with SqliteStore(tmp_path / "record.sqlite") as store:
        document = wait_beside_controller(
            *(lab, monkeypatch, store),
            lambda: lab.platform.abort(other),
            lambda: lab.platform.start(move),
        )

    assert {each["reason"] for each in document["plan"]["remaining"]} == {
        "migration-in-progress"
    }
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("backup", "guest-locked")
    assert lab.on("n1") == ["backup"]


class LateMetrics:
    """CPU usage of the guests that is unknown at first, as in the samples of Incus."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._measured = False
        observe = SimulatedPlatform.observe

        def observe_partly(platform: SimulatedPlatform) -> Snapshot:
            snapshot = observe(platform)
            guests = {
                name: replace(guest, usage=replace(guest.usage, cpu=None))
                for name, guest in snapshot.guests.items()
            }
            return snapshot if self._measured else replace(snapshot, guests=guests)

        monkeypatch.setattr(SimulatedPlatform, "observe", observe_partly)

    def arrive(self) -> None:
        self._measured = True


def test_wait_for_a_drain_outlasts_missing_metrics(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.replace(cluster_of("a", "backup"))

    with SqliteStore(tmp_path / "record.sqlite") as store:
        document = wait_beside_controller(
            *(lab, monkeypatch, store),
            LateMetrics(monkeypatch).arrive,
            lambda: lab.platform.start(migration("a", "n1", "n3")),
        )

    before, after = (
        {each["guest"]: each["reason"] for each in found["remaining"]}
        for found in (document["plan"], document)
    )
    assert before == {"a": "metrics-missing", "backup": "guest-locked"}
    assert after == {"backup": "guest-locked"}
    assert lab.on("n1") == ["backup"]


def test_wait_for_a_drain_outlasts_a_platform_and_a_node_that_do_not_respond(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node hides its guests while it does not respond: it is not empty then."""
    lab.replace(cluster_of("a", "backup"))
    observe, failures = SimulatedPlatform.observe, 0

    def fail_to_observe() -> None:
        nonlocal failures
        failures = 3

    def observe_after_failures(platform: SimulatedPlatform) -> Snapshot:
        nonlocal failures
        failures -= failures > 0
        if failures > 1:
            raise PlatformUnavailableError("lab: GET /nodes", "timeout")
        snapshot = observe(platform)
        if failures == 0:
            return snapshot
        node = replace(snapshot.nodes[NodeId("n1")], state=NodeState.UNKNOWN)
        guests = {
            name: guest
            for name, guest in snapshot.guests.items()
            if guest.node != node.id
        }
        return replace(snapshot, nodes={**snapshot.nodes, node.id: node}, guests=guests)

    monkeypatch.setattr(SimulatedPlatform, "observe", observe_after_failures)

    with SqliteStore(tmp_path / "record.sqlite") as store:
        document = wait_beside_controller(
            *(lab, monkeypatch, store),
            fail_to_observe,
            lambda: None,
            lambda: lab.platform.start(migration("a", "n1", "n3")),
        )

    assert {each["guest"] for each in document["remaining"]} == {"backup"}
    assert lab.on("n1") == ["backup"]


def test_rolling_waits_for_missing_metrics(
    free_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, shorter_sleep = LateMetrics(monkeypatch), SystemClock.sleep

    def sleep_until_measured(clock: SystemClock, seconds: float) -> None:
        metrics.arrive()
        shorter_sleep(clock, seconds)

    monkeypatch.setattr(SystemClock, "sleep", sleep_until_measured)

    words = ("--for", "updates", "--hook", "true", "--yes")
    assert free_lab.document("drain", *words)["done"] == ["n1", "n2", "n3"]


def test_second_drain_continues_the_first(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes", "--because", "new disk")
    (first,) = lab.document("drain")["nodes"]
    lab.run("drain", "n1", "--yes")

    (second,) = lab.document("drain")["nodes"]
    assert (second["since"], second["because"]) == (first["since"], "new disk")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("drain", "n9", "--yes"), "unknown-name"),
        (("drain", "n1"), "inconsistent"),
        (("undrain", "n1"), "unknown-name"),
    ],
)
def test_bad_input_changes_nothing(lab: Lab, words: tuple[str, ...], code: str) -> None:
    result = lab.run(*words, "--format", "json")

    assert result.status == 2
    assert json.loads(result.err.splitlines()[-1])["code"] == code
    assert lab.document("drain") == {"nodes": [], "rolling": None}
    assert len(lab.on("n1")) == 4


def rolling_hook(tmp_path: Path, body: str) -> str:
    """Return a command that appends the name of the node to the file `order`."""
    script = tmp_path / "hook.sh"
    script.write_text(f'echo "updating $1"; echo "$1" >> {tmp_path}/order\n{body}\n')
    return f"sh {script}"


@pytest.fixture
def free_lab(lab: Lab) -> Lab:
    lab.replace(initial_cluster(locked=False))
    return lab


def test_rolling_updates_each_node_when_it_is_empty(
    free_lab: Lab, tmp_path: Path
) -> None:
    before = {node: free_lab.on(node) for node in ("n1", "n2", "n3")}
    hook = rolling_hook(tmp_path, "")

    result = free_lab.run("drain", "--for", "updates", "--hook", hook, "--yes")

    assert (result.status, result.err) == (0, "")
    assert "n2: hook: updating n2" in result.out
    assert (tmp_path / "order").read_text().split() == ["n1", "n2", "n3"]
    assert {node: free_lab.on(node) for node in before} == before
    assert free_lab.document("drain") == {"nodes": [], "rolling": None}


def test_rolling_stops_at_a_failed_hook_and_continues(
    free_lab: Lab, tmp_path: Path
) -> None:
    hook = rolling_hook(
        tmp_path, f'[ "$1" != n2 ] || [ -e {tmp_path}/fixed ] || exit 3'
    )
    words = ("drain", "--for", "updates", "--yes")

    stopped = free_lab.document(*words, "--hook", hook)

    assert stopped["failure"] == "n2: hook: exit status 3"
    assert (stopped["done"], stopped["left"]) == (["n1"], ["n2", "n3"])
    assert free_lab.on("n2") == []
    assert free_lab.document("drain")["rolling"] == {
        "done": ["n1"],
        "left": ["n2", "n3"],
        "phase": "hook",
        "failure": "n2: hook: exit status 3",
    }
    assert "1 of 3 nodes done; next: n2: hook; stopped" in free_lab.run("drain").out
    (tmp_path / "fixed").touch()
    assert free_lab.run(*words, "--hook", "true").status == 2  # another hook
    assert free_lab.run(*words).status == 2  # none
    assert free_lab.document(*words, "--hook", hook)["done"] == ["n1", "n2", "n3"]
    assert (tmp_path / "order").read_text().split() == ["n1", "n2", "n2", "n3"]


def test_arguments_of_the_hook_are_not_recorded(free_lab: Lab, tmp_path: Path) -> None:
    words = ("drain", "--for", "updates", "--yes", "--hook", "false --token s3cr3t")

    assert free_lab.run(*words).status == 3

    files = [*tmp_path.glob("record.sqlite*")]
    assert files
    assert all(b"s3cr3t" not in file.read_bytes() for file in files)
    other = free_lab.run(*words[:-1], "false --token other")
    assert other.status == 2
    assert "s3cr3t" not in other.err


class WaitedController:
    """A controller, of which a script says what it does while a command sleeps.

    Args:
        path: The store of the platform.
        actions: Called one after the other, each time that the command sleeps.
    """

    def __init__(
        self, path: Path, *actions: Callable[[SqliteStore], object], mode: Mode
    ) -> None:
        self._path = path
        self._actions = list(actions)
        self._mode = mode

    def run(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> CommandResult:
        """Return the result of the rolling maintenance of n1 beside the controller."""
        words = ("--for", "updates", "--yes", "--hook", "true", "--nodes", "n1")
        with SqliteStore(self._path) as store:
            store.save("platform", {"name": "lab"})
            change = ModeChange(mode=self._mode, user="ada", at=NOON)
            store.save(MODE_KEY, change.entry())

            def sleep(clock: SystemClock, seconds: float) -> None:
                assert self._actions, "the command still waits"
                self._actions.pop(0)(store)
                shorter_sleep(clock, seconds)

            shorter_sleep = SystemClock.sleep

            monkeypatch.setattr(SystemClock, "sleep", sleep)
            return lab.run("drain", *words, "--format", "json")


def propose(store: SqliteStore, *, lifetime: float = 3600.0) -> None:
    """Propose the plan k7w2x, which drains n1."""
    add_plan(store, "k7w2x", "n1", PlanState.PROPOSED)
    with store.transaction() as connection:
        now = SystemClock().now()
        values = {"created_at": now, "lifetime": lifetime}
        connection.execute(update(PLANS).values(values))


def decline(store: SqliteStore, state: PlanState) -> None:
    now = SystemClock().now()
    change = PlanChange(state=state, at=now, detail=f"{state} by ada: a test")
    assert DatabasePlanStore(store).change("k7w2x", change)


def nothing(store: SqliteStore) -> None:
    """Let the command wait on."""
    del store


def test_rolling_stops_if_the_circuit_breaker_opens(
    free_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = WaitedController(
        tmp_path / "record.sqlite",
        nothing,
        lambda store: store.save(BREAKER_KEY, {}),
        mode=Mode.AUTOMATIC,
    )

    stopped = json.loads(controller.run(free_lab, monkeypatch).out)

    assert "the circuit breaker is open" in stopped["failure"]


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        (PlanState.REJECTED, "plan k7w2x: rejected: rejected by ada: a test"),
        (PlanState.EXPIRED, "plan k7w2x: expired: expired by ada: a test"),
        (None, "plan k7w2x: not approved in time"),
    ],
)
def test_rolling_in_mode_advise_waits_and_stops_if_its_plan_is_not_approved(
    free_lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: PlanState | None,
    failure: str,
) -> None:
    """Without a state, the plan has expired, but the controller does not respond."""
    lifetime = 0.0 if state is None else 3600.0
    controller = WaitedController(
        tmp_path / "record.sqlite",
        nothing,
        lambda store: propose(store, lifetime=lifetime),
        nothing,
        nothing if state is None else lambda store: decline(store, state),
        mode=Mode.ADVISE,
    )

    result = controller.run(free_lab, monkeypatch)

    assert json.loads(result.out)["failure"] == f"n1: drain: {failure}"
    assert ("opendrs approve lab k7w2x" in result.err) == bool(lifetime)
    assert result.status == 3


def test_rolling_in_mode_advise_continues_after_the_approval(
    free_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller drains n1; another mode then ends the wait for the return."""

    def empty_node(_: SqliteStore) -> None:
        for guest in ("a", "b", "backup"):
            free_lab.platform.start(migration(guest, "n1", "n3"))
        stopped_guest = Relocation(GuestId("stopped"), NodeId("n1"), NodeId("n3"))
        free_lab.platform.start(stopped_guest)

    observe_mode = ModeChange(mode=Mode.OBSERVE, user="ada", at=NOON).entry()
    controller = WaitedController(
        tmp_path / "record.sqlite",
        propose,
        lambda store: decline(store, PlanState.APPROVED),
        lambda store: decline(store, PlanState.RUNNING),
        empty_node,
        *[nothing] * 6,
        lambda store: decline(store, PlanState.DONE),
        *[nothing] * 60,
        lambda store: store.save(MODE_KEY, observe_mode),
        mode=Mode.ADVISE,
    )

    stopped = json.loads(controller.run(free_lab, monkeypatch).out)

    assert stopped["hook_output"] == {"n1": []}
    with SqliteStore(tmp_path / "record.sqlite", Access.READ) as store:
        plan = DatabasePlanStore(store).plan("k7w2x")
    assert plan is not None
    assert plan.state is PlanState.DONE  # the end of the drain has not cancelled it
    assert "return: the controller is in mode observe" in stopped["failure"]


def test_rolling_starts_only_if_every_node_can_be_drained(
    lab: Lab, tmp_path: Path
) -> None:
    hook = rolling_hook(tmp_path, "")
    words = ("drain", "--for", "updates", "--yes", "--hook", hook)

    rejected = lab.run(*words)

    assert rejected.status == 1
    assert "guests cannot leave n1" in rejected.out
    assert not (tmp_path / "order").exists()
    assert lab.run(*words, "--nodes", "n3,n2").status == 0
    assert (tmp_path / "order").read_text().split() == ["n3", "n2"]


def test_rolling_that_is_discarded_can_be_started_again(
    free_lab: Lab, tmp_path: Path
) -> None:
    words = ("drain", "--for", "updates", "--yes")
    assert free_lab.run(*words, "--hook", "false").status == 3

    assert free_lab.run(*words, "--discard").status == 0
    assert free_lab.document("drain")["nodes"][0]["node"] == "n1"
    hook = rolling_hook(tmp_path, "")
    assert free_lab.run(*words, "--hook", hook, "--nodes", "n1").status == 0
    assert free_lab.document("drain") == {"nodes": [], "rolling": None}


@pytest.mark.parametrize(
    "options",
    [
        ("--for", "updates"),
        ("--for", "updates", "--hook", ""),
        ("--for", "updates", "--hook", "'"),
        ("--for", "updates", "--hook", "true", "--nodes", "n1,n1"),
        ("--for", "updates", "--hook", "true", "--nodes", "n9"),
        ("n1", "--for", "updates", "--hook", "true"),
        ("n1", "--hook", "true"),
    ],
)
def test_invalid_rolling_is_rejected(lab: Lab, options: tuple[str, ...]) -> None:
    assert lab.run("drain", *options, "--yes").status == 2
    assert lab.document("drain") == {"nodes": [], "rolling": None}


def test_howto_commands_run(free_lab: Lab, tmp_path: Path) -> None:
    statuses: list[int] = []

    def run(command: str) -> None:
        _, verb, _, *options = shlex.split(command)
        if "--hook" in options:  # it fails, as the page assumes afterwards
            options[options.index("--hook") + 1] = rolling_hook(tmp_path, "exit 1")
        if verb == "drain" and options:
            options.append("--yes")
        statuses.append(free_lab.run(verb, *options).status)

    HowToPage("drain.md").run({"opendrs": run})

    assert statuses == [0, 0, 0, 0, 3, 0, 0]
    assert free_lab.document("drain") == {"nodes": [], "rolling": None}
