"""One round of an agent: what it remembers, what it asks, what it survives."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from builders import NOON, cluster
from opendrs.agent import Agent, Notebook
from opendrs.agent.controller import RefusedError
from opendrs.controller.requests.wire import (
    LARGEST_BODY,
    LARGEST_SEQUENCE,
    MOST_SAMPLES,
    GuestSamples,
    Request,
    RequestState,
    Standing,
    Verdict,
)
from opendrs.controller.settings import AgentSettings
from opendrs.controller.stores import MemoryStore
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformUnavailableError,
    StoreError,
)
from opendrs.model import Action, Snapshot
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection
from opendrs.ports import TaskId, TaskStatus
from opendrs.sim import SimulatedClock

INTERVAL = 60.0
POLICY = Consolidate(
    detector=Detection.LAST_N_AVERAGE, last_n=1, history=4, interval=INTERVAL
)
SETTINGS = AgentSettings(
    node="a",
    controller="https://controller",
    token_file=Path("token"),
    interval=INTERVAL,
)
CROWDED = cluster(
    nodes={"a": 0.95, "b": 0.1},
    guests={"big": ("a", 0.6), "small": ("a", 0.35), "other": ("b", 0.1)},
)
"""Host a is overloaded until small leaves it."""


class Host:
    """What an agent sees when it looks."""

    name = "here"

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot | None = snapshot
        self.clock = SimulatedClock(start=NOON)

    def observe(self) -> Snapshot:
        if self.snapshot is None:
            raise PlatformUnavailableError("a did not answer within 15 s")
        return replace(self.snapshot, taken_at=self.clock.now())

    def start(self, action: Action) -> TaskId:
        raise NotImplementedError

    def find(self, action: Action) -> TaskId:
        raise NotImplementedError

    def status(self, task: TaskId) -> TaskStatus:
        raise NotImplementedError

    def abort(self, task: TaskId) -> None:
        raise NotImplementedError


@dataclass
class Controller:
    """Who takes requests, or fails as it is told to."""

    error: Exception | None = None
    last_sequence: int = 0
    known: dict[str, GuestSamples] = field(default_factory=dict)
    outcome: Standing | None = None
    taken: list[Request] = field(default_factory=list)

    def deliver(self, request: Request, patience: float) -> Standing:
        del patience
        if self.error is not None:
            raise self.error
        if request.sequence <= self.last_sequence:
            raise RefusedError("not above the last", self.last_sequence)
        self.last_sequence = request.sequence
        self.taken.append(request)
        return Standing(id=request.id, state=RequestState.QUEUED)

    def standing(self, request: Request) -> Standing | None:
        del request
        return self.outcome

    def samples(self, guest: str) -> GuestSamples | None:
        if self.error is not None:
            raise self.error
        return self.known.get(guest)


class PowerFailureError(Exception):
    """The process is gone."""


class FragileStore(MemoryStore):
    """A store at whose write number *left* the power fails; 0 for never."""

    left = 0

    def save(self, key: str, value: Mapping[str, object]) -> None:
        self.left -= 1
        if self.left == 0:
            raise PowerFailureError
        super().save(key, value)


class Scene:
    """An agent, its host, and its controller; the process can be replaced."""

    def __init__(self, snapshot: Snapshot = CROWDED) -> None:
        self.host = Host(snapshot)
        self.clock = self.host.clock
        self.controller = Controller()
        self.store = FragileStore()
        self.agent = self.started()

    def started(self, **changes: object) -> Agent:
        """Return an agent as after a restart: nothing but the store is left."""
        settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
        return Agent(
            settings=settings,
            policy=POLICY,
            platform=self.host,
            notebook=Notebook(self.store, settings.node),
            controller=self.controller,
            clock=self.clock,
        )

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.agent.round()
            self.clock.sleep(INTERVAL)

    @property
    def last(self) -> Request:
        return self.controller.taken[-1]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_overloaded_host_asks_for_relief(scene: Scene) -> None:
    scene.rounds(1)

    assert scene.last.verdict is Verdict.OVERLOADED
    assert scene.last.leaving == ["small"]


def test_a_calm_host_sends_its_samples_all_the_same() -> None:
    scene = Scene(cluster(nodes={"a": 0.8}, guests={"vm": ("a", 0.7)}))

    scene.rounds(2)

    assert scene.last.verdict is Verdict.CALM
    assert scene.last.samples.guests == {"vm": [7.0, 7.0]}
    assert scene.last.samples.own == pytest.approx([1.0, 1.0])
    assert scene.last.samples.interval == INTERVAL


def test_it_speaks_of_its_own_host_alone(scene: Scene) -> None:
    scene.rounds(1)

    assert scene.last.node == "a"
    assert sorted(scene.last.samples.guests) == ["big", "small"]


def test_each_request_has_a_name_and_a_greater_number(scene: Scene) -> None:
    scene.rounds(3)

    assert [each.sequence for each in scene.controller.taken] == [1, 2, 3]
    assert len({each.id for each in scene.controller.taken}) == 3


def test_no_more_samples_are_kept_than_asked_for(scene: Scene) -> None:
    scene.rounds(9)

    assert len(scene.last.samples.guests["big"]) == 4


def test_histories_and_numbers_go_on_after_a_restart(scene: Scene) -> None:
    scene.rounds(2)
    scene.agent = scene.started()

    scene.rounds(1)

    assert scene.last.sequence == 3
    assert len(scene.last.samples.guests["big"]) == 3


@pytest.mark.parametrize("last", [7, LARGEST_SEQUENCE - 1])
def test_whoever_has_lost_the_record_goes_on_from_the_last_number(
    scene: Scene, last: int
) -> None:
    scene.controller.last_sequence = last

    assert scene.agent.round()

    (taken,) = scene.controller.taken
    page = scene.agent.notebook.read()
    assert taken.sequence == last + 1
    assert page is not None
    assert (page.sequence, page.request, page.delivered) == (last + 1, taken, True)


def test_where_no_number_is_left_it_is_told(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.controller.last_sequence = LARGEST_SEQUENCE

    assert not scene.agent.round()

    assert "not above the last" in caplog.text


def test_of_a_long_history_the_newest_samples_are_sent(scene: Scene) -> None:
    scene.rounds(1)
    page = scene.agent.notebook.read()
    assert page is not None
    used = [0.1] * (MOST_SAMPLES + 50)
    memory = {**page.memory, "guests": {"big": used}, "nodes": {"a": used}}
    scene.agent.notebook.write(page.model_copy(update={"memory": memory}))
    policy = replace(scene.agent.policy, history=MOST_SAMPLES + 100)
    scene.agent = replace(scene.agent, policy=policy)

    scene.rounds(1)

    samples = scene.last.samples
    assert samples.guests["big"] == [*used[: MOST_SAMPLES - 1], 6.0]
    assert len(samples.own) == MOST_SAMPLES


def test_of_many_long_histories_as_many_samples_are_sent_as_are_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"vm{number}" for number in range(300)]
    scene = Scene(cluster(nodes={"a": 0.8}, guests=dict.fromkeys(names, ("a", 0.001))))
    scene.rounds(1)
    page = scene.agent.notebook.read()
    assert page is not None
    used = [1 / 3] * MOST_SAMPLES
    memory = {**page.memory, "guests": dict.fromkeys(names, used)}
    scene.agent.notebook.write(page.model_copy(update={"memory": memory}))
    policy = replace(scene.agent.policy, history=MOST_SAMPLES)
    scene.agent = replace(scene.agent, policy=policy)

    scene.rounds(1)

    size = len(scene.last.model_dump_json())
    assert 0.9 * LARGEST_BODY < size <= LARGEST_BODY
    (sent,) = {len(samples) for samples in scene.last.samples.guests.values()}
    assert scene.last.samples.guests["vm7"] == [*used[: sent - 1], 0.01]
    assert f"the newest {sent} samples of each are sent" in caplog.text


def test_histories_begin_anew_after_a_long_gap_and_numbers_go_on(
    scene: Scene,
) -> None:
    scene.rounds(2)
    scene.clock.sleep(3 * INTERVAL)

    scene.rounds(1)

    assert len(scene.last.samples.guests["big"]) == 1
    assert scene.last.sequence == 3


def test_one_missed_sample_is_no_gap(scene: Scene) -> None:
    scene.rounds(1)
    scene.clock.sleep(INTERVAL)

    scene.rounds(1)

    assert len(scene.last.samples.guests["big"]) == 2


def test_a_last_sample_in_the_future_counts_as_of_now_and_is_reported_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.rounds(2)
    scene.host.clock = scene.clock = SimulatedClock(start=NOON - timedelta(hours=1))
    scene.agent = scene.started()

    scene.rounds(2)

    assert len(scene.last.samples.guests["big"]) == 4
    assert caplog.text.count("the last sample is in the future") == 1


def test_a_host_that_cannot_be_seen_is_silent(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.host.snapshot = None

    scene.rounds(1)

    assert scene.controller.taken == []
    assert "did not answer" in caplog.text


def test_a_host_that_is_not_measured_is_silent() -> None:
    scene = Scene(cluster(nodes={"a": None}, guests={}))

    scene.rounds(1)

    assert scene.controller.taken == []


def test_samples_are_kept_while_the_controller_is_away(scene: Scene) -> None:
    scene.controller.error = PlatformUnavailableError("away")
    scene.rounds(2)
    scene.controller.error = None

    scene.rounds(1)

    assert len(scene.last.samples.guests["big"]) == 3


def test_a_request_that_was_not_answered_is_the_same_after_a_restart(
    scene: Scene,
) -> None:
    scene.controller.error = PlatformUnavailableError("away")
    scene.agent.round()
    scene.controller.error = None

    scene.clock.sleep(INTERVAL / 2)
    scene.started().catch_up()
    scene.started().catch_up()

    assert [each.sequence for each in scene.controller.taken] == [1]


def test_a_request_of_yesterday_is_not_sent_any_more(scene: Scene) -> None:
    scene.controller.error = PlatformUnavailableError("away")
    scene.agent.round()
    scene.controller.error = None

    scene.clock.sleep(86_400)
    scene.started().catch_up()

    assert scene.controller.taken == []


def test_a_restart_does_not_make_it_look_more_often(scene: Scene) -> None:
    scene.agent.round()
    scene.clock.sleep(INTERVAL / 4)

    assert scene.started().due() == NOON + timedelta(seconds=INTERVAL)


def test_after_a_long_rest_it_looks_at_once(scene: Scene) -> None:
    scene.agent.round()
    scene.clock.sleep(10 * INTERVAL)

    assert scene.started().due() == scene.clock.now()


def known(samples: list[float], interval: float = INTERVAL) -> GuestSamples:
    return GuestSamples(interval=interval, taken_at=NOON, samples=samples)


def test_the_history_of_a_guest_follows_it_here(scene: Scene) -> None:
    scene.controller.known["small"] = known([1.0, 2.0])

    scene.rounds(1)

    assert scene.last.samples.guests["small"] == [1.0, 2.0, 3.5]
    assert scene.last.samples.guests["big"] == [6.0]


@pytest.mark.parametrize(
    ("interval", "late"), [(INTERVAL * 2, 0.0), (INTERVAL, 3 * INTERVAL)]
)
def test_a_history_that_does_not_go_on_here_is_left(
    scene: Scene, interval: float, late: float
) -> None:
    scene.controller.known["small"] = known([1.0, 2.0], interval)
    scene.clock.sleep(late)

    scene.rounds(1)

    assert scene.last.samples.guests["small"] == [3.5]


def test_who_is_no_newcomer_is_not_asked_for(scene: Scene) -> None:
    scene.rounds(1)
    scene.controller.known["small"] = known([1.0, 2.0])

    scene.rounds(1)

    assert scene.last.samples.guests["small"] == [3.5, 3.5]


def test_a_token_that_is_not_taken_is_told_and_the_round_ends(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.controller.error = PermissionDeniedError("the token is not that of a")

    scene.rounds(2)

    assert [r.levelno for r in caplog.records if "token" in r.message] == [
        logging.ERROR
    ] * 2


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("small moved to b", "the last request is done: small moved to b"),
        ("", "the last request is done"),
    ],
)
def test_what_came_of_a_request_is_told_once_it_is_known(
    scene: Scene, caplog: pytest.LogCaptureFixture, detail: str, told: str
) -> None:
    caplog.set_level(logging.INFO)
    scene.rounds(1)
    name = scene.last.id
    scene.controller.outcome = Standing(id=name, state=RequestState.DONE, detail=detail)

    scene.rounds(1)

    assert told in caplog.messages


def test_a_node_that_is_not_there_is_a_mistake_of_the_operator(scene: Scene) -> None:
    scene.agent = scene.started(node="z")

    with pytest.raises(ConfigurationError, match=r"agent\.node: here has no node z"):
        scene.agent.round()


def test_the_record_of_another_node_is_refused(scene: Scene) -> None:
    scene.rounds(1)

    with pytest.raises(StoreError, match="of the agent of a, not of b"):
        scene.started(node="b").round()


@pytest.mark.parametrize("page", [{"page": "{}"}, {"page": "nonsense"}, {}])
def test_a_record_that_cannot_be_read_is_an_error(
    scene: Scene, page: dict[str, object]
) -> None:
    scene.store.save("agent", page)

    with pytest.raises(StoreError, match="cannot be read"):
        scene.agent.round()


@pytest.mark.parametrize("moment", [1, 2])
def test_whatever_write_it_dies_at_no_number_is_used_twice(
    scene: Scene, moment: int
) -> None:
    scene.store.left = moment
    with pytest.raises(PowerFailureError):
        scene.agent.round()
    scene.store.left = 0

    scene.agent = scene.started()
    scene.agent.catch_up()
    scene.clock.sleep(INTERVAL)
    scene.rounds(1)

    content: dict[int, UUID] = {}
    for request in scene.controller.taken:
        assert content.setdefault(request.sequence, request.id) == request.id
