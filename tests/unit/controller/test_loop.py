"""The controller goes on, cycle after cycle, until it is told to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from builders import NOON, cluster, guest_ids
from opendrs.controller.deciding import PolicyAlone
from opendrs.controller.loop import Bell, Controller, Routine
from opendrs.errors import (
    OpenDRSError,
    PermissionDeniedError,
    PlatformUnavailableError,
    StoreError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import AntiAffinity, Snapshot, StepId
from opendrs.platforms.file import snapshot_from
from opendrs.policies import AutoRebalance, Balance, Policy
from opendrs.ports import Outcome, StepRecord
from stage import HASTY, Stage, migration

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
LEVEL = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})


class Theatre:
    """A stage on which a controller works, and a look at each of its cycles.

    Args:
        origin: The cluster in the beginning.
        policy: What decides.
        interval: Seconds from one cycle to the next.
    """

    def __init__(
        self,
        origin: Snapshot = LEVEL,
        policy: Policy[None] | Policy[int] | None = None,
        interval: float = 300,
    ) -> None:
        self.stage = Stage(origin)
        self.looks: list[datetime] = []
        self.at_look: dict[int, Callable[[], None]] = {}
        self.alive: Callable[[], None] = lambda: None
        self.bell = Bell()
        self.controller = Controller(
            Routine(
                interval=interval,
                gathering=10,
                observe=self._observe,
                require_alive=self._require_alive,
            ),
            self.stage.means(),
            PolicyAlone(policy or Balance(limits=HASTY), self.stage.store),
            self.bell,
        )

    def _observe(self) -> Snapshot:
        self.looks.append(self.stage.clock.now())
        self.at_look.get(len(self.looks), lambda: None)()
        return self.stage.platform.observe()

    def _require_alive(self) -> None:
        self.alive()

    def stop_at_look(self, number: int) -> None:
        self.at_look[number] = self.stage.brake.pull

    @property
    def seconds(self) -> list[float]:
        """Return when the cluster was looked at, in seconds since the beginning."""
        return [round((look - NOON).total_seconds(), 6) for look in self.looks]


def raising(error: Exception) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def events(caplog: pytest.LogCaptureFixture, *names: str) -> list[str]:
    """Return what was told of such events."""
    told = [record for record in caplog.records if record.name == "opendrs"]
    return [r.getMessage() for r in told if getattr(r, "event", "") in names]


@pytest.fixture(autouse=True)
def _everything_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def test_looks_at_the_cluster_at_once_and_then_at_a_fixed_pace() -> None:
    theatre = Theatre()
    theatre.stop_at_look(4)

    theatre.controller.keep_on()

    assert theatre.seconds == [0, 300, 600, 900]


def test_carries_out_what_the_policy_decides() -> None:
    theatre = Theatre(LOPSIDED)
    theatre.stop_at_look(2)

    theatre.controller.keep_on()

    done = [record.outcome for record in theatre.stage.diary.ends]
    assert done == [Outcome.DONE] * 2
    assert theatre.stage.store.unfinished() == ()


def test_a_state_that_does_not_change_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm", "other"), name="apart")
    theatre = Theatre(cluster({"a": 0.5, "b": 0.5}, {"vm": ("a", 0.1)}, [apart]))
    theatre.at_look[3] = theatre.stage.world.disconnect
    theatre.at_look[4] = theatre.stage.world.reconnect
    theatre.stop_at_look(6)
    caplog.set_level(logging.INFO, "opendrs")

    theatre.controller.keep_on()

    assert len(events(caplog, "decided")) == 1


def test_broken_strict_rules_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm", "other"), name="apart")
    guests = {"vm": ("a", 0.1), "other": ("a", 0.1), "big": ("b", 0.2)}
    theatre = Theatre(cluster({"a": 0.2, "b": 0.2}, guests, [apart]))
    theatre.stop_at_look(4)

    theatre.controller.keep_on()

    (message,) = events(caplog, "rules-broken")
    assert "broken strict rules: 1; after this plan: 1" in message
    assert "opendrs apply simulation --policy optimize" in message


def test_the_policy_remembers_from_one_cycle_to_the_next() -> None:
    theatre = Theatre(LOPSIDED, AutoRebalance(hold=3, limits=HASTY))
    theatre.stop_at_look(4)

    theatre.controller.keep_on()

    reasons = [
        cycle.document["decision"]["reason"]  # type: ignore[index]
        for cycle in theatre.stage.store.cycles()
    ]
    assert reasons[:3] == ["not-yet-sustained", "not-yet-sustained", "improves-balance"]


def test_the_record_of_a_cycle_has_the_broken_rules_before_and_after() -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    theatre = Theatre(replace(LOPSIDED, rules=(apart,)))

    theatre.controller.once()

    [cycle] = theatre.stage.store.cycles()
    decision = cycle.document["decision"]
    assert isinstance(decision, dict)
    broken = {"rule": "apart", "strict": True, "guests": ["one", "two"], "nodes": ["a"]}
    moved = {step["guest"] for step in decision["steps"]} & {"one", "two"}
    assert decision["violations"] == {
        "before": [broken],
        "after": [] if len(moved) == 1 else [broken],
    }


def test_no_two_executions_are_called_the_same() -> None:
    theatre = Theatre(interval=1e-6)
    theatre.stop_at_look(5)

    theatre.controller.keep_on()

    runs = [cycle.run for cycle in theatre.stage.store.cycles()]
    assert len(set(runs)) == len(runs) == 5


def test_what_was_decided_is_decided_again_from_the_record() -> None:
    policy = AutoRebalance(hold=1, limits=HASTY)
    theatre = Theatre(LOPSIDED, policy)
    theatre.stop_at_look(3)
    theatre.controller.keep_on()

    for cycle in theatre.stage.store.cycles():
        snapshot = snapshot_from(cycle.document["snapshot"], "the record")
        memory = cycle.document["memory"]
        again = policy.decide(snapshot, memory)  # type: ignore[arg-type]
        told = cycle.document["decision"]

        assert isinstance(told, dict)
        assert again.reason == told["reason"]
        assert again.detail == told["detail"]
        assert [step.id for step in again.plan.steps] == [
            step["id"] for step in told["steps"]
        ]


def test_a_pull_of_the_brake_ends_it_while_it_waits() -> None:
    theatre = Theatre()
    theatre.stage.world.later(450, theatre.stage.brake.pull)
    # The simulated world only sees what is due when somebody asks.
    theatre.alive = theatre.stage.world.observe  # type: ignore[assignment]

    theatre.controller.keep_on()

    assert theatre.seconds == [0, 300]
    assert theatre.stage.elapsed == pytest.approx(450, abs=1)


def test_a_pull_while_steps_run_lets_them_end_and_starts_no_more() -> None:
    theatre = Theatre(LOPSIDED)
    theatre.stage.limits = HASTY
    theatre.stage.world.later(2, theatre.stage.brake.pull)

    theatre.controller.keep_on()

    ends = [record.outcome for record in theatre.stage.diary.ends]
    assert ends == [Outcome.DONE] * 2
    assert len(theatre.looks) == 1


def test_two_pulls_give_up_what_runs() -> None:
    theatre = Theatre(LOPSIDED)
    for _ in range(2):
        theatre.stage.world.later(2, theatre.stage.brake.pull)

    theatre.controller.keep_on()

    ends = {record.outcome for record in theatre.stage.diary.ends}
    assert ends == {Outcome.ABORTED}
    assert {theatre.stage.node_of(name) for name in ("one", "two", "three")} == {"a"}


def test_who_stops_it_at_a_look_has_nothing_started() -> None:
    theatre = Theatre(LOPSIDED)
    theatre.stop_at_look(1)

    theatre.controller.keep_on()

    assert theatre.stage.world.starts == {}


def test_a_cluster_that_cannot_be_seen_is_told_once_and_looked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theatre = Theatre()
    theatre.stage.world.disconnect()
    theatre.at_look[5] = theatre.stage.world.reconnect
    theatre.stop_at_look(6)

    theatre.controller.keep_on()

    # Later and later, but no later than the next cycle is due anyway.
    assert theatre.seconds == [0, 5, 15, 35, 75, 300]
    assert events(caplog, "not-seen", "seen-again") == [
        "the cluster cannot be seen: simulation does not answer",
        "the cluster can be seen again",
    ]


def test_a_second_outage_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    theatre = Theatre()
    theatre.at_look = {
        1: raising(PlatformUnavailableError("away")),
        3: raising(UnexpectedResponseError("odd")),
    }
    theatre.stop_at_look(4)

    theatre.controller.keep_on()

    assert theatre.seconds == [0, 5, 300, 305]
    assert len(events(caplog, "not-seen")) == 2


@pytest.mark.parametrize(
    "error",
    [PermissionDeniedError("no"), UnsupportedError("never"), StoreError("full")],
)
def test_what_will_not_pass_ends_it(error: OpenDRSError) -> None:
    theatre = Theatre()
    theatre.at_look[2] = raising(error)

    with pytest.raises(type(error)):
        theatre.controller.keep_on()

    assert len(theatre.looks) == 2


def test_it_ends_when_what_runs_beside_it_has_ended() -> None:
    theatre = Theatre()

    def ended() -> None:
        if theatre.looks:
            raise OpenDRSError("requests are no longer taken")

    theatre.alive = ended

    with pytest.raises(OpenDRSError, match="no longer taken"):
        theatre.controller.keep_on()


def test_the_bell_calls_for_a_cycle_once_others_had_time_to_ring_as_well() -> None:
    theatre = Theatre()
    theatre.stage.world.later(100, theatre.bell.ring)
    theatre.stage.world.later(105, theatre.bell.ring)
    theatre.alive = theatre.stage.world.observe  # type: ignore[assignment]
    theatre.stop_at_look(3)

    theatre.controller.keep_on()

    first, second, third = theatre.seconds
    assert (first, third) == (0, 300)
    assert second == pytest.approx(110, abs=1)


def test_a_bell_that_rings_during_a_cycle_calls_for_the_next() -> None:
    theatre = Theatre()
    theatre.at_look[1] = theatre.bell.ring
    theatre.stop_at_look(2)

    theatre.controller.keep_on()

    assert theatre.seconds == [0, pytest.approx(10, abs=1)]


def test_a_clock_that_is_set_changes_nothing_about_the_pace() -> None:
    theatre = Theatre()
    waited: list[float] = []
    jumps = {2: -86_400, 3: 400 * 86_400, 4: -18_000}

    def jump(by: float) -> Callable[[], None]:
        return lambda: theatre.stage.clock.jump(by)

    theatre.at_look = {number: jump(by) for number, by in jumps.items()}
    theatre.stop_at_look(7)
    observe = theatre.stage.world.observe

    def noting() -> Snapshot:
        waited.append(theatre.stage.elapsed)
        return observe()

    theatre.stage.world.observe = noting  # type: ignore[method-assign]
    theatre.controller.keep_on()

    assert waited == [300.0 * number for number in range(7)]


def left_under_way(stage: Stage) -> None:
    """Leave a move under way, as a process that died."""
    action = migration("one", "a", "b")
    stage.store.write(
        StepRecord(
            run="earlier",
            step=StepId("7"),
            action=action,
            intended_at=NOON,
            task=stage.world.start(action),
        )
    )


def test_what_an_earlier_process_left_is_followed_to_its_end_first() -> None:
    theatre = Theatre(LOPSIDED)
    left_under_way(theatre.stage)
    theatre.stop_at_look(1)

    theatre.controller.keep_on()

    (record,) = theatre.stage.store.of_run("earlier")
    assert record.outcome is Outcome.DONE
    assert record.ended_at is not None
    assert theatre.looks[0] >= record.ended_at


@pytest.mark.parametrize(
    ("pulls", "outcome"), [(1, Outcome.DONE), (2, Outcome.ABORTED)]
)
def test_who_stops_what_was_left_wants_nothing_new(
    pulls: int, outcome: Outcome
) -> None:
    theatre = Theatre(LOPSIDED)
    left_under_way(theatre.stage)
    for _ in range(pulls):
        theatre.stage.world.later(1, theatre.stage.brake.pull)

    theatre.controller.keep_on()

    (record,) = theatre.stage.store.of_run("earlier")
    assert record.outcome is outcome
    assert theatre.looks == []
    assert len(theatre.stage.store.recent(NOON)) == 1


def test_one_cycle_alone_tells_what_came_of_it() -> None:
    theatre = Theatre(LOPSIDED)

    report = theatre.controller.once()

    assert report.complete
    assert report.count(Outcome.DONE) == 2


def test_one_cycle_alone_does_not_hide_that_the_cluster_cannot_be_seen() -> None:
    theatre = Theatre()
    theatre.stage.world.disconnect()

    with pytest.raises(PlatformUnavailableError):
        theatre.controller.once()
