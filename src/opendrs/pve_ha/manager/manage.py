"""One round of the manager over all nodes and services."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from opendrs.metrics import ImbalanceMetric
from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.config.rules import (
    add_group_rules,
    add_implied_rules,
    compile_rules,
    drop_conflicting_rules,
    read_groups,
    read_rules,
)
from opendrs.pve_ha.manager.balancing import balance
from opendrs.pve_ha.manager.crm_commands import process_crm_commands
from opendrs.pve_ha.manager.disarm import process_disarm
from opendrs.pve_ha.manager.group_migration import ConfigTexts, migrate_groups
from opendrs.pve_ha.manager.handlers import HANDLERS
from opendrs.pve_ha.manager.manager_round import ManagerRound, ManagerState
from opendrs.pve_ha.manager.node_usage import ServiceLocations, locate_service
from opendrs.pve_ha.manager.service_usage import BASIC, create_usage_model
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import (
    LrmMode,
    PveNodeState,
    RemovalReason,
    RequestedState,
    ServiceId,
    ServiceState,
)
from opendrs.pve_ha.status_files import ManagerStatus, ServiceStatus

RESTART_FREEZABLE_STATES = frozenset(
    {ServiceState.STARTED, ServiceState.STOPPED, ServiceState.REQUEST_STOP}
)


def create_manager(
    previous_status: ManagerStatus,
    step: ProcessStep,
    imbalance_metric: ImbalanceMetric,
    *,
    recheck_services: bool = True,
) -> ManagerState:
    """Return the manager of a new master.

    Args:
        previous_status: Status written by the previous master.
        step: Step in which the process became master.
        imbalance_metric: Form of the imbalance.
        recheck_services: LRMs check in each round that services still run.
    """
    scheduling = step.observation.datacenter.scheduling
    if scheduling.mode != BASIC:
        step.log(log_events.SchedulerSelected(scheduling.mode))
    return ManagerState(
        status=replace(previous_status, master=step.observation.node),
        scheduling=scheduling,
        uid_prefix=f"{step.observation.node}-{step.now}",
        imbalance_metric=imbalance_metric,
        recheck_services=recheck_services,
    )


def run_round(round_: ManagerRound) -> None:
    """Process all nodes and services once.

    Raises:
        HaError: The round failed; its effects so far remain.
    """
    changed = round_.nodes.differs_from(round_.step.observation.members)
    _read_lrm_statuses(round_)
    round_.nodes.update(round_.step.observation.members, round_.lrm_modes)
    if not round_.nodes.is_operational(round_.step.observation.node):
        round_.step.log(log_events.MasterOffline())
        return
    _update_scheduling(round_)
    files = round_.step.observation.require_files()
    round_.config = dict(files.services)
    texts = ConfigTexts(files.rules, files.groups)
    migrate_groups(round_, texts)
    if round_.disarm is None:
        _add_services(round_)
        _remove_services(round_)
    _count_services(round_)
    _update_rules(round_, texts, changed=changed)
    process_crm_commands(round_)
    deferred: Collection[ServiceId] | None = None
    if round_.disarm is None:
        balance(round_)
    else:
        deferred = process_disarm(round_, round_.disarm)
        if not deferred:
            return
    round_.disarmed = False
    _process_until_stable(
        round_, sorted(round_.services if deferred is None else deferred)
    )
    round_.write_status()


def _read_lrm_statuses(round_: ManagerRound) -> None:
    if not round_.nodes.states:
        return
    lrm_statuses = round_.step.observation.require_files().lrm_statuses
    for node in sorted(round_.nodes.states):
        lrm_status = lrm_statuses.get(node)
        round_.lrm_modes[node] = (lrm_status and lrm_status.mode) or LrmMode.ACTIVE
        if lrm_status is not None:
            for uid, code in lrm_status.results.items():
                round_.job_results.setdefault(uid, code)


def _update_scheduling(round_: ManagerRound) -> None:
    old, new = round_.state.scheduling, round_.scheduling
    if old is not None and old.mode != new.mode:
        round_.step.log(log_events.SchedulerSwitched(old.mode, new.mode))
    round_.set_state(replace(round_.state, scheduling=new))


def _add_services(round_: ManagerRound) -> None:
    for service, config in sorted(round_.config.items()):
        if service in round_.services or config.state == RequestedState.IGNORED:
            continue
        round_.step.log(log_events.ServiceAdded(service, config.node))
        state = (
            ServiceState.REQUEST_START
            if config.state == RequestedState.STARTED
            else ServiceState.REQUEST_STOP
        )
        round_.services[service] = ServiceStatus(
            state=state, node=config.node, uid=round_.new_uid()
        )


def _remove_services(round_: ManagerRound) -> None:
    for service in sorted(round_.services):
        config = round_.config.get(service)
        if config is not None and config.state != RequestedState.IGNORED:
            continue
        reason = RemovalReason.NO_CONFIG if config is None else RemovalReason.IGNORED
        round_.step.log(log_events.ServiceRemoved(service, reason))
        del round_.services[service]


def _count_services(round_: ManagerRound) -> None:
    round_.set_usage(
        create_usage_model(
            round_.scheduling.mode,
            round_.nodes.online_nodes(),
            round_.config,
            round_.step,
            round_.state.imbalance_metric,
        )
    )
    online, count = round_.online_nodes, round_.add_usage
    for service, status in sorted(round_.services.items()):
        count(service, locate_service(status, online))
    for service, config in sorted(round_.config.items()):
        if service not in round_.services and config.state == RequestedState.STARTED:
            current_node = config.node if config.node in round_.online_nodes else None
            round_.add_usage(service, ServiceLocations(current_node, running=True))


def _update_rules(round_: ManagerRound, texts: ConfigTexts, *, changed: bool) -> None:
    state = round_.state
    groups = read_groups(texts.groups).groups
    group_of = {s: c.group for s, c in round_.config.items() if c.group}
    for service, name in group_of.items():
        failback = name not in groups or groups[name].failback
        round_.config[service] = replace(round_.config[service], failback=failback)
    is_unchanged = (state.rules_text, state.groups_text) == (texts.rules, texts.groups)
    if state.rules is not None and is_unchanged and not changed:
        return
    rules = add_group_rules(read_rules(texts.rules), groups, group_of)
    nodes = sorted(round_.nodes.states)
    kept, dropped = drop_conflicting_rules(rules, len(nodes))
    for conflict in dropped:
        round_.step.log(log_events.RuleDropped(conflict.rule, conflict.detail))
    round_.rules = compile_rules(add_implied_rules(kept), nodes)
    round_.set_usage(round_.usage)
    round_.set_state(
        replace(
            state,
            rules=round_.rules,
            rules_text=texts.rules,
            groups_text=texts.groups,
        )
    )


def _process_until_stable(
    round_: ManagerRound, services: Collection[ServiceId]
) -> None:
    """Process *services* until no state changes."""
    is_changing = True
    while is_changing:
        changes = [_process_service(round_, service) for service in services]
        has_fenced = _fence_nodes(round_)
        is_changing = any(changes) or has_fenced


def _process_service(round_: ManagerRound, service: ServiceId) -> bool:
    """Run the handler of *service* and return True if its state changed."""
    before = round_.services[service].state
    HANDLERS[before](round_, service)
    after = round_.services[service]
    if (
        after.state in RESTART_FREEZABLE_STATES
        and round_.lrm_modes.get(after.node) is LrmMode.RESTART
    ):
        round_.change_state(service, ServiceState.FREEZE)
    return round_.services[service].state is not before


def _fence_nodes(round_: ManagerRound) -> bool:
    """Fence lost nodes and return True if the fencing of any is complete."""
    is_fenced: dict[NodeId, bool] = {}
    for service, status in sorted(round_.services.items()):
        if status.state is not ServiceState.FENCE:
            continue
        if status.node not in is_fenced:
            is_fenced[status.node] = round_.nodes.fence(status.node)
        if is_fenced[status.node]:
            round_.change_state(service, ServiceState.RECOVERY)
    for node, state in sorted(round_.nodes.states.items()):
        if state is PveNodeState.FENCE and node not in is_fenced:
            round_.step.log(log_events.FencedWithoutServices(node))
            is_fenced[node] = round_.nodes.fence(node)
    return any(is_fenced.values())
