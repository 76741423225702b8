"""State transitions of the LRM of a node, and its work in each state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.lrm.process import JobGenerator, JobResult, Lrm, LrmJob, LrmStep
from opendrs.pve_ha.lrm.shutdown import plan_shutdown
from opendrs.pve_ha.observation import HaError, ProcessObservation
from opendrs.pve_ha.process_step import StepResult
from opendrs.pve_ha.states import LrmMode, LrmState, ServiceState

IDLE_ROUNDS = 60
ROUND_TIME = 10  # duration of a round of an active LRM, in seconds
MAINTENANCE_ROUND_TIME = 5  # duration of a round in maintenance, in seconds
RESTART_TIMEOUT = 90  # seconds after which an LRM restarts without its lock

LrmStepGenerator = Generator[LrmJob, JobResult, StepResult[Lrm]]
"""Yields jobs, receives their results, and returns the result of the step."""


def start_lrm(node: NodeId, now: int) -> StepResult[Lrm]:
    """Return the LRM of *node* in its initial state."""
    lrm = Lrm(node=node, state_since=now)
    return StepResult(
        lrm, (log_events.ProcessStateChanged(LrmState.STARTUP, lrm.state),)
    )


def request_lrm_stop(lrm: Lrm, observation: ProcessObservation) -> StepResult[Lrm]:
    """Return the LRM after a request to stop, with or without its node."""
    if lrm.stop_requested:
        return StepResult(lrm, ())
    step = LrmStep(lrm, observation)
    plan = plan_shutdown(
        observation.datacenter.shutdown_policy, observation.power_change, lrm.mode
    )
    queue = dict(lrm.queue)
    if plan.stops_services:
        for service in lrm.manager_status.services_on(lrm.node):
            queue[service] = LrmJob(service, ServiceState.REQUEST_STOP)
    step.set_lrm(replace(lrm, queue=queue, mode=plan.mode, stop_requested=True))
    for event in plan.log:
        step.log(event)
    if not step.write_status():
        step.log(log_events.LrmStatusNotUpdated())
    return StepResult(step.lrm, tuple(step.outputs))


def step_lrm(lrm: Lrm, observation: ProcessObservation) -> LrmStepGenerator:
    """Execute one step of the LRM.

    Yields:
        Jobs for services, one after the other. The result of each job is sent back.

    Returns:
        The result of the step.
    """
    step = LrmStep(lrm, observation)
    failure = None
    try:
        yield from _run_step(step)
    except HaError as error:
        failure = str(error)
    return StepResult(
        step.lrm,
        tuple(step.outputs),
        exits=step.exits,
        delay=step.delay,
        failure=failure,
    )


def _run_step(step: LrmStep) -> JobGenerator:
    if not step.observation.has_lrm_statuses and not step.write_status():
        step.exits = step.lrm.stop_requested
        step.wait(5)
        return
    step.update_manager_status()
    yield from _TRANSITIONS[step.lrm.state](step)
    yield from _WORK[step.lrm.state](step)


def _transition_from_waiting(step: LrmStep) -> JobGenerator:
    """Become active if there is work."""
    yield from ()
    lrm = step.lrm
    if lrm.mode is LrmMode.DISARM or lrm.needs_fencing or not lrm.active_service_count:
        return
    if step.observation.quorate and step.acquire_lock_and_watchdog():
        step.enter_state(LrmState.ACTIVE)


def _transition_from_lost_lock(step: LrmStep) -> JobGenerator:
    """Become active again if the lock can be acquired."""
    yield from ()
    if step.lrm.needs_fencing or not step.observation.quorate:
        return
    if step.acquire_lock_and_watchdog():
        step.enter_state(LrmState.ACTIVE)


def _transition_from_active(step: LrmStep) -> JobGenerator:
    """Stay active while there is work and the lock can be renewed."""
    lrm = step.lrm
    if lrm.needs_fencing:
        step.log(log_events.FencingRequired())
        step.enter_state(LrmState.LOST_AGENT_LOCK)
    elif not step.acquire_lock_and_watchdog():
        step.enter_state(LrmState.LOST_AGENT_LOCK)
    elif lrm.mode is LrmMode.MAINTENANCE:
        step.enter_state(LrmState.MAINTENANCE)
    elif lrm.mode is LrmMode.DISARM:
        yield from step.run_jobs()
        step.log(log_events.LrmDisarmed())
        step.release_lock_and_watchdog()
        step.enter_state(LrmState.WAIT_FOR_AGENT_LOCK)
    elif lrm.manager_status.services_on(lrm.node):
        if lrm.idle_rounds:
            step.set_lrm(replace(lrm, idle_rounds=0))
    else:
        yield from step.run_jobs()
        _count_idle_round(step)


def _count_idle_round(step: LrmStep) -> None:
    idle_rounds = step.lrm.idle_rounds + 1
    step.set_lrm(replace(step.lrm, idle_rounds=idle_rounds))
    if idle_rounds > IDLE_ROUNDS:
        step.log(log_events.LrmIdle(IDLE_ROUNDS))
        step.release_lock_and_watchdog()
        step.enter_state(LrmState.WAIT_FOR_AGENT_LOCK)
        step.set_lrm(replace(step.lrm, idle_rounds=0))


def _transition_from_maintenance(step: LrmStep) -> JobGenerator:
    """Stay in maintenance while it is requested."""
    lrm = step.lrm
    if lrm.needs_fencing:
        step.log(log_events.FencingRequiredInMaintenance())
        step.enter_state(LrmState.LOST_AGENT_LOCK)
    elif lrm.active_service_count:
        if not step.acquire_lock_and_watchdog():
            step.enter_state(LrmState.LOST_AGENT_LOCK)
    else:
        yield from step.run_jobs()
        if lrm.mode is LrmMode.DISARM:
            step.log(log_events.LrmDisarmedInMaintenance())
            step.release_lock_and_watchdog()
            step.enter_state(LrmState.WAIT_FOR_AGENT_LOCK)
        elif lrm.mode is not LrmMode.MAINTENANCE:
            locked = step.acquire_lock_and_watchdog()
            step.enter_state(LrmState.ACTIVE if locked else LrmState.LOST_AGENT_LOCK)


def _work_while_waiting(step: LrmStep) -> JobGenerator:
    yield from ()
    if step.lrm.stop_requested:
        step.exits = True
        return
    step.write_status()
    step.wait(5)


def _work_while_active(step: LrmStep) -> JobGenerator:
    ends = False
    try:
        if step.update_manager_status():
            ends = yield from _run_active_round(step)
    except HaError as error:
        step.log(log_events.UnexpectedError(str(error)))
    step.write_status()
    step.exits = ends
    if not ends:
        step.wait_until(ROUND_TIME)


def _run_active_round(step: LrmStep) -> Generator[LrmJob, JobResult, bool]:
    """Execute one round and return True if the LRM exits."""
    if not step.lrm.stop_requested:
        if step.observation.consistent:
            yield from step.manage_services()
        else:
            step.log(log_events.InconsistentRoundSkipped())
        return False
    yield from step.run_jobs()
    if step.lrm.mode is LrmMode.RESTART:
        if step.lrm.active_service_count:
            return False
        _release_lock(step)
    elif not step.lrm.failed_stops:
        _release_lock(step)
    return True


def _release_lock(step: LrmStep) -> None:
    step.close_watchdog()
    step.release_lock(step.lock_name)


def _work_without_lock(step: LrmStep) -> JobGenerator:
    yield from ()
    lrm = step.lrm
    if lrm.stop_requested:
        elapsed = step.now - lrm.state_since
        if lrm.active_service_count:
            step.log(log_events.ShutdownWithServices(lrm.active_service_count))
            if lrm.mode is LrmMode.RESTART and elapsed > RESTART_TIMEOUT:
                step.log(log_events.ShutdownForced(RESTART_TIMEOUT))
                step.exits = True
        else:
            step.close_watchdog()
            step.exits = True
    if not step.exits:
        step.wait(5)


def _work_in_maintenance(step: LrmStep) -> JobGenerator:
    if not step.update_manager_status():
        step.exits = True
        return
    if not step.lrm.active_service_count:
        yield from step.run_jobs()
        step.close_watchdog()
        step.exits = step.lrm.stop_requested
        step.release_lock(step.lock_name)
    if not step.exits:
        yield from step.manage_services()
    step.write_status()
    if not step.exits:
        step.wait_until(MAINTENANCE_ROUND_TIME)


_StateHandler = Callable[[LrmStep], JobGenerator]
_TRANSITIONS: Mapping[LrmState, _StateHandler] = MappingProxyType(
    {
        LrmState.WAIT_FOR_AGENT_LOCK: _transition_from_waiting,
        LrmState.LOST_AGENT_LOCK: _transition_from_lost_lock,
        LrmState.ACTIVE: _transition_from_active,
        LrmState.MAINTENANCE: _transition_from_maintenance,
    }
)
_WORK: Mapping[LrmState, _StateHandler] = MappingProxyType(
    {
        LrmState.WAIT_FOR_AGENT_LOCK: _work_while_waiting,
        LrmState.LOST_AGENT_LOCK: _work_without_lock,
        LrmState.ACTIVE: _work_while_active,
        LrmState.MAINTENANCE: _work_in_maintenance,
    }
)
