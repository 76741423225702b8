"""API circuit breaker: no step starts while requests to the platform fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from opendrs.config.controller_settings import Mode
from opendrs.controller.api_breaker import ApiBreaker, MonitoredPlatform
from opendrs.controller.modes import API_BREAKER_KEY, open_api_breaker
from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.model import Protection
from opendrs.ports import TaskId
from opendrs.simulation import SimulatedClock
from opendrs.store import MemoryStore, SqliteStore
from support.advised_controller import LOPSIDED, AdvisedController
from support.builders import NOON
from support.simulated_cluster import SimulatedCluster, migration

PROTECTION = Protection(
    max_api_errors=3, api_error_window=60.0, api_recovery_time=300.0
)
ERROR = PlatformUnavailableError("503 busy")


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOON)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with SqliteStore(None) as opened:
        yield opened


def fail(breaker: ApiBreaker, times: int) -> None:
    for _ in range(times):
        breaker.record_error(ERROR)


def is_open(store: MemoryStore | SqliteStore) -> bool:
    return open_api_breaker(store.load_all(API_BREAKER_KEY)) is not None


def test_it_opens_after_failures_within_the_window(clock: SimulatedClock) -> None:
    store = MemoryStore()
    breaker = ApiBreaker(store, clock, PROTECTION)

    fail(breaker, 2)
    clock.sleep(61)
    fail(breaker, 2)
    assert not is_open(store)
    fail(breaker, 1)
    assert is_open(store)


def test_it_closes_after_the_recovery_time_without_failures(
    clock: SimulatedClock,
) -> None:
    store = MemoryStore()
    breaker = ApiBreaker(store, clock, PROTECTION)
    fail(breaker, 3)

    clock.sleep(299)
    breaker.record_success()
    assert is_open(store)
    fail(breaker, 1)
    clock.sleep(299)
    breaker.record_success()
    assert is_open(store)
    clock.sleep(1)
    breaker.record_success()
    assert not is_open(store)


def test_it_stays_open_over_a_restart(clock: SimulatedClock) -> None:
    store = MemoryStore()
    fail(ApiBreaker(store, clock, PROTECTION), 3)

    restarted = ApiBreaker(store, clock, PROTECTION)
    restarted.record_success()
    assert is_open(store)
    clock.sleep(300)
    restarted.record_success()
    assert not is_open(store)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda platform: platform.observe(),
        lambda platform: platform.start(migration("one", "a", "b")),
        lambda platform: platform.find(migration("one", "a", "b")),
        lambda platform: platform.status(TaskId("t")),
        lambda platform: platform.abort(TaskId("t")),
    ],
    ids=["observe", "start", "find", "status", "abort"],
)
@pytest.mark.parametrize(
    ("error", "opens"), [(ERROR, True), (PermissionDeniedError("403"), False)]
)
def test_failed_requests_of_each_kind_are_counted(
    request_of: Callable[[MonitoredPlatform], object],
    error: PlatformUnavailableError | PermissionDeniedError,
    opens: bool,  # noqa: FBT001 - a parameter of pytest
    clock: SimulatedClock,
) -> None:
    store, cluster = MemoryStore(), SimulatedCluster(LOPSIDED, clock=clock)
    breaker = ApiBreaker(store, clock, PROTECTION)
    cluster.intercept(fails_with(error))
    platform = MonitoredPlatform(cluster.platform, breaker)

    for _ in range(PROTECTION.max_api_errors):
        with pytest.raises(type(error)):
            request_of(platform)

    assert is_open(store) == opens


def fails_with(error: Exception) -> Callable[[str], AbstractContextManager[None]]:
    """Return a function that fails each request."""

    def fail_request(call: str) -> AbstractContextManager[None]:
        del call
        raise error

    return fail_request


def test_no_step_starts_while_it_is_open(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)
    simulation = advised.simulation
    breaker = ApiBreaker(store, simulation.clock, PROTECTION)
    simulation.platform = MonitoredPlatform(simulation.simulated_platform, breaker)
    advised.restart()
    fail(breaker, 3)

    assert advised.cycle() == 0
    assert advised.states() == []
    simulation.clock.sleep(300)
    assert advised.cycle() == 2
