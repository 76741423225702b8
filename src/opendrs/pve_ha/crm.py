"""The CRM process of a node as a state machine. One CRM is the master."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.metrics import ImbalanceMetric
from opendrs.pve_ha import log_events
from opendrs.pve_ha.manager.manage import create_manager, run_round
from opendrs.pve_ha.manager.manager_round import ManagerRound, ManagerState
from opendrs.pve_ha.observation import FilesUnreadableError, HaError, ProcessObservation
from opendrs.pve_ha.process_step import ProcessStep, StepOutput, StepResult
from opendrs.pve_ha.states import CrmState, DisarmState, PveNodeState
from opendrs.pve_ha.status_files import MANAGER_LOCK, ManagerStatus

IDLE_ROUNDS = 90
ROUND_TIME = 10  # duration of a round of the master, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Crm:
    """A CRM process between two steps.

    Attributes:
        state: Its state.
        has_watchdog: True while it keeps a watchdog open and updated.
        disarmed: True while it is the master of a disarmed cluster.
        idle_rounds: Consecutive rounds without a service.
        stop_requested: True once the process has been asked to stop.
        manager: State of the manager; None unless it is the master.
        imbalance_metric: Form of the imbalance.
        recheck_services: LRMs check in each round that services still run.
    """

    state: CrmState = CrmState.WAIT_FOR_QUORUM
    has_watchdog: bool = False
    disarmed: bool = False
    idle_rounds: int = 0
    stop_requested: bool = False
    manager: ManagerState | None = None
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.CV
    recheck_services: bool = True


def start_crm(
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.CV,
    *,
    recheck_services: bool = True,
) -> StepResult[Crm]:
    """Return a process that has just started."""
    crm = Crm(imbalance_metric=imbalance_metric, recheck_services=recheck_services)
    event = log_events.ProcessStateChanged(CrmState.STARTUP, crm.state)
    return StepResult(crm, (event,))


def request_crm_stop(crm: Crm) -> StepResult[Crm]:
    """Return the process after a request to stop."""
    outputs: tuple[StepOutput, ...] = (
        () if crm.stop_requested else (log_events.ShutdownReceived(),)
    )
    return StepResult(replace(crm, stop_requested=True), outputs)


def step_crm(crm: Crm, observation: ProcessObservation) -> StepResult[Crm]:
    """Execute one step of the process and return its result."""
    step = _CrmStep(crm, observation)
    exits = step.run()
    return StepResult(step.crm, tuple(step.outputs), exits=exits, delay=step.delay)


class _CrmStep(ProcessStep):
    """One step of a CRM process."""

    def __init__(self, crm: Crm, observation: ProcessObservation) -> None:
        super().__init__(observation)
        self.crm = crm

    def run(self) -> bool:
        """Execute the step and return True if the process exits."""
        _TRANSITIONS[self.crm.state](self)
        return _WORK[self.crm.state](self)

    def transition_from_wait_for_quorum(self) -> None:
        """Become master or slave if there is a quorum and work."""
        if self._can_be_active():
            self._enter_state(
                CrmState.MASTER if self._acquire_lock_and_watchdog() else CrmState.SLAVE
            )

    def transition_from_slave(self) -> None:
        """Become master if the lock is free, or wait if there is no work."""
        if not self._can_be_active():
            self._enter_state(CrmState.WAIT_FOR_QUORUM)
        elif self._acquire_lock_and_watchdog():
            self._enter_state(CrmState.MASTER)

    def transition_from_lost_lock(self) -> None:
        """Become master again if the lock can be acquired."""
        if self._can_be_active(allow_empty=True) and self._acquire_lock_and_watchdog():
            self._enter_state(CrmState.MASTER)

    def transition_from_master(self) -> None:
        """Stay master while there is work and the lock can be renewed."""
        if not self._acquire_lock_and_watchdog():
            self._enter_state(CrmState.LOST_MANAGER_LOCK)
        elif not self._may_go_idle():
            self.crm = replace(self.crm, idle_rounds=0)
        elif self.crm.idle_rounds < IDLE_ROUNDS:
            self.crm = replace(self.crm, idle_rounds=self.crm.idle_rounds + 1)
        else:
            self.crm = replace(self.crm, idle_rounds=0)
            self.log(log_events.ClusterIdle(IDLE_ROUNDS))
            self.release_lock(MANAGER_LOCK)
            self._close_watchdog()
            self._enter_state(CrmState.WAIT_FOR_QUORUM)

    def work_in_wait_for_quorum(self) -> bool:
        """Wait 5 s, or exit on request."""
        if not self.crm.stop_requested:
            self.wait(5)
        return self.crm.stop_requested

    def work_as_slave(self) -> bool:
        """Do nothing, or exit on request."""
        return self.crm.stop_requested

    def work_in_lost_lock(self) -> bool:
        """Close the watchdog and return to waiting, or exit on request."""
        self._close_watchdog()
        if not self.crm.stop_requested:
            self._enter_state(CrmState.WAIT_FOR_QUORUM)
        return self.crm.stop_requested

    def work_as_master(self) -> bool:
        """Run a round of the manager, or exit on request."""
        if self.crm.stop_requested:
            self._release_manager_lock()
            return True
        if not self.observation.consistent:
            self.log(log_events.InconsistentRoundSkipped())
        else:
            self._run_round()
        self.wait_until(ROUND_TIME)
        return False

    def _run_round(self) -> None:
        round_ = ManagerRound(self._require_manager(), self)
        try:
            run_round(round_)
            self._update_watchdog(disarmed=round_.disarmed)
        except HaError as error:
            self.log(log_events.UnexpectedError(str(error)))
        self.crm = replace(self.crm, manager=round_.final_state())

    def _release_manager_lock(self) -> None:
        self._close_watchdog()
        self.log(log_events.ManagerLockReleased())
        if not self.release_lock(MANAGER_LOCK):
            self.log(log_events.ManagerLockReleaseFailed())

    def _update_watchdog(self, *, disarmed: bool) -> None:
        if disarmed and not self.crm.disarmed:
            self.log(log_events.ManagerDisarmed())
            self._close_watchdog()
        elif self.crm.disarmed and not disarmed:
            self.log(log_events.ManagerRearmed())
        self.crm = replace(self.crm, disarmed=disarmed)

    def _require_manager(self) -> ManagerState:
        if self.crm.manager is None:
            raise HaError("crm: master without a manager state")
        return self.crm.manager

    def _enter_state(self, state: CrmState) -> None:
        self.log(log_events.ProcessStateChanged(self.crm.state, state))
        self.crm = replace(self.crm, state=state, manager=None)
        if state is CrmState.MASTER:
            previous_status = self.observation.require_files().status
            crm = self.crm
            manager = create_manager(
                previous_status,
                self,
                crm.imbalance_metric,
                recheck_services=crm.recheck_services,
            )
            self.crm = replace(self.crm, manager=manager)

    def _acquire_lock_and_watchdog(self) -> bool:
        """Acquire or renew the manager lock and update the watchdog."""
        if not self.acquire_own_lock(MANAGER_LOCK):
            return False
        if not self.crm.has_watchdog and not self.crm.disarmed:
            if _is_disarmed(self.observation):
                self.log(log_events.DisarmedMasterElected())
                self.crm = replace(self.crm, disarmed=True)
            else:
                self.crm = replace(self.crm, has_watchdog=True)
        if self.crm.has_watchdog:
            self.feed_watchdog()
        return True

    def _close_watchdog(self) -> None:
        self.close_watchdog()
        self.crm = replace(self.crm, has_watchdog=False)

    def _read_status(self) -> ManagerStatus | None:
        """Return the manager status; None, with a log event, if it is unreadable."""
        try:
            return self.observation.require_files().status
        except FilesUnreadableError as error:
            self.log(log_events.ManagerStatusUnreadable(str(error)))
            return None

    def _healthy_status(self) -> ManagerStatus | None:
        """Return the manager status; None if this node cannot act on it."""
        status = self._read_status()
        healthy = (
            self.observation.quorate
            and self.observation.consistent
            and status is not None
            and not status.needs_fencing(self.observation.node)
        )
        return status if healthy else None

    def _can_be_active(self, *, allow_empty: bool = False) -> bool:
        status = self._healthy_status()
        if status is None:
            return False
        files = self.observation.require_files()
        if allow_empty or files.services:
            return True
        master = status.master
        if (
            master is not None
            and master != self.observation.node
            and status.nodes.get(master) is PveNodeState.ONLINE
        ):
            return False
        return bool(
            files.crm_commands
            or status.services
            or status.disarm is not None
            or _has_stale_maintenance(status)
        )

    def _may_go_idle(self) -> bool:
        status = self._healthy_status()
        if status is None or status.disarm is not None:
            return False
        return not self.observation.require_files().services and not status.services


def _has_stale_maintenance(status: ManagerStatus) -> bool:
    return any(
        state is PveNodeState.MAINTENANCE and node not in status.maintenance_requests
        for node, state in status.nodes.items()
    )


def _is_disarmed(observation: ProcessObservation) -> bool:
    disarm = None if observation.files is None else observation.files.status.disarm
    return disarm is not None and disarm.state is DisarmState.DISARMED


_TRANSITIONS: Mapping[CrmState, Callable[[_CrmStep], None]] = MappingProxyType(
    {
        CrmState.WAIT_FOR_QUORUM: _CrmStep.transition_from_wait_for_quorum,
        CrmState.SLAVE: _CrmStep.transition_from_slave,
        CrmState.LOST_MANAGER_LOCK: _CrmStep.transition_from_lost_lock,
        CrmState.MASTER: _CrmStep.transition_from_master,
    }
)
_WORK: Mapping[CrmState, Callable[[_CrmStep], bool]] = MappingProxyType(
    {
        CrmState.WAIT_FOR_QUORUM: _CrmStep.work_in_wait_for_quorum,
        CrmState.SLAVE: _CrmStep.work_as_slave,
        CrmState.LOST_MANAGER_LOCK: _CrmStep.work_in_lost_lock,
        CrmState.MASTER: _CrmStep.work_as_master,
    }
)
