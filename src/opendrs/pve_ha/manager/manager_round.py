"""One round of the manager: what it knows, and how services change state in it."""

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

ROUNDS_BEFORE_MIGRATION = 3  # rounds until groups are turned into rules
NO_NODE = NodeId("")  # Proxmox VE notes a target that is none as nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerState:
    """What the master knows between two rounds.

    Attributes:
        status: What it tells the agents and its successor.
        last_online: When each node was last seen online.
        scheduling: How nodes were chosen; None before the first round.
        imbalanced_rounds: For how many rounds the load has been uneven.
        rounds_until_migration: Rounds until groups are turned into rules.
        rules: The rules in force; None before the first round.
        rules_text: The text they were made from.
        groups_text: The text of the groups they were made from.
        disarmed: Whether all is disarmed, and the master may let go of its
            watchdog.
        uid_count: How many uids it has given out.
        uid_prefix: When and where it took over; makes its uids unique.
        imbalance_metric: How uneven loads become one number.
        recheck_services: Whether agents check in each round that services still run, as
            those of Proxmox VE do.
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
    """A round of the manager under way.

    Local to one turn: made from what the manager knew, it leaves what the
    manager knows afterwards, be the round finished or not.
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
        """Return what the manager knows once the round has ended."""
        return replace(
            self.state,
            status=self._status(),
            last_online=self.nodes.last_online,
            imbalanced_rounds=self.imbalanced_rounds,
            disarmed=self.disarmed,
            uid_count=self._uid_count,
        )

    def set_state(self, state: ManagerState) -> None:
        """Know something else between rounds from now on."""
        self.state = state

    def write_status(self) -> None:
        """Tell the agents, and a successor, how things stand."""
        self.step.emit(WriteManagerStatus(self._status()))

    def set_usage(self, usage: UsageModel) -> None:
        """Count what services take with *usage* from now on."""
        self.usage = usage
        self.selector = NodeSelector(self.rules, usage, self.services)

    def new_uid(self) -> str:
        """Return a uid that was never given out."""
        self._uid_count += 1
        return f"{self.state.uid_prefix}-{self._uid_count}"

    def config_of(self, service: ServiceId) -> ServiceConfig:
        """Return what the operator says of *service*; disabled if nothing."""
        known = self.config.get(service)
        if known is not None:
            return known
        return ServiceConfig(
            node=self.services[service].node, state=RequestedState.DISABLED
        )

    def result_of(self, service: ServiceId) -> int | None:
        """Return how the last job of *service* ended, or None if it has not."""
        uid = self.services[service].uid
        return None if uid is None else self.job_results.get(uid)

    def set_status(self, service: ServiceId, status: ServiceStatus) -> None:
        """Note something about *service* that is not a change of its state."""
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
        """Let *service* pass to another state.

        Raises:
            HaError: It is in that state.
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
        """Count what *service* takes where it is now."""
        self.usage.remove(service)
        self.add_usage(
            service, locate_service(self.services[service], self.online_nodes)
        )

    def add_usage(self, service: ServiceId, locations: ServiceLocations) -> None:
        """Count what *service* takes, if that is known."""
        try:
            self.usage.add(service, locations)
        except UsageUnknownError as error:
            self.step.log(log_events.ServiceUsageUnknown(service, str(error)))

    @property
    def online_nodes(self) -> Mapping[NodeId, object]:
        """Return the nodes that were online when usage was counted, as keys."""
        return self.selector.online

    def select_node(
        self, service: ServiceId, preference: NodePreference
    ) -> NodeId | None:
        """Return the node *service* should be on, or None if none will do."""
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
        """Return whether *node* is in maintenance."""
        return self.nodes.state_of(node) is PveNodeState.MAINTENANCE
