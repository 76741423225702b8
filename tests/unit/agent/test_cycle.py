"""One cycle of an agent: its state, its requests, its recovery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from opendrs.agent import (
    AgentStateFile,
    HostAgent,
    StoppedError,
    interruptible_sleep,
    run_forever,
)
from opendrs.agent.http_client import RequestRejectedError
from opendrs.config.api_schema import (
    MAX_BODY_BYTES,
    MAX_SAMPLES,
    MAX_SEQUENCE,
    GuestSamples,
    RequestBody,
    RequestStatus,
)
from opendrs.config.settings import AgentSettings
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformUnavailableError,
    StoreError,
)
from opendrs.model import Action, LoadState, Snapshot
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import DetectorKind
from opendrs.ports import RequestState, TaskId, TaskStatus
from opendrs.simulation import SimulatedClock
from opendrs.store import MemoryStore
from support.builders import NOON, cluster

INTERVAL = 60.0

POLICY = Consolidate(
    detector=DetectorKind.LAST_N_AVERAGE,
    averaging_window=1,
    history_length=4,
    interval=INTERVAL,
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


class FakePlatform:
    """A platform that shows the given snapshot."""

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
class FakeController:
    """A controller that accepts requests, or raises the configured error."""

    error: Exception | None = None
    last_sequence: int = 0
    samples: dict[str, GuestSamples] = field(default_factory=dict)
    status: RequestStatus | None = None
    accepted: list[RequestBody] = field(default_factory=list)

    def submit(self, request: RequestBody, timeout: float) -> RequestStatus:
        del timeout
        if self.error is not None:
            raise self.error
        if request.sequence <= self.last_sequence:
            raise RequestRejectedError("not above the last", self.last_sequence)
        self.last_sequence = request.sequence
        self.accepted.append(request)
        return RequestStatus(id=request.id, state=RequestState.QUEUED)

    def get_status(self, request: RequestBody) -> RequestStatus | None:
        del request
        return self.status

    def get_samples(self, guest: str) -> GuestSamples | None:
        if self.error is not None:
            raise self.error
        return self.samples.get(guest)


class PowerFailureError(Exception):
    """The process is gone."""


class FailingStore(MemoryStore):
    """A store at whose write number *writes_left* the power fails; 0 for never."""

    writes_left = 0

    def save(self, key: str, value: Mapping[str, object]) -> None:
        self.writes_left -= 1
        if self.writes_left == 0:
            raise PowerFailureError
        super().save(key, value)


class AgentSetup:
    """An agent, its host, and its controller; the process can be replaced."""

    def __init__(self, snapshot: Snapshot = CROWDED) -> None:
        self.platform = FakePlatform(snapshot)
        self.clock = self.platform.clock
        self.controller = FakeController()
        self.store = FailingStore()
        self.agent = self.start_agent()

    def start_agent(self, **changes: object) -> HostAgent:
        """Return an agent as after a restart: nothing but the store is left."""
        settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
        return HostAgent(
            settings=settings,
            policy=POLICY,
            platform=self.platform,
            state_file=AgentStateFile(self.store, settings.node),
            controller=self.controller,
            clock=self.clock,
        )

    def run_cycles(self, count: int) -> None:
        for _ in range(count):
            self.agent.run_cycle()
            self.clock.sleep(INTERVAL)

    @property
    def last_request(self) -> RequestBody:
        return self.controller.accepted[-1]


@pytest.fixture
def agent_setup() -> AgentSetup:
    return AgentSetup()


def test_overloaded_host_requests_eviction(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)

    assert agent_setup.last_request.load_state is LoadState.OVERLOADED
    assert agent_setup.last_request.evict == ["small"]


def test_normal_host_sends_samples() -> None:
    agent_setup = AgentSetup(cluster(nodes={"a": 0.8}, guests={"vm": ("a", 0.7)}))

    agent_setup.run_cycles(2)

    assert agent_setup.last_request.load_state is LoadState.NORMAL
    assert agent_setup.last_request.samples.guests == {"vm": [7.0, 7.0]}
    assert agent_setup.last_request.samples.host_overhead == pytest.approx([1.0, 1.0])
    assert agent_setup.last_request.samples.interval == INTERVAL


def test_request_contains_only_own_host(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)

    assert agent_setup.last_request.node == "a"
    assert sorted(agent_setup.last_request.samples.guests) == ["big", "small"]


def test_requests_have_unique_ids_and_increasing_sequence(
    agent_setup: AgentSetup,
) -> None:
    agent_setup.run_cycles(3)

    assert [each.sequence for each in agent_setup.controller.accepted] == [1, 2, 3]
    assert len({each.id for each in agent_setup.controller.accepted}) == 3


def test_samples_beyond_history_length_are_dropped(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(9)

    assert len(agent_setup.last_request.samples.guests["big"]) == 4


def test_restart_continues_histories_and_sequence(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(2)
    agent_setup.agent = agent_setup.start_agent()

    agent_setup.run_cycles(1)

    assert agent_setup.last_request.sequence == 3
    assert len(agent_setup.last_request.samples.guests["big"]) == 3


@pytest.mark.parametrize("last", [7, MAX_SEQUENCE - 1])
def test_lost_state_continues_from_last_sequence(
    agent_setup: AgentSetup, last: int
) -> None:
    agent_setup.controller.last_sequence = last

    assert agent_setup.agent.run_cycle()

    (taken,) = agent_setup.controller.accepted
    page = agent_setup.agent.state_file.load()
    assert taken.sequence == last + 1
    assert page is not None
    assert (page.sequence, page.request, page.delivered) == (last + 1, taken, True)


def test_exhausted_sequence_is_logged(
    agent_setup: AgentSetup, caplog: pytest.LogCaptureFixture
) -> None:
    agent_setup.controller.last_sequence = MAX_SEQUENCE

    assert not agent_setup.agent.run_cycle()

    assert "not above the last" in caplog.text


def test_long_history_sends_latest_samples(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)
    page = agent_setup.agent.state_file.load()
    assert page is not None
    used = [0.1] * (MAX_SAMPLES + 50)
    memory = {**page.memory, "guests": {"big": used}, "nodes": {"a": used}}
    agent_setup.agent.state_file.save(page.model_copy(update={"memory": memory}))
    policy = replace(agent_setup.agent.policy, history_length=MAX_SAMPLES + 100)
    agent_setup.agent = replace(agent_setup.agent, policy=policy)

    agent_setup.run_cycles(1)

    samples = agent_setup.last_request.samples
    assert samples.guests["big"] == [*used[: MAX_SAMPLES - 1], 6.0]
    assert len(samples.host_overhead) == MAX_SAMPLES


def test_many_histories_are_truncated_to_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"vm{number}" for number in range(300)]
    agent_setup = AgentSetup(
        cluster(nodes={"a": 0.8}, guests=dict.fromkeys(names, ("a", 0.001)))
    )
    agent_setup.run_cycles(1)
    page = agent_setup.agent.state_file.load()
    assert page is not None
    used = [1 / 3] * MAX_SAMPLES
    memory = {**page.memory, "guests": dict.fromkeys(names, used)}
    agent_setup.agent.state_file.save(page.model_copy(update={"memory": memory}))
    policy = replace(agent_setup.agent.policy, history_length=MAX_SAMPLES)
    agent_setup.agent = replace(agent_setup.agent, policy=policy)

    agent_setup.run_cycles(1)

    size = len(agent_setup.last_request.model_dump_json())
    assert 0.9 * MAX_BODY_BYTES < size <= MAX_BODY_BYTES
    (sent,) = {
        len(samples) for samples in agent_setup.last_request.samples.guests.values()
    }
    assert agent_setup.last_request.samples.guests["vm7"] == [*used[: sent - 1], 0.01]
    assert f"the newest {sent} samples of each" in caplog.text


def test_long_gap_resets_histories_and_keeps_sequence(
    agent_setup: AgentSetup,
) -> None:
    agent_setup.run_cycles(2)
    agent_setup.clock.sleep(3 * INTERVAL)

    agent_setup.run_cycles(1)

    assert len(agent_setup.last_request.samples.guests["big"]) == 1
    assert agent_setup.last_request.sequence == 3


def test_one_missed_sample_is_no_gap(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)
    agent_setup.clock.sleep(INTERVAL)

    agent_setup.run_cycles(1)

    assert len(agent_setup.last_request.samples.guests["big"]) == 2


def test_last_sample_in_future_counts_as_now_and_is_logged_once(
    agent_setup: AgentSetup, caplog: pytest.LogCaptureFixture
) -> None:
    agent_setup.run_cycles(2)
    agent_setup.platform.clock = agent_setup.clock = SimulatedClock(
        start=NOON - timedelta(hours=1)
    )
    agent_setup.agent = agent_setup.start_agent()

    agent_setup.run_cycles(2)

    assert len(agent_setup.last_request.samples.guests["big"]) == 4
    assert caplog.text.count("last sample in the future") == 1


def test_unreachable_host_sends_nothing(
    agent_setup: AgentSetup, caplog: pytest.LogCaptureFixture
) -> None:
    agent_setup.platform.snapshot = None

    agent_setup.run_cycles(1)

    assert agent_setup.controller.accepted == []
    assert "did not answer" in caplog.text


def test_host_without_metrics_sends_nothing() -> None:
    agent_setup = AgentSetup(cluster(nodes={"a": None}, guests={}))

    agent_setup.run_cycles(1)

    assert agent_setup.controller.accepted == []


def test_samples_are_kept_while_controller_is_unreachable(
    agent_setup: AgentSetup,
) -> None:
    agent_setup.controller.error = PlatformUnavailableError("away")
    agent_setup.run_cycles(2)
    agent_setup.controller.error = None

    agent_setup.run_cycles(1)

    assert len(agent_setup.last_request.samples.guests["big"]) == 3


def test_restart_resends_same_unanswered_request(
    agent_setup: AgentSetup,
) -> None:
    agent_setup.controller.error = PlatformUnavailableError("away")
    agent_setup.agent.run_cycle()
    agent_setup.controller.error = None

    agent_setup.clock.sleep(INTERVAL / 2)
    agent_setup.start_agent().resend_pending()
    agent_setup.start_agent().resend_pending()

    assert [each.sequence for each in agent_setup.controller.accepted] == [1]


def test_restart_does_not_resend_old_request(agent_setup: AgentSetup) -> None:
    agent_setup.controller.error = PlatformUnavailableError("away")
    agent_setup.agent.run_cycle()
    agent_setup.controller.error = None

    agent_setup.clock.sleep(86_400)
    agent_setup.start_agent().resend_pending()

    assert agent_setup.controller.accepted == []


def test_restart_keeps_sampling_interval(agent_setup: AgentSetup) -> None:
    agent_setup.agent.run_cycle()
    agent_setup.clock.sleep(INTERVAL / 4)

    assert agent_setup.start_agent().next_due() == NOON + timedelta(seconds=INTERVAL)


def test_start_after_long_stop_samples_at_once(agent_setup: AgentSetup) -> None:
    agent_setup.agent.run_cycle()
    agent_setup.clock.sleep(10 * INTERVAL)

    assert agent_setup.start_agent().next_due() == agent_setup.clock.now()


def known(samples: list[float], interval: float = INTERVAL) -> GuestSamples:
    return GuestSamples(interval=interval, taken_at=NOON, samples=samples)


def test_new_guest_history_is_fetched(agent_setup: AgentSetup) -> None:
    agent_setup.controller.samples["small"] = known([1.0, 2.0])

    agent_setup.run_cycles(1)

    assert agent_setup.last_request.samples.guests["small"] == [1.0, 2.0, 3.5]
    assert agent_setup.last_request.samples.guests["big"] == [6.0]


@pytest.mark.parametrize(
    ("interval", "late"), [(INTERVAL * 2, 0.0), (INTERVAL, 3 * INTERVAL)]
)
def test_new_guest_incompatible_history_is_ignored(
    agent_setup: AgentSetup, interval: float, late: float
) -> None:
    agent_setup.controller.samples["small"] = known([1.0, 2.0], interval)
    agent_setup.clock.sleep(late)

    agent_setup.run_cycles(1)

    assert agent_setup.last_request.samples.guests["small"] == [3.5]


def test_known_guest_history_is_not_fetched(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)
    agent_setup.controller.samples["small"] = known([1.0, 2.0])

    agent_setup.run_cycles(1)

    assert agent_setup.last_request.samples.guests["small"] == [3.5, 3.5]


def test_rejected_token_is_logged_and_cycle_ends(
    agent_setup: AgentSetup, caplog: pytest.LogCaptureFixture
) -> None:
    agent_setup.controller.error = PermissionDeniedError("the token is not that of a")

    agent_setup.run_cycles(2)

    assert [r.levelno for r in caplog.records if "token" in r.message] == [
        logging.ERROR
    ] * 2


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("small moved to b", "last request done: small moved to b"),
        ("", "last request done"),
    ],
)
def test_status_of_last_request_is_logged(
    agent_setup: AgentSetup,
    caplog: pytest.LogCaptureFixture,
    detail: str,
    expected: str,
) -> None:
    caplog.set_level(logging.INFO)
    agent_setup.run_cycles(1)
    name = agent_setup.last_request.id
    agent_setup.controller.status = RequestStatus(
        id=name, state=RequestState.DONE, detail=detail
    )

    agent_setup.run_cycles(1)

    assert expected in caplog.messages


def test_unknown_node_is_configuration_error(agent_setup: AgentSetup) -> None:
    agent_setup.agent = agent_setup.start_agent(node="z")

    with pytest.raises(
        ConfigurationError, match=r"agent\.node: z: unknown node of here"
    ):
        agent_setup.agent.run_cycle()


def test_state_of_other_node_is_rejected(agent_setup: AgentSetup) -> None:
    agent_setup.run_cycles(1)

    with pytest.raises(StoreError, match="of the agent of b, got that of a"):
        agent_setup.start_agent(node="b").run_cycle()


@pytest.mark.parametrize("state", [{"state": "{}"}, {"state": "nonsense"}, {}])
def test_unreadable_state_is_store_error(
    agent_setup: AgentSetup, state: dict[str, object]
) -> None:
    agent_setup.store.save("agent", state)

    with pytest.raises(StoreError, match="cannot be decoded"):
        agent_setup.agent.run_cycle()


@pytest.mark.parametrize("moment", [1, 2])
def test_crash_at_any_write_repeats_no_sequence(
    agent_setup: AgentSetup, moment: int
) -> None:
    agent_setup.store.writes_left = moment
    with pytest.raises(PowerFailureError):
        agent_setup.agent.run_cycle()
    agent_setup.store.writes_left = 0

    agent_setup.agent = agent_setup.start_agent()
    agent_setup.agent.resend_pending()
    agent_setup.clock.sleep(INTERVAL)
    agent_setup.run_cycles(1)

    content: dict[int, UUID] = {}
    for request in agent_setup.controller.accepted:
        assert content.setdefault(request.sequence, request.id) == request.id


@dataclass
class _FakeSettings:
    interval: float = 60.0


@dataclass
class FakeAgent:
    """An agent whose rounds take some time, and end after some."""

    clock: SimulatedClock
    durations: list[float]
    settings: _FakeSettings = field(default_factory=_FakeSettings)
    started: list[float] = field(default_factory=list)

    def next_due(self) -> datetime:
        return self.clock.now() + timedelta(seconds=10)

    def resend_pending(self) -> None:
        pass

    def run_cycle(self) -> None:
        if not self.durations:
            raise StoppedError
        self.started.append((self.clock.now() - NOON).total_seconds())
        self.clock.sleep(self.durations.pop(0))


def cycle_starts(durations: list[float]) -> list[float]:
    """Return when the rounds began that take so many seconds each."""
    clock = SimulatedClock(start=NOON)
    agent = FakeAgent(clock, durations)
    sleep = interruptible_sleep(clock, lambda: False)
    with pytest.raises(StoppedError):
        run_forever(cast("HostAgent", agent), sleep)
    return agent.started


def test_cycles_do_not_drift() -> None:
    assert cycle_starts([5.0, 20.0, 1.0, 59.0, 0.0]) == [10, 70, 130, 190, 250]


def test_long_cycle_skips_missed_cycles() -> None:
    assert cycle_starts([150.0, 1.0, 1.0]) == [10, 160, 190]


def stopping_after(looks: int) -> Callable[[], bool]:
    left = iter(range(looks))
    return lambda: next(left, None) is None


def test_sleep_is_interrupted_within_a_second() -> None:
    clock = SimulatedClock(start=NOON)
    sleep = interruptible_sleep(clock, stopping_after(3))

    with pytest.raises(StoppedError):
        sleep(3600)

    assert clock.now() - NOON < timedelta(seconds=2)


def test_sleep_without_stop_waits_full_time() -> None:
    clock = SimulatedClock(start=NOON)

    interruptible_sleep(clock, lambda: False)(17.3)

    assert clock.now() - NOON == timedelta(seconds=17.3)


def test_sleep_zero_checks_stop() -> None:
    sleep = interruptible_sleep(SimulatedClock(), lambda: True)

    with pytest.raises(StoppedError):
        sleep(-5)


class JumpingClock(SimulatedClock):
    """A clock that is set by some seconds while it is waited for."""

    by = 0.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.jump(self.by)
        self.by = 0.0


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_sleep_ignores_clock_changes(by: float) -> None:
    clock = JumpingClock(start=NOON)
    clock.by = by

    interruptible_sleep(clock, lambda: False)(30)

    assert clock.monotonic() == pytest.approx(30)
