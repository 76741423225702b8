"""Log events are recorded for other processes, also after a failure of the store."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from opendrs.controller import event_recorder
from opendrs.controller.event_recorder import RETRY_TIME, EventRecorder
from opendrs.controller.events import LogEventCode, log_event, mask_logs
from opendrs.errors import StoreError
from opendrs.ports import EventRecord
from opendrs.simulation import SimulatedClock
from opendrs.store import DatabaseEventLog, SqliteStore
from support.builders import NOON


class FailingLog(DatabaseEventLog):
    """An event log whose store can be away."""

    is_away = False
    attempts = 0

    def add(self, events: Sequence[EventRecord]) -> None:
        self.attempts += 1
        if self.is_away:
            raise StoreError("store: away")
        super().add(events)


class Recording:
    """A recorder with a store."""

    def __init__(self, store: SqliteStore) -> None:
        self.clock = SimulatedClock(NOON)
        self.log = FailingLog(store)
        self.recorder = EventRecorder(self.clock, lambda _: self.log)
        self.store = store

    def messages(self) -> list[str]:
        return [each.message for each in self.log.after(0, 100_000)]


@pytest.fixture
def recording() -> Recording:
    return Recording(SqliteStore(None).__enter__())


def write(text: str, level: int = logging.INFO, **facts: object) -> None:
    log_event(LogEventCode.DECISION_MADE, text, level=level, **facts)


def test_events_are_recorded_when_polled(recording: Recording) -> None:
    with recording.recorder as recorder:
        write("before the lease", run="r1")
        recorder.loop_polled()
        recorder.lease_acquired(recording.store)
        write("a detail", level=logging.DEBUG)
        logging.getLogger("opendrs").warning("no event")
        assert recording.messages() == []

        recorder.steps_polled()

        (event,) = recording.log.after(0, 10)
        assert (event.at, event.level, event.code) == (NOON, "info", "decision-made")
        assert (event.message, event.facts) == ("before the lease", {"run": "r1"})
    write("after the end")
    recording.recorder.flush()
    assert recording.messages() == ["before the lease"]


def test_events_are_recorded_whatever_is_logged_elsewhere(
    recording: Recording,
) -> None:
    logger = logging.getLogger("opendrs")
    logger.setLevel(logging.ERROR)
    try:
        with recording.recorder as recorder:
            recorder.lease_acquired(recording.store)
            write("one")
            recorder.loop_polled()
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(logging.NOTSET)
    assert recording.messages() == ["one"]


def test_secrets_are_masked(recording: Recording) -> None:
    with (
        recording.recorder as recorder,
        mask_logs(lambda text: text.replace("hunter2", "[a secret]")),
    ):
        recorder.lease_acquired(recording.store)
        write("password hunter2", login={"with": ["hunter2"]})
        recorder.loop_polled()

    (event,) = recording.log.after(0, 10)
    assert event.message == "password [a secret]"
    assert event.facts == {"login": {"with": ["[a secret]"]}}


def test_store_that_is_away_loses_nothing(recording: Recording) -> None:
    with recording.recorder as recorder:
        recorder.lease_acquired(recording.store)
        recording.log.is_away = True
        write("one")
        recorder.loop_polled()
        recorder.loop_polled()
        assert recording.log.attempts == 1
        recording.log.is_away = False
        write("two")

        recording.clock.sleep(RETRY_TIME)
        recorder.loop_polled()

    assert recording.messages() == ["one", "two"]


def test_dropped_events_are_counted(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_recorder, "MAX_WAITING", 3)
    with recording.recorder as recorder:
        for number in range(5):
            write(str(number))
        recorder.lease_acquired(recording.store)
        recorder.loop_polled()

    first, *others = recording.log.after(0, 10)
    assert (first.code, first.facts) == ("events-lost", {"count": 2})
    assert [each.message for each in others] == ["2", "3", "4"]
