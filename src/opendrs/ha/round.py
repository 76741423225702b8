"""One round of the manager: what it knows, and how services change state in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opendrs.ha import events
from opendrs.ha.commands import PublishStatus
from opendrs.ha.documents import (
    Disarm,
    ManagerStatus,
    Scheduling,
    ServiceConfig,
    ServiceStatus,
)
from opendrs.ha.identifiers import Parameters, ServiceId
from opendrs.ha.nodes import NodeTable
from opendrs.ha.observation import HaError
from opendrs.ha.places import Places, places_of
from opendrs.ha.rules import NO_RULES, CompiledRules
from opendrs.ha.selection import Selector
from opendrs.ha.states import LrmMode, NodeState, Preference, Requested, ServiceState
from opendrs.ha.turn import Turn
from opendrs.ha.usage import BasicUsage, LoadUsage, UsageModel, UsageUnknownError
from opendrs.model import NodeId
from opendrs.scoring import ImbalanceForm

FIRST_MIGRATION = 3  # rounds until groups are turned into rules
NO_NODE = NodeId("")  # Proxmox VE notes a target that is none as nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """What the master knows between two rounds.

    Attributes:
        status: What it tells the agents and its successor.
        last_online: When each node was last seen online.
        scheduling: How nodes were chosen; None before the first round.
        imbalanced_rounds: For how many rounds the load has been uneven.
        until_migration: Rounds until groups are turned into rules.
        rules: The rules in force; None before the first round.
        rules_text: The text they were made from.
        groups_text: The text of the groups they were made from.
        disarmed: Whether all is disarmed, and the master may let go of its
            watchdog.
        uids: How many uids it has given out.
        origin: When and where it took over; makes its uids unique.
        form: How uneven loads become one number.
        rechecks: Whether agents check in each round that services still run, as
            those of Proxmox VE do.
    """

    status: ManagerStatus
    last_online: Mapping[NodeId, int] = field(default_factory=dict)
    scheduling: Scheduling | None = None
    imbalanced_rounds: int = 0
    until_migration: int = FIRST_MIGRATION
    rules: CompiledRules | None = None
    rules_text: str = ""
    groups_text: str = ""
    disarmed: bool = False
    uids: int = 0
    origin: str = ""
    form: ImbalanceForm = ImbalanceForm.RAW
    rechecks: bool = True


class Round:
    """A round of the manager under way.

    Local to one turn: made from what the manager knew, it leaves what the
    manager knows afterwards, be the round finished or not.
    """

    def __init__(self, manager: Manager, turn: Turn) -> None:
        self.turn = turn
        self.memory = manager
        self.nodes = NodeTable(manager.status.nodes, manager.last_online, turn)
        self.services = dict(manager.status.services)
        self.maintenance_requests = set(manager.status.maintenance_requests)
        self.disarm: Disarm | None = manager.status.disarm
        self.imbalanced_rounds = manager.imbalanced_rounds
        self.disarmed = manager.disarmed
        self.scheduling = turn.seen.datacenter.scheduling
        self.config: dict[ServiceId, ServiceConfig] = {}
        self.modes: dict[NodeId, LrmMode] = {}
        self.results: dict[str, int] = {}
        self.rules = manager.rules or NO_RULES
        self.usage: UsageModel = BasicUsage(())
        self.selector = Selector(self.rules, self.usage, self.services)
        self._uids = manager.uids

    def memory_afterwards(self) -> Manager:
        """Return what the manager knows once the round has ended."""
        return replace(
            self.memory,
            status=self._status(),
            last_online=self.nodes.last_online,
            imbalanced_rounds=self.imbalanced_rounds,
            disarmed=self.disarmed,
            uids=self._uids,
        )

    def remember(self, memory: Manager) -> None:
        """Know something else between rounds from now on."""
        self.memory = memory

    def publish(self) -> None:
        """Tell the agents, and a successor, how things stand."""
        self.turn.do(PublishStatus(self._status()))

    def use(self, usage: UsageModel) -> None:
        """Count what services take with *usage* from now on."""
        self.usage = usage
        self.selector = Selector(self.rules, usage, self.services)

    def fresh_uid(self) -> str:
        """Return a uid that was never given out."""
        self._uids += 1
        return f"{self.memory.origin}-{self._uids}"

    def config_of(self, service: ServiceId) -> ServiceConfig:
        """Return what the operator says of *service*; disabled if nothing."""
        known = self.config.get(service)
        if known is not None:
            return known
        return ServiceConfig(node=self.services[service].node, state=Requested.DISABLED)

    def result_of(self, service: ServiceId) -> int | None:
        """Return how the last job of *service* ended, or None if it has not."""
        uid = self.services[service].uid
        return None if uid is None else self.results.get(uid)

    def amend(self, service: ServiceId, status: ServiceStatus) -> None:
        """Note something about *service* that is not a change of its state."""
        self.services[service] = status

    def change(
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
            uid=self.fresh_uid(),
            target=target,
            timeout=timeout,
            failed_nodes=old.failed_nodes,
            maintenance_node=old.maintenance_node,
        )
        self.recount(service)
        said = {"node": node, "target": target, "timeout": timeout}
        shown = Parameters((k, str(v)) for k, v in said.items() if v is not None)
        self.turn.say(events.ServiceStateChanged(service, old.state, state, shown))

    def recount(self, service: ServiceId) -> None:
        """Count what *service* takes where it is now."""
        self.usage.remove(service)
        self.count(service, places_of(self.services[service], self.online))

    def count(self, service: ServiceId, places: Places) -> None:
        """Count what *service* takes, if that is known."""
        try:
            self.usage.add(service, places)
        except UsageUnknownError as why:
            self.turn.say(events.UsageUnknown(service, str(why)))

    @property
    def online(self) -> Mapping[NodeId, object]:
        """Return the nodes that were online when usage was counted, as keys."""
        return self.selector.online

    def select(self, service: ServiceId, preference: Preference) -> NodeId | None:
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
        except UsageUnknownError as why:
            mode = "dynamic" if self._measured else "static"
            self.turn.say(events.StartsUnscored(service, mode, str(why)))
            if self._measured:
                raise
            return dict.fromkeys(self.usage.nodes, 0.0)

    @property
    def _measured(self) -> bool:
        return isinstance(self.usage, LoadUsage) and self.usage.measured

    def _status(self) -> ManagerStatus:
        return ManagerStatus(
            master=self.turn.seen.node,
            nodes=dict(self.nodes.states),
            services=dict(self.services),
            maintenance_requests=frozenset(self.maintenance_requests),
            disarm=self.disarm,
        )

    def in_maintenance(self, node: NodeId) -> bool:
        """Return whether *node* is in maintenance."""
        return self.nodes.state(node) is NodeState.MAINTENANCE
