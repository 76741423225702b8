"""How the agent of a node passes from state to state, and works in each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.ha import events
from opendrs.ha.jobs import Job, JobEnd
from opendrs.ha.lrm import Jobs, Lrm, LrmTurn
from opendrs.ha.observation import HaError, Observation
from opendrs.ha.shutdown import plan_shutdown
from opendrs.ha.states import LrmMode, LrmState, ServiceState
from opendrs.ha.turn import Outcome
from opendrs.model import NodeId

IDLE_ROUNDS = 60
ROUND_TIME = 10  # seconds a round of an active agent takes
MAINTENANCE_TIME = 5  # seconds a round takes in maintenance
PATIENCE = 90  # seconds an agent waits to restart without its lock

Working = Generator[Job, JobEnd, Outcome[Lrm]]
"""Yields jobs, is sent how they ended, and returns what came of the turn."""


def start(node: NodeId, now: int) -> Outcome[Lrm]:
    """Return the agent of *node*, just started."""
    lrm = Lrm(node=node, state_since=now)
    return Outcome(lrm, (events.StatusChanged(LrmState.STARTUP, lrm.state),))


def ask_to_end(lrm: Lrm, seen: Observation) -> Outcome[Lrm]:
    """Return the agent once it was asked to end, for its node or for itself."""
    if lrm.ending:
        return Outcome(lrm, ())
    turn = LrmTurn(lrm, seen)
    plan = plan_shutdown(seen.datacenter.shutdown_policy, seen.power_change, lrm.mode)
    queue = dict(lrm.queue)
    if plan.stops_services:
        for service in lrm.known.services_on(lrm.node):
            queue[service] = Job(service, ServiceState.REQUEST_STOP)
    turn.set(replace(lrm, queue=queue, mode=plan.mode, ending=True))
    for event in plan.told:
        turn.say(event)
    if not turn.report():
        turn.say(events.ReportLate())
    return Outcome(turn.lrm, tuple(turn.effects))


def take_turn(lrm: Lrm, seen: Observation) -> Working:
    """Do what the agent does about what it sees.

    Yields:
        What is to be done about services, one after the other; the answer is
        how it ended.

    Returns:
        What came of the turn.
    """
    turn = LrmTurn(lrm, seen)
    failure = None
    try:
        yield from _run(turn)
    except HaError as error:
        failure = str(error)
    return Outcome(
        turn.lrm,
        tuple(turn.effects),
        exits=turn.exits,
        delay=turn.delay,
        failure=failure,
    )


def _run(turn: LrmTurn) -> Jobs:
    if not turn.seen.reporting and not turn.report():
        turn.exits = turn.lrm.ending
        turn.wait(5)
        return
    turn.listen()
    yield from _CHANGES[turn.lrm.state](turn)
    yield from _WORK[turn.lrm.state](turn)


def _consider_waiting(turn: LrmTurn) -> Jobs:
    """Set to work if there is work."""
    yield from ()
    lrm = turn.lrm
    if lrm.mode is LrmMode.DISARM or lrm.to_be_fenced or not lrm.active_services:
        return
    if turn.seen.quorate and turn.acquire_with_watchdog():
        turn.pass_to(LrmState.ACTIVE)


def _consider_lost_lock(turn: LrmTurn) -> Jobs:
    """Set to work again if the lock is to be had."""
    yield from ()
    if turn.lrm.to_be_fenced or not turn.seen.quorate:
        return
    if turn.acquire_with_watchdog():
        turn.pass_to(LrmState.ACTIVE)


def _consider_activity(turn: LrmTurn) -> Jobs:
    """Stay at work while there is work, and while the lock is to be had."""
    lrm = turn.lrm
    if lrm.to_be_fenced:
        turn.say(events.FencingAwaited())
        turn.pass_to(LrmState.LOST_AGENT_LOCK)
    elif not turn.acquire_with_watchdog():
        turn.pass_to(LrmState.LOST_AGENT_LOCK)
    elif lrm.mode is LrmMode.MAINTENANCE:
        turn.pass_to(LrmState.MAINTENANCE)
    elif lrm.mode is LrmMode.DISARM:
        yield from turn.work()
        turn.say(events.AgentDisarmed())
        turn.let_go()
        turn.pass_to(LrmState.WAIT_FOR_AGENT_LOCK)
    elif lrm.known.services_on(lrm.node):
        if lrm.idle_rounds:
            turn.set(replace(lrm, idle_rounds=0))
    else:
        yield from turn.work()
        _idle(turn)


def _idle(turn: LrmTurn) -> None:
    idle = turn.lrm.idle_rounds + 1
    turn.set(replace(turn.lrm, idle_rounds=idle))
    if idle > IDLE_ROUNDS:
        turn.say(events.AgentIdle(IDLE_ROUNDS))
        turn.let_go()
        turn.pass_to(LrmState.WAIT_FOR_AGENT_LOCK)
        turn.set(replace(turn.lrm, idle_rounds=0))


def _consider_maintenance(turn: LrmTurn) -> Jobs:
    """Stay in maintenance while it lasts."""
    lrm = turn.lrm
    if lrm.to_be_fenced:
        turn.say(events.FencingAwaitedInMaintenance())
        turn.pass_to(LrmState.LOST_AGENT_LOCK)
    elif lrm.active_services:
        if not turn.acquire_with_watchdog():
            turn.pass_to(LrmState.LOST_AGENT_LOCK)
    else:
        yield from turn.work()
        if lrm.mode is LrmMode.DISARM:
            turn.say(events.AgentDisarmedInMaintenance())
            turn.let_go()
            turn.pass_to(LrmState.WAIT_FOR_AGENT_LOCK)
        elif lrm.mode is not LrmMode.MAINTENANCE:
            locked = turn.acquire_with_watchdog()
            turn.pass_to(LrmState.ACTIVE if locked else LrmState.LOST_AGENT_LOCK)


def _wait(turn: LrmTurn) -> Jobs:
    yield from ()
    if turn.lrm.ending:
        turn.exits = True
        return
    turn.report()
    turn.wait(5)


def _be_active(turn: LrmTurn) -> Jobs:
    ends = False
    try:
        if turn.listen():
            ends = yield from _work_actively(turn)
    except HaError as error:
        turn.say(events.UnexpectedError(str(error)))
    turn.report()
    turn.exits = ends
    if not ends:
        turn.wait_until(ROUND_TIME)


def _work_actively(turn: LrmTurn) -> Generator[Job, JobEnd, bool]:
    """Work, and return whether the agent is done for good."""
    if not turn.lrm.ending:
        if turn.seen.consistent:
            yield from turn.manage_services()
        else:
            turn.say(events.RoundLeftOut())
        return False
    yield from turn.work()
    if turn.lrm.mode is LrmMode.RESTART:
        if turn.lrm.active_services:
            return False
        _go_quietly(turn)
    elif not turn.lrm.failed_stops:
        _go_quietly(turn)
    return True


def _go_quietly(turn: LrmTurn) -> None:
    turn.close_watchdog()
    turn.release(turn.lock)


def _be_without_lock(turn: LrmTurn) -> Jobs:
    yield from ()
    lrm = turn.lrm
    if lrm.ending:
        waited = turn.now - lrm.state_since
        if lrm.active_services:
            turn.say(events.ShutdownWithServices(lrm.active_services))
            if lrm.mode is LrmMode.RESTART and waited > PATIENCE:
                turn.say(events.ShutdownForced(PATIENCE))
                turn.exits = True
        else:
            turn.close_watchdog()
            turn.exits = True
    if not turn.exits:
        turn.wait(5)


def _be_in_maintenance(turn: LrmTurn) -> Jobs:
    if not turn.listen():
        turn.exits = True
        return
    if not turn.lrm.active_services:
        yield from turn.work()
        turn.close_watchdog()
        turn.exits = turn.lrm.ending
        turn.release(turn.lock)
    if not turn.exits:
        yield from turn.manage_services()
    turn.report()
    if not turn.exits:
        turn.wait_until(MAINTENANCE_TIME)


_Step = Callable[[LrmTurn], Jobs]
_CHANGES: Mapping[LrmState, _Step] = MappingProxyType(
    {
        LrmState.WAIT_FOR_AGENT_LOCK: _consider_waiting,
        LrmState.LOST_AGENT_LOCK: _consider_lost_lock,
        LrmState.ACTIVE: _consider_activity,
        LrmState.MAINTENANCE: _consider_maintenance,
    }
)
_WORK: Mapping[LrmState, _Step] = MappingProxyType(
    {
        LrmState.WAIT_FOR_AGENT_LOCK: _wait,
        LrmState.LOST_AGENT_LOCK: _be_without_lock,
        LrmState.ACTIVE: _be_active,
        LrmState.MAINTENANCE: _be_in_maintenance,
    }
)
