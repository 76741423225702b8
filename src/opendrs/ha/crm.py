"""The manager process of a node; one of them is the master."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.ha import events
from opendrs.ha.documents import ManagerStatus
from opendrs.ha.locks import MANAGER_LOCK
from opendrs.ha.manager import hold_round, take_over
from opendrs.ha.observation import FilesUnreadableError, HaError, Observation
from opendrs.ha.round import Manager, Round
from opendrs.ha.states import CrmState, DisarmState, NodeState
from opendrs.ha.turn import Effect, Outcome, Turn
from opendrs.scoring import ImbalanceForm

IDLE_ROUNDS = 90
ROUND_TIME = 10  # seconds a round of the master takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Crm:
    """A manager process, between two of its turns.

    Attributes:
        state: Where it stands.
        has_watchdog: Whether it keeps a watchdog from biting.
        disarmed: Whether it is master of a disarmed cluster.
        idle_rounds: For how many rounds there has been nothing to manage.
        ending: Whether it was asked to end.
        manager: What it knows as master; None unless it is.
        form: How uneven loads become one number.
        rechecks: Whether agents check in each round that services still run.
    """

    state: CrmState = CrmState.WAIT_FOR_QUORUM
    has_watchdog: bool = False
    disarmed: bool = False
    idle_rounds: int = 0
    ending: bool = False
    manager: Manager | None = None
    form: ImbalanceForm = ImbalanceForm.RAW
    rechecks: bool = True


def start(
    form: ImbalanceForm = ImbalanceForm.RAW, *, rechecks: bool = True
) -> Outcome[Crm]:
    """Return a process that has just started."""
    crm = Crm(form=form, rechecks=rechecks)
    told = events.StatusChanged(CrmState.STARTUP, crm.state)
    return Outcome(crm, (told,))


def ask_to_end(crm: Crm) -> Outcome[Crm]:
    """Return the process once it was asked to end."""
    told: tuple[Effect, ...] = () if crm.ending else (events.ShutdownReceived(),)
    return Outcome(replace(crm, ending=True), told)


def take_turn(crm: Crm, seen: Observation) -> Outcome[Crm]:
    """Return what the process does about what it sees."""
    turn = _CrmTurn(crm, seen)
    exits = turn.run()
    return Outcome(turn.crm, tuple(turn.effects), exits=exits, delay=turn.delay)


class _CrmTurn(Turn):
    """A turn of a manager process under way."""

    def __init__(self, crm: Crm, seen: Observation) -> None:
        super().__init__(seen)
        self.crm = crm

    def run(self) -> bool:
        """Take the turn, and return whether the process ends."""
        _CHANGES[self.crm.state](self)
        return _WORK[self.crm.state](self)

    def consider_waiting(self) -> None:
        """Leave the wait for a quorum, if there is one and work to do."""
        if self._can_be_active():
            self._pass_to(CrmState.MASTER if self._acquire() else CrmState.SLAVE)

    def consider_slavery(self) -> None:
        """Become master if there is none, or wait if there is no work."""
        if not self._can_be_active():
            self._pass_to(CrmState.WAIT_FOR_QUORUM)
        elif self._acquire():
            self._pass_to(CrmState.MASTER)

    def consider_lost_lock(self) -> None:
        """Become master again if possible."""
        if self._can_be_active(allow_empty=True) and self._acquire():
            self._pass_to(CrmState.MASTER)

    def consider_mastery(self) -> None:
        """Stay master while there is work, and while the lock is to be had."""
        if not self._acquire():
            self._pass_to(CrmState.LOST_MANAGER_LOCK)
        elif not self._may_go_idle():
            self.crm = replace(self.crm, idle_rounds=0)
        elif self.crm.idle_rounds < IDLE_ROUNDS:
            self.crm = replace(self.crm, idle_rounds=self.crm.idle_rounds + 1)
        else:
            self.crm = replace(self.crm, idle_rounds=0)
            self.say(events.ClusterIdle(IDLE_ROUNDS))
            self.release(MANAGER_LOCK)
            self._close_watchdog()
            self._pass_to(CrmState.WAIT_FOR_QUORUM)

    def wait_for_quorum(self) -> bool:
        """Wait, unless the process is to end."""
        if not self.crm.ending:
            self.wait(5)
        return self.crm.ending

    def serve(self) -> bool:
        """Do nothing, or end."""
        return self.crm.ending

    def give_up_mastery(self) -> bool:
        """Let go of what a master has."""
        self._close_watchdog()
        if not self.crm.ending:
            self._pass_to(CrmState.WAIT_FOR_QUORUM)
        return self.crm.ending

    def rule(self) -> bool:
        """Hold a round, or end."""
        if self.crm.ending:
            self._abdicate()
            return True
        if not self.seen.consistent:
            self.say(events.RoundLeftOut())
        else:
            self._hold_round()
        self.wait_until(ROUND_TIME)
        return False

    def _hold_round(self) -> None:
        round_ = Round(self._manager(), self)
        try:
            hold_round(round_)
            self._settle_watchdog(disarmed=round_.disarmed)
        except HaError as error:
            self.say(events.UnexpectedError(str(error)))
        self.crm = replace(self.crm, manager=round_.memory_afterwards())

    def _abdicate(self) -> None:
        self._close_watchdog()
        self.say(events.ManagerLockGivenBack())
        if not self.release(MANAGER_LOCK):
            self.say(events.ManagerLockKept())

    def _settle_watchdog(self, *, disarmed: bool) -> None:
        if disarmed and not self.crm.disarmed:
            self.say(events.ManagerDisarmed())
            self._close_watchdog()
        elif self.crm.disarmed and not disarmed:
            self.say(events.ManagerRearmed())
        self.crm = replace(self.crm, disarmed=disarmed)

    def _manager(self) -> Manager:
        if self.crm.manager is None:
            raise HaError("a master without a manager")
        return self.crm.manager

    def _pass_to(self, state: CrmState) -> None:
        self.say(events.StatusChanged(self.crm.state, state))
        self.crm = replace(self.crm, state=state, manager=None)
        if state is CrmState.MASTER:
            left = self.seen.readable_files().status
            crm = self.crm
            manager = take_over(left, self, crm.form, rechecks=crm.rechecks)
            self.crm = replace(self.crm, manager=manager)

    def _acquire(self) -> bool:
        """Take or keep the lock of the manager, and a watchdog along with it."""
        if not self.acquire_own(MANAGER_LOCK):
            return False
        if not self.crm.has_watchdog and not self.crm.disarmed:
            if _is_disarmed(self.seen):
                self.say(events.DisarmedMasterTookOver())
                self.crm = replace(self.crm, disarmed=True)
            else:
                self.crm = replace(self.crm, has_watchdog=True)
        if self.crm.has_watchdog:
            self.feed_watchdog()
        return True

    def _close_watchdog(self) -> None:
        self.close_watchdog()
        self.crm = replace(self.crm, has_watchdog=False)

    def _status(self) -> ManagerStatus | None:
        """Return what the master told, if it can be read; say so if not."""
        try:
            return self.seen.readable_files().status
        except FilesUnreadableError as error:
            self.say(events.ManagerStatusUnreadable(str(error)))
            return None

    def _healthy_status(self) -> ManagerStatus | None:
        """Return what the master told, unless this node is out of order."""
        status = self._status()
        healthy = (
            self.seen.quorate
            and self.seen.consistent
            and status is not None
            and not status.wants_fencing(self.seen.node)
        )
        return status if healthy else None

    def _can_be_active(self, *, allow_empty: bool = False) -> bool:
        status = self._healthy_status()
        if status is None:
            return False
        files = self.seen.readable_files()
        if allow_empty or files.services:
            return True
        master = status.master
        if (
            master is not None
            and master != self.seen.node
            and status.nodes.get(master) is NodeState.ONLINE
        ):
            return False
        return bool(
            files.requests
            or status.services
            or status.disarm is not None
            or _has_stale_maintenance(status)
        )

    def _may_go_idle(self) -> bool:
        status = self._healthy_status()
        if status is None or status.disarm is not None:
            return False
        return not self.seen.readable_files().services and not status.services


def _has_stale_maintenance(status: ManagerStatus) -> bool:
    return any(
        state is NodeState.MAINTENANCE and node not in status.maintenance_requests
        for node, state in status.nodes.items()
    )


def _is_disarmed(seen: Observation) -> bool:
    disarm = None if seen.files is None else seen.files.status.disarm
    return disarm is not None and disarm.state is DisarmState.DISARMED


_CHANGES: Mapping[CrmState, Callable[[_CrmTurn], None]] = MappingProxyType(
    {
        CrmState.WAIT_FOR_QUORUM: _CrmTurn.consider_waiting,
        CrmState.SLAVE: _CrmTurn.consider_slavery,
        CrmState.LOST_MANAGER_LOCK: _CrmTurn.consider_lost_lock,
        CrmState.MASTER: _CrmTurn.consider_mastery,
    }
)
_WORK: Mapping[CrmState, Callable[[_CrmTurn], bool]] = MappingProxyType(
    {
        CrmState.WAIT_FOR_QUORUM: _CrmTurn.wait_for_quorum,
        CrmState.SLAVE: _CrmTurn.serve,
        CrmState.LOST_MANAGER_LOCK: _CrmTurn.give_up_mastery,
        CrmState.MASTER: _CrmTurn.rule,
    }
)
