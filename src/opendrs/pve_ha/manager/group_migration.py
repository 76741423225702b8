"""Conversion of groups to rules, once all nodes support rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.config.rules import (
    Group,
    add_group_rules,
    format_rules,
    read_groups,
    read_rules,
)
from opendrs.pve_ha.effects import DeleteGroups, LeaveGroup, WriteRules
from opendrs.pve_ha.manager.manager_round import ManagerRound
from opendrs.pve_ha.observation import HaError
from opendrs.pve_ha.states import LrmMode, LrmState

RETRY_ROUNDS = 6  # between two attempts
VERSION = re.compile(r"(\d+)\.(\d+)[.-](\d+)(?:~(\d+))?")
MIN_VERSION = (9, 0, 0)
MIN_REVISION = 16
MIN_VERSION_TEXT = "9.0.0~16"


class NodeNotReadyError(HaError):
    """A node is not ready for the conversion."""


@dataclass(slots=True)
class ConfigTexts:
    """Texts of the rules and groups files during the round."""

    rules: str
    groups: str


def migrate_groups(round_: ManagerRound, texts: ConfigTexts) -> None:
    """Convert groups to rules, if there are groups and an attempt is due."""
    groups = read_groups(texts.groups).groups
    if not groups:
        return
    countdown = round_.state.rounds_until_migration - 1
    if countdown <= 0:
        countdown = RETRY_ROUNDS
        _try_migration(round_, texts, groups)
    round_.set_state(replace(round_.state, rounds_until_migration=countdown))


def needs_upgrade(version: str) -> bool:
    """Return True if pve-manager *version* does not support rules."""
    match = VERSION.match(version)
    if match is None:
        return True
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    if numbers != MIN_VERSION:
        return numbers < MIN_VERSION
    return match[4] is not None and int(match[4]) < MIN_REVISION


def _try_migration(
    round_: ManagerRound, texts: ConfigTexts, groups: Mapping[str, Group]
) -> None:
    log = round_.step.log
    log(log_events.GroupMigrationStarted())
    try:
        _check_nodes(round_)
    except NodeNotReadyError as error:
        log(log_events.GroupMigrationAborted(str(error)))
        log(log_events.GroupMigrationFailed())
        log(log_events.GroupMigrationPostponed(RETRY_ROUNDS, 10 * RETRY_ROUNDS))
        return
    _write_rules(round_, texts, groups)
    _leave_groups(round_, groups)
    texts.groups = ""
    round_.step.emit(DeleteGroups())
    log(log_events.GroupsDeleted())
    log(log_events.GroupMigrationSucceeded())


def _check_nodes(round_: ManagerRound) -> None:
    if not round_.step.observation.quorate:
        raise NodeNotReadyError("cluster is not quorate")
    if not round_.nodes.states:
        raise NodeNotReadyError("node list is empty")
    for node in sorted(round_.nodes.states):
        _check_node(round_, node)
        _check_lrm(round_, node)
        _check_version(round_, node)


def _check_node(round_: ManagerRound, node: NodeId) -> None:
    round_.step.log(log_events.GroupMigrationNode(node, round_.nodes.state_of(node)))
    if not round_.nodes.is_online(node):
        raise NodeNotReadyError(f"node '{node}' is not online")


def _check_lrm(round_: ManagerRound, node: NodeId) -> None:
    lrm_status = round_.step.observation.require_files().lrm_statuses.get(node)
    if lrm_status is None or lrm_status.state is None or lrm_status.mode is None:
        raise NodeNotReadyError(f"could not retrieve state for lrm '{node}'")
    round_.step.log(
        log_events.GroupMigrationLrm(node, lrm_status.state, lrm_status.mode)
    )
    active_count = round_.step.observation.require_files().status.active_service_count(
        node
    )
    is_idle = lrm_status.state is LrmState.WAIT_FOR_AGENT_LOCK and not active_count
    if lrm_status.state is not LrmState.ACTIVE and not is_idle:
        raise NodeNotReadyError(f"lrm '{node}' is not in state 'active' or 'idle'")
    if lrm_status.mode is not LrmMode.ACTIVE:
        raise NodeNotReadyError(f"lrm '{node}' is not in mode 'active'")


def _check_version(round_: ManagerRound, node: NodeId) -> None:
    version = round_.step.observation.metrics.versions.get(node)
    if version is None:
        raise NodeNotReadyError(f"could not retrieve version for node '{node}'")
    round_.step.log(log_events.GroupMigrationVersion(node, version))
    if needs_upgrade(version):
        raise NodeNotReadyError(
            f"node '{node}' needs at least pve-manager version '{MIN_VERSION_TEXT}'"
        )


def _write_rules(
    round_: ManagerRound, texts: ConfigTexts, groups: Mapping[str, Group]
) -> None:
    group_of = {s: c.group for s, c in round_.config.items() if c.group}
    texts.rules = format_rules(
        add_group_rules(read_rules(texts.rules), groups, group_of)
    )
    round_.step.emit(WriteRules(texts.rules))
    round_.step.log(log_events.GroupRulesWritten())


def _leave_groups(round_: ManagerRound, groups: Mapping[str, Group]) -> None:
    for service, config in sorted(round_.config.items()):
        if config.group:
            group = groups.get(config.group)
            failback = config.failback if group is None else group.failback
            round_.step.emit(LeaveGroup(service, failback))
            round_.config[service] = replace(config, group=None, failback=failback)
    round_.step.log(log_events.GroupsRemovedFromServices())
