"""The cycle of a host agent: sample, evaluate, record, send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from logging import ERROR, WARNING
from uuid import uuid4

from opendrs.agent.http_client import ControllerApi, RequestRejectedError
from opendrs.agent.state_file import AgentState, AgentStateFile, is_continuous
from opendrs.config.api_schema import (
    MAX_BODY_BYTES,
    MAX_SAMPLES,
    MAX_SEQUENCE,
    MAX_TOTAL_SAMPLES,
    GuestSamples,
    RequestBody,
    UsageSamples,
)
from opendrs.config.settings import AgentSettings
from opendrs.controller.clock import POLL_INTERVAL, IntervalTimer
from opendrs.controller.events import LogEventCode, log_event
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    PermissionDeniedError,
    PlatformError,
)
from opendrs.model import LoadState, NodeId, Snapshot
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.agent_requests import AgentRequest
from opendrs.policies.consolidation.memory import ConsolidationMemory
from opendrs.ports import Clock, Platform

SEND_FRACTION = 0.8  # of an interval, for all attempts to send a request


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAgent:
    """Host agent with its dependencies.

    Attributes:
        settings: Settings of the agent.
        policy: Evaluates the host with the settings of the policy `consolidate`.
        platform: Platform of the host.
        state_file: State that is kept over restarts.
        controller: API of the controller.
        clock: The time.
    """

    settings: AgentSettings
    policy: Consolidate
    platform: Platform
    state_file: AgentStateFile
    controller: ControllerApi
    clock: Clock

    def next_due(self) -> datetime:
        """Return the time at which the next cycle is due, also after a restart."""
        now, state = self.clock.now(), self.state_file.load()
        interval = timedelta(seconds=self.settings.interval)
        if state is None or not now < state.sampled_at + interval <= now + interval:
            return now
        return state.sampled_at + interval

    def resend_pending(self) -> None:
        """Send the last request if the previous process ended before it was accepted.

        Raises:
            StoreError: The state cannot be read or written.
        """
        state = self.state_file.load()
        if state is not None and state.request is not None and not state.delivered:
            age = (self.clock.now() - state.sampled_at).total_seconds()
            if 0 <= age < self.settings.interval:
                self._send(state, self.settings.timeout)

    def run_cycle(self, timeout: float | None = None) -> bool:
        """Take a sample, evaluate the host, and send a request to the controller.

        Errors of the host or the controller are logged; the next cycle continues
        with the known samples.

        Args:
            timeout: Seconds for all attempts to send the request; None for
                `SEND_FRACTION` of the interval.

        Returns:
            True if the controller has accepted the request.

        Raises:
            ConfigurationError: The platform does not have the configured node.
            StoreError: The state cannot be read or written.
        """
        previous = self._last_state()
        self._log_last_request(previous)
        try:
            snapshot = self._observe_node()
        except PlatformError as error:
            log_event(
                LogEventCode.SAMPLE_FAILED, f"sample failed: {error}", level=WARNING
            )
            return False
        state = self._evaluate(snapshot, previous)
        self.state_file.save(state)
        if state.request is None:
            message = f"{self.settings.node}: no CPU usage measured; no request sent"
            log_event(LogEventCode.SAMPLE_FAILED, message, level=WARNING)
            return False
        max_time = SEND_FRACTION * self.settings.interval
        return self._send(state, max_time if timeout is None else timeout)

    def _last_state(self) -> AgentState | None:
        """Return the last state, with a time in the future set to now."""
        state, now = self.state_file.load(), self.clock.now()
        if state is None or state.sampled_at <= now:
            return state
        message = (
            f"store: last sample in the future, treated as now: {state.sampled_at}; "
            "check the clock of this machine"
        )
        log_event(LogEventCode.TIMES_IN_FUTURE, message, level=WARNING)
        return state.model_copy(update={"sampled_at": now})

    def _observe_node(self) -> Snapshot:
        """Return a snapshot of this node and its guests."""
        name = NodeId(self.settings.node)
        observed = self.platform.observe()
        if name not in observed.nodes:
            raise ConfigurationError(
                f"agent.node: {name}: unknown node of {self.platform.name}; known: "
                f"{', '.join(sorted(observed.nodes))}",
                code=DiagnosticCode.UNKNOWN_NAME,
            )
        guests = {
            guest.id: replace(guest, migrating_to=None)
            for guest in observed.guests.values()
            if guest.node == name
        }
        return Snapshot(
            taken_at=observed.taken_at,
            nodes={name: observed.nodes[name]},
            guests=guests,
        )

    def _evaluate(self, snapshot: Snapshot, previous: AgentState | None) -> AgentState:
        name = NodeId(self.settings.node)
        memory = self._add_new_guests(
            snapshot, self._current_memory(snapshot, previous)
        )
        agent_request, new_memory = self.policy.agent_request(snapshot, memory, name)
        sequence = 1 if previous is None else previous.sequence + 1
        state = AgentState(
            node=name,
            sampled_at=snapshot.taken_at,
            sequence=sequence,
            memory=new_memory,
        )
        if agent_request is None:
            return state
        return state.model_copy(
            update={"request": self._build_request(state, agent_request)}
        )

    def _current_memory(
        self, snapshot: Snapshot, previous: AgentState | None
    ) -> ConsolidationMemory:
        if previous is None:
            return self.policy.initial_memory()
        if is_continuous(previous, snapshot.taken_at, self.settings.interval):
            return previous.memory
        message = (
            f"{previous.node}: gap since the last sample: {previous.sampled_at}; "
            "histories start again"
        )
        log_event(LogEventCode.SAMPLE_GAP, message, level=WARNING)
        return self.policy.initial_memory()

    def _add_new_guests(
        self, snapshot: Snapshot, memory: ConsolidationMemory
    ) -> ConsolidationMemory:
        """Return *memory* with the histories of new guests from other nodes."""
        guests = dict(memory["guests"])
        new = [
            guest.id
            for guest in snapshot.guests.values()
            if guest.is_active and guest.id not in guests
        ]
        for guest in sorted(new):
            try:
                samples = self.controller.get_samples(guest)
            except PlatformError as error:
                log_event(
                    LogEventCode.NEW_GUESTS,
                    f"new guests start without history: {error}",
                )
                break
            if samples is not None and self._is_compatible(samples, snapshot.taken_at):
                guests[guest] = [*samples.samples]
        return {**memory, "guests": guests}

    def _is_compatible(self, samples: GuestSamples, now: datetime) -> bool:
        """Return True if *samples* of another node can be continued on this node."""
        interval = self.settings.interval
        # A time in the future is treated as now: the clocks of two hosts differ.
        age = max(0.0, (now - samples.taken_at).total_seconds())
        return samples.interval == interval and age <= 2 * interval

    def _build_request(
        self, state: AgentState, agent_request: AgentRequest
    ) -> RequestBody:
        """Return the request, with as many of the newest samples as fit."""
        guests = len(state.memory["guests"])
        limit = preferred = min(MAX_SAMPLES, MAX_TOTAL_SAMPLES // (guests + 1))
        request = self._request_with_samples(limit, state, agent_request)
        while (size := len(request.model_dump_json())) > MAX_BODY_BYTES and limit > 1:
            limit = max(1, min(limit - 1, limit * MAX_BODY_BYTES // size))
            request = self._request_with_samples(limit, state, agent_request)
        if limit < preferred:
            log_event(
                LogEventCode.SAMPLES_TRUNCATED,
                f"{state.node}: request too large with {guests} guests; sending the "
                f"newest {limit} samples of each",
                level=WARNING,
                samples=limit,
            )
        return request

    def _request_with_samples(
        self, limit: int, state: AgentState, agent_request: AgentRequest
    ) -> RequestBody:
        used = state.memory["guests"].items()
        return RequestBody(
            id=uuid4(),
            node=state.node,
            sequence=state.sequence,
            taken_at=state.sampled_at,
            load_state=LoadState(agent_request["load_state"]),
            evict=agent_request["evict"],
            samples=UsageSamples(
                interval=self.settings.interval,
                guests={guest: samples[-limit:] for guest, samples in used},
                host_overhead=state.memory["nodes"].get(state.node, [])[-limit:],
            ),
        )

    def _send(self, state: AgentState, timeout: float) -> bool:
        try:
            state = self._submit(state, timeout)
        except PlatformError as error:
            is_permanent = isinstance(error, PermissionDeniedError)
            log_event(
                LogEventCode.REQUEST_REJECTED,
                str(error),
                level=ERROR if is_permanent else WARNING,
            )
            return False
        self.state_file.save(state.model_copy(update={"delivered": True}))
        request = _pending_request(state)
        evict = ", ".join(request.evict)
        log_event(
            LogEventCode.REQUEST_SENT,
            f"{state.node}: {request.load_state}"
            + (f"; evict {evict}" if evict else ""),
            request=str(request.id),
            load_state=request.load_state,
            evict=request.evict,
        )
        return True

    def _submit(self, state: AgentState, timeout: float) -> AgentState:
        """Send the request of *state*; return the state that was accepted.

        If the state file was lost or restored from an old backup, the controller has
        accepted requests with a higher sequence, and reports the last one. The request
        is then sent again with the next sequence.
        """
        try:
            self.controller.submit(_pending_request(state), timeout)
        except RequestRejectedError as error:
            if error.last_sequence is None or error.last_sequence == MAX_SEQUENCE:
                raise
            state = _with_sequence(state, error.last_sequence + 1)
            log_event(
                LogEventCode.SEQUENCE_RESET,
                f"{error}; continuing with sequence {state.sequence}",
                level=WARNING,
            )
            self.state_file.save(state)
            self.controller.submit(_pending_request(state), timeout)
        return state

    def _log_last_request(self, state: AgentState | None) -> None:
        """Log the status of the last request with a load state other than normal."""
        request = None if state is None or not state.delivered else state.request
        if request is None or request.load_state is LoadState.NORMAL:
            return
        try:
            status = self.controller.get_status(request)
        except PlatformError:
            return  # the error is logged if the next request fails as well
        if status is not None:
            steps = [f"{step.id}: {step.outcome or 'running'}" for step in status.steps]
            detail = "; ".join(part for part in (status.detail, *steps) if part)
            log_event(
                LogEventCode.REQUEST_STATUS,
                f"last request {status.state}{detail and f': {detail}'}",
                request=str(request.id),
                state=status.state,
            )


def _pending_request(state: AgentState) -> RequestBody:
    assert state.request is not None  # noqa: S101 - checked by the callers
    return state.request


def _with_sequence(state: AgentState, sequence: int) -> AgentState:
    """Return *state* with a new request that has *sequence*."""
    request = _pending_request(state).model_copy(
        update={"id": uuid4(), "sequence": sequence}
    )
    return state.model_copy(update={"sequence": sequence, "request": request})


class StoppedError(Exception):
    """Signal: the agent was stopped; not an error."""


def interruptible_sleep(
    clock: Clock, should_stop: Callable[[], bool]
) -> Callable[[float], None]:
    """Return a function that sleeps for some seconds unless *should_stop* is true.

    The function raises StoppedError if it is stopped.
    """

    def sleep(seconds: float) -> None:
        until = clock.monotonic() + seconds
        while (remaining := until - clock.monotonic()) > 0:
            if should_stop():
                raise StoppedError
            clock.sleep(min(POLL_INTERVAL, remaining))
        if should_stop():
            raise StoppedError

    return sleep


def run_forever(agent: HostAgent, sleep: Callable[[float], None]) -> None:
    """Run the cycles of *agent* at the configured interval.

    Cycles that become due during a long cycle are skipped.

    Args:
        agent: The agent.
        sleep: Function that sleeps for some seconds; may raise StoppedError.

    Raises:
        StoppedError: The agent was stopped.
        ConfigurationError: The platform does not have the configured node.
        StoreError: The state cannot be read or written.
    """
    clock = agent.clock
    agent.resend_pending()
    sleep((agent.next_due() - clock.now()).total_seconds())
    timer = IntervalTimer(agent.settings.interval, clock.monotonic())
    while True:
        timer.start_cycle(clock.monotonic())
        agent.run_cycle()
        sleep(timer.remaining(clock.monotonic()))
