"""State of one round of the manager, and state changes of services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opendrs.metrics import ImbalanceMetric
from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.config.rules import NO_RULES, PveCompiledRules
from opendrs.pve_ha.effects import WriteManagerStatus
from opendrs.pve_ha.manager.node_selection import NodeSelector
from opendrs.pve_ha.manager.node_usage import (
    BasicUsage,
    LoadUsage,
    ServiceLocations,
    UsageModel,
    UsageUnknownError,
    locate_service,
)
from opendrs.pve_ha.manager.nodes import NodeTable
from opendrs.pve_ha.observation import HaError
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import (
    LrmMode,
    NodePreference,
    PveNodeState,
    RequestedState,
    ServiceId,
    ServiceState,
    StateParameters,
)
from opendrs.pve_ha.status_files import (
    CrsSettings,
    DisarmStatus,
    ManagerStatus,
    ServiceConfig,
    ServiceStatus,
)

ROUNDS_BEFORE_MIGRATION = 3  # rounds until groups are converted to rules
NO_NODE = NodeId("")  # Proxmox VE writes a missing target as an empty name


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerState:
    """State of the manager between two rounds.

    Attributes:
        status: Status for the LRMs and for the next master.
        last_online: Time at which each node was last online.
        scheduling: Scheduler settings of the last round; None before the first.
        imbalanced_rounds: Consecutive rounds with an imbalance above the threshold.
        rounds_until_migration: Rounds until groups are converted to rules.
        rules: Rules in effect; None before the first round.
        rules_text: Text from which they were compiled.
        groups_text: Text of the groups from which they were compiled.
        disarmed: True if the HA stack is disarmed and the master may close its
            watchdog.
        uid_count: Number of assigned uids.
        uid_prefix: Node and time of the takeover; makes uids unique.
        imbalance_metric: Form of the imbalance.
        recheck_services: LRMs check in each round that services still run, as those of
            Proxmox VE do.
    """

    status: ManagerStatus
    last_online: Mapping[NodeId, int] = field(default_factory=dict)
    scheduling: CrsSettings | None = None
    imbalanced_rounds: int = 0
    rounds_until_migration: int = ROUNDS_BEFORE_MIGRATION
    rules: PveCompiledRules | None = None
    rules_text: str = ""
    groups_text: str = ""
    disarmed: bool = False
    uid_count: int = 0
    uid_prefix: str = ""
    imbalance_metric: ImbalanceMetric = ImbalanceMetric.CV
    recheck_services: bool = True


class ManagerRound:
    """A round of the manager in progress.

    It is created from the state of the manager and returns a new one, even if the round
    does not finish.
    """

    def __init__(self, manager: ManagerState, step: ProcessStep) -> None:
        self.step = step
        self.state = manager
        self.nodes = NodeTable(manager.status.nodes, manager.last_online, step)
        self.services = dict(manager.status.services)
        self.maintenance_requests = set(manager.status.maintenance_requests)
        self.disarm: DisarmStatus | None = manager.status.disarm
        self.imbalanced_rounds = manager.imbalanced_rounds
        self.disarmed = manager.disarmed
        self.scheduling = step.observation.datacenter.scheduling
        self.config: dict[ServiceId, ServiceConfig] = {}
        self.lrm_modes: dict[NodeId, LrmMode] = {}
        self.job_results: dict[str, int] = {}
        self.rules = manager.rules or NO_RULES
        self.usage: UsageModel = BasicUsage(())
        self.selector = NodeSelector(self.rules, self.usage, self.services)
        self._uid_count = manager.uid_count

    def final_state(self) -> ManagerState:
        """Return the state of the manager after the round."""
        return replace(
            self.state,
            status=self._status(),
            last_online=self.nodes.last_online,
            imbalanced_rounds=self.imbalanced_rounds,
            disarmed=self.disarmed,
            uid_count=self._uid_count,
        )

    def set_state(self, state: ManagerState) -> None:
        """Replace the state that is kept between rounds."""
        self.state = state

    def write_status(self) -> None:
        """Write the manager status for the LRMs and the next master."""
        self.step.emit(WriteManagerStatus(self._status()))

    def set_usage(self, usage: UsageModel) -> None:
        """Use *usage* to count services from now on."""
        self.usage = usage
        self.selector = NodeSelector(self.rules, usage, self.services)

    def new_uid(self) -> str:
        """Return a uid that has not been assigned before."""
        self._uid_count += 1
        return f"{self.state.uid_prefix}-{self._uid_count}"

    def config_of(self, service: ServiceId) -> ServiceConfig:
        """Return the configuration of *service*; disabled if there is none."""
        known = self.config.get(service)
        if known is not None:
            return known
        return ServiceConfig(
            node=self.services[service].node, state=RequestedState.DISABLED
        )

    def result_of(self, service: ServiceId) -> int | None:
        """Return the exit code of the last job of *service*; None if unfinished."""
        uid = self.services[service].uid
        return None if uid is None else self.job_results.get(uid)

    def set_status(self, service: ServiceId, status: ServiceStatus) -> None:
        """Replace the status of *service* without changing its state."""
        self.services[service] = status

    def change_state(
        self,
        service: ServiceId,
        state: ServiceState,
        *,
        node: NodeId | None = None,
        target: NodeId | None = None,
        timeout: int | None = None,
    ) -> None:
        """Change *service* to another state.

        Raises:
            HaError: It already is in that state.
        """
        old = self.services[service]
        if old.state is state:
            raise HaError(f"service '{service}': no state change from '{state}'")
        self.services[service] = ServiceStatus(
            state=state,
            node=node or old.node,
            uid=self.new_uid(),
            target=target,
            timeout=timeout,
            failed_nodes=old.failed_nodes,
            maintenance_node=old.maintenance_node,
        )
        self.update_usage(service)
        values = {"node": node, "target": target, "timeout": timeout}
        parameters = StateParameters(
            (k, str(v)) for k, v in values.items() if v is not None
        )
        self.step.log(
            log_events.ServiceStateChanged(service, old.state, state, parameters)
        )

    def update_usage(self, service: ServiceId) -> None:
        """Count *service* on its current nodes."""
        self.usage.remove(service)
        self.add_usage(
            service, locate_service(self.services[service], self.online_nodes)
        )

    def add_usage(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count *service* if its usage is known."""
        try:
            self.usage.add(service, locations)
        except UsageUnknownError as error:
            self.step.log(log_events.ServiceUsageUnknown(service, str(error)))

    @property
    def online_nodes(self) -> Mapping[NodeId, object]:
        """Return the nodes that were online when services were counted, as keys."""
        return self.selector.online

    def select_node(
        self, service: ServiceId, preference: NodePreference
    ) -> NodeId | None:
        """Return the node for *service*; None if no node is allowed."""
        return self.selector.select(
            service,
            preference,
            failback=self.config_of(service).failback,
            costs=self._start_costs,
        )

    def _start_costs(self, service: ServiceId) -> Mapping[NodeId, float]:
        try:
            return self.usage.start_costs(service)
        except UsageUnknownError as error:
            mode = "dynamic" if self._uses_measured_load else "static"
            self.step.log(log_events.StartScoringFailed(service, mode, str(error)))
            if self._uses_measured_load:
                raise
            return dict.fromkeys(self.usage.nodes, 0.0)

    @property
    def _uses_measured_load(self) -> bool:
        return isinstance(self.usage, LoadUsage) and self.usage.measured

    def _status(self) -> ManagerStatus:
        return ManagerStatus(
            master=self.step.observation.node,
            nodes=dict(self.nodes.states),
            services=dict(self.services),
            maintenance_requests=frozenset(self.maintenance_requests),
            disarm=self.disarm,
        )

    def is_in_maintenance(self, node: NodeId) -> bool:
        """Return True if *node* is in maintenance."""
        return self.nodes.state_of(node) is PveNodeState.MAINTENANCE
