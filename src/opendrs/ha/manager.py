"""The master's work: one round of looking after nodes and services."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from opendrs.ha import events
from opendrs.ha.accounting import BASIC, usage_model
from opendrs.ha.balancing import balance
from opendrs.ha.disarm import hold_still
from opendrs.ha.documents import ManagerStatus, ServiceStatus
from opendrs.ha.handlers import HANDLERS
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.migration import Texts, migrate_groups
from opendrs.ha.places import Places, places_of
from opendrs.ha.requests import take_requests
from opendrs.ha.round import Manager, Round
from opendrs.ha.rules import (
    checked,
    compiled,
    group_rules,
    read_groups,
    read_rules,
    transformed,
)
from opendrs.ha.states import (
    LrmMode,
    NodeState,
    Removal,
    Requested,
    ServiceState,
)
from opendrs.ha.turn import Turn
from opendrs.model import NodeId
from opendrs.scoring import ImbalanceForm

FREEZABLE = frozenset(
    {ServiceState.STARTED, ServiceState.STOPPED, ServiceState.REQUEST_STOP}
)


def take_over(
    left: ManagerStatus, turn: Turn, form: ImbalanceForm, *, rechecks: bool = True
) -> Manager:
    """Return the manager of a new master.

    Args:
        left: What the last master told.
        turn: The turn in which the process became master.
        form: How uneven loads become one number.
        rechecks: Whether agents check in each round that services still run.
    """
    scheduling = turn.seen.datacenter.scheduling
    if scheduling.mode != BASIC:
        turn.say(events.SchedulerUsed(scheduling.mode))
    return Manager(
        status=replace(left, master=turn.seen.node),
        scheduling=scheduling,
        origin=f"{turn.seen.node}-{turn.now}",
        form=form,
        rechecks=rechecks,
    )


def hold_round(round_: Round) -> None:
    """Look after all nodes and services once.

    Raises:
        HaError: Something failed; what was done so far stays.
    """
    changed = round_.nodes.differs_from(round_.turn.seen.members)
    _hear_agents(round_)
    round_.nodes.update(round_.turn.seen.members, round_.modes)
    if not round_.nodes.is_operational(round_.turn.seen.node):
        round_.turn.say(events.MasterOffline())
        return
    _note_scheduling(round_)
    files = round_.turn.seen.readable_files()
    round_.config = dict(files.services)
    texts = Texts(files.rules, files.groups)
    migrate_groups(round_, texts)
    if round_.disarm is None:
        _add_services(round_)
        _drop_services(round_)
    _count_services(round_)
    _renew_rules(round_, texts, changed=changed)
    take_requests(round_)
    deferred: Collection[ServiceId] | None = None
    if round_.disarm is None:
        balance(round_)
    else:
        deferred = hold_still(round_, round_.disarm)
        if not deferred:
            return
    round_.disarmed = False
    _settle(round_, sorted(round_.services if deferred is None else deferred))
    round_.publish()


def _hear_agents(round_: Round) -> None:
    if not round_.nodes.states:
        return
    reports = round_.turn.seen.readable_files().reports
    for node in sorted(round_.nodes.states):
        report = reports.get(node)
        round_.modes[node] = (report and report.mode) or LrmMode.ACTIVE
        if report is not None:
            for uid, code in report.results.items():
                round_.results.setdefault(uid, code)


def _note_scheduling(round_: Round) -> None:
    old, new = round_.memory.scheduling, round_.scheduling
    if old is not None and old.mode != new.mode:
        round_.turn.say(events.SchedulerSwitched(old.mode, new.mode))
    round_.remember(replace(round_.memory, scheduling=new))


def _add_services(round_: Round) -> None:
    for service, config in sorted(round_.config.items()):
        if service in round_.services or config.state == Requested.IGNORED:
            continue
        round_.turn.say(events.ServiceAdded(service, config.node))
        state = (
            ServiceState.REQUEST_START
            if config.state == Requested.STARTED
            else ServiceState.REQUEST_STOP
        )
        round_.services[service] = ServiceStatus(
            state=state, node=config.node, uid=round_.fresh_uid()
        )


def _drop_services(round_: Round) -> None:
    for service in sorted(round_.services):
        config = round_.config.get(service)
        if config is not None and config.state != Requested.IGNORED:
            continue
        why = Removal.NO_CONFIG if config is None else Removal.IGNORED
        round_.turn.say(events.ServiceRemoved(service, why))
        del round_.services[service]


def _count_services(round_: Round) -> None:
    round_.use(
        usage_model(
            round_.scheduling.mode,
            round_.nodes.online(),
            round_.config,
            round_.turn,
            round_.memory.form,
        )
    )
    online, count = round_.online, round_.count
    for service, status in sorted(round_.services.items()):
        count(service, places_of(status, online))
    for service, config in sorted(round_.config.items()):
        if service not in round_.services and config.state == Requested.STARTED:
            here = config.node if config.node in round_.online else None
            round_.count(service, Places(here, running=True))


def _renew_rules(round_: Round, texts: Texts, *, changed: bool) -> None:
    memory = round_.memory
    groups = read_groups(texts.groups).groups
    group_of = {s: c.group for s, c in round_.config.items() if c.group}
    for service, name in group_of.items():
        failback = name not in groups or groups[name].failback
        round_.config[service] = replace(round_.config[service], failback=failback)
    known = (memory.rules_text, memory.groups_text) == (texts.rules, texts.groups)
    if memory.rules is not None and known and not changed:
        return
    rules = group_rules(read_rules(texts.rules), groups, group_of)
    nodes = sorted(round_.nodes.states)
    kept, dropped = checked(rules, len(nodes))
    for each in dropped:
        round_.turn.say(events.RuleDropped(each.rule, each.why))
    round_.rules = compiled(transformed(kept), nodes)
    round_.use(round_.usage)
    round_.remember(
        replace(
            memory,
            rules=round_.rules,
            rules_text=texts.rules,
            groups_text=texts.groups,
        )
    )


def _settle(round_: Round, services: Collection[ServiceId]) -> None:
    """Let services change state until none does any more."""
    going_on = True
    while going_on:
        changes = [_look_after(round_, service) for service in services]
        fenced = _fence(round_)
        going_on = any(changes) or fenced


def _look_after(round_: Round, service: ServiceId) -> bool:
    """Let *service* change state if it should, and return whether it did."""
    before = round_.services[service].state
    HANDLERS[before](round_, service)
    after = round_.services[service]
    if after.state in FREEZABLE and round_.modes.get(after.node) is LrmMode.RESTART:
        round_.change(service, ServiceState.FREEZE)
    return round_.services[service].state is not before


def _fence(round_: Round) -> bool:
    """Fence the nodes that are lost, and return whether any is certainly dead."""
    dead: dict[NodeId, bool] = {}
    for service, status in sorted(round_.services.items()):
        if status.state is not ServiceState.FENCE:
            continue
        if status.node not in dead:
            dead[status.node] = round_.nodes.fence(status.node)
        if dead[status.node]:
            round_.change(service, ServiceState.RECOVERY)
    for node, state in sorted(round_.nodes.states.items()):
        if state is NodeState.FENCE and node not in dead:
            round_.turn.say(events.FencedWithoutServices(node))
            dead[node] = round_.nodes.fence(node)
    return any(dead.values())
