"""Observers of a running controller: its loop, its cycles and its steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from opendrs.controller.cycle import CycleResult
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.execution_context import ExecutionObserver, NullObserver
from opendrs.errors import OpenDRSError, PlatformError
from opendrs.guard import Rejection
from opendrs.model import Step
from opendrs.ports import StepRecord, Store, TaskStatus


class ControllerObserver(ExecutionObserver, Protocol):
    """Receiver of the events of a controller; called by the thread of its loop."""

    def standby_started(self, detail: str) -> None:
        """Handle that another controller holds the lease, as *detail* states."""

    def lease_acquired(self, store: Store) -> None:
        """Handle that this controller holds the lease of *store*."""

    def configured(self, policy: str, interval: float) -> None:
        """Handle the name of the policy and the seconds between two cycles."""

    def loop_polled(self) -> None:
        """Handle that the loop is waiting for the next cycle, or for the lease."""

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Handle the end of a cycle that took *seconds*."""

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Handle a cycle that ended because the platform failed."""

    def stopping(self) -> None:
        """Handle that the controller ends."""


class NullControllerObserver(NullObserver):
    """Controller observer that ignores all events; base of those that use a few."""

    def standby_started(self, detail: str) -> None:
        """Do nothing."""

    def lease_acquired(self, store: Store) -> None:
        """Do nothing."""

    def configured(self, policy: str, interval: float) -> None:
        """Do nothing."""

    def loop_polled(self) -> None:
        """Do nothing."""

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Do nothing."""

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Do nothing."""

    def stopping(self) -> None:
        """Do nothing."""


class ControllerObservers:
    """Controller observer that passes each event to several others, in their order.

    A defect of an observer must not stop the controller: its error is logged, and the
    observer receives no further events. Errors such as `StoreError` are raised.

    Args:
        observers: The observers.
    """

    def __init__(self, observers: Sequence[ControllerObserver]) -> None:
        self._observers = list(observers)

    def standby_started(self, detail: str) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.standby_started(detail))

    def lease_acquired(self, store: Store) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.lease_acquired(store))

    def configured(self, policy: str, interval: float) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.configured(policy, interval))

    def loop_polled(self) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.loop_polled())

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.cycle_finished(result, seconds))

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.cycle_failed(error, seconds))

    def stopping(self) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.stopping())

    def step_started(self, step: Step) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.step_started(step))

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.step_progressed(step, status))

    def step_waiting(self, step: Step, detail: str) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.step_waiting(step, detail))

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.step_rejected(step, rejection))

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.step_finished(step, record))

    def steps_polled(self) -> None:
        """Pass the event on."""
        self._pass_on(lambda each: each.steps_polled())

    def _pass_on(self, call: Callable[[ControllerObserver], None]) -> None:
        for observer in tuple(self._observers):
            try:
                call(observer)
            except OpenDRSError:
                raise
            except Exception as error:  # noqa: BLE001 - a defect, which is logged
                self._observers.remove(observer)
                name = type(observer).__name__
                log_event(
                    LogEventCode.OBSERVER_FAILED,
                    f"{name}: failed and is no longer used: {error!r}; this is a bug "
                    "in opendrs",
                    level=logging.ERROR,
                    observer=name,
                )
