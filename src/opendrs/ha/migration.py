"""Turning groups into rules, once every node can read these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from opendrs.ha import events
from opendrs.ha.commands import DeleteGroups, LeaveGroup, WriteRules
from opendrs.ha.observation import HaError
from opendrs.ha.round import Round
from opendrs.ha.rules import (
    Group,
    group_rules,
    read_groups,
    read_rules,
    rules_text,
)
from opendrs.ha.states import LrmMode, LrmState
from opendrs.model import NodeId

ROUNDS = 6  # between two attempts
VERSION = re.compile(r"(\d+)\.(\d+)[.-](\d+)(?:~(\d+))?")
LEAST = (9, 0, 0)
LEAST_REVISION = 16
LEAST_SHOWN = "9.0.0~16"


class NotYetError(HaError):
    """A node is not ready."""


@dataclass(slots=True)
class Texts:
    """The files of rules and groups, as they stand in this round."""

    rules: str
    groups: str


def migrate_groups(round_: Round, texts: Texts) -> None:
    """Turn groups into rules, if there are groups and it is time to."""
    groups = read_groups(texts.groups).groups
    if not groups:
        return
    countdown = round_.memory.until_migration - 1
    if countdown <= 0:
        countdown = ROUNDS
        _attempt(round_, texts, groups)
    round_.remember(replace(round_.memory, until_migration=countdown))


def needs_upgrade(version: str) -> bool:
    """Return whether a node that runs *version* cannot read rules."""
    match = VERSION.match(version)
    if match is None:
        return True
    numbers = (int(match[1]), int(match[2]), int(match[3]))
    if numbers != LEAST:
        return numbers < LEAST
    return match[4] is not None and int(match[4]) < LEAST_REVISION


def _attempt(round_: Round, texts: Texts, groups: Mapping[str, Group]) -> None:
    say = round_.turn.say
    say(events.GroupsBegun())
    try:
        _check(round_)
    except NotYetError as why:
        say(events.GroupsAborted(str(why)))
        say(events.GroupsFailed())
        say(events.GroupsLater(ROUNDS, 10 * ROUNDS))
        return
    _write_rules(round_, texts, groups)
    _leave_groups(round_, groups)
    texts.groups = ""
    round_.turn.do(DeleteGroups())
    say(events.GroupsDeleted())
    say(events.GroupsDone())


def _check(round_: Round) -> None:
    if not round_.turn.seen.quorate:
        raise NotYetError("cluster is not quorate")
    if not round_.nodes.states:
        raise NotYetError("node list is empty")
    for node in sorted(round_.nodes.states):
        _check_node(round_, node)
        _check_agent(round_, node)
        _check_version(round_, node)


def _check_node(round_: Round, node: NodeId) -> None:
    round_.turn.say(events.GroupsNode(node, round_.nodes.state(node)))
    if not round_.nodes.is_online(node):
        raise NotYetError(f"node '{node}' is not online")


def _check_agent(round_: Round, node: NodeId) -> None:
    report = round_.turn.seen.readable_files().reports.get(node)
    if report is None or report.state is None or report.mode is None:
        raise NotYetError(f"could not retrieve state for lrm '{node}'")
    round_.turn.say(events.GroupsAgent(node, report.state, report.mode))
    busy = round_.turn.seen.readable_files().status.active_services(node)
    idle = report.state is LrmState.WAIT_FOR_AGENT_LOCK and not busy
    if report.state is not LrmState.ACTIVE and not idle:
        raise NotYetError(f"lrm '{node}' is not in state 'active' or 'idle'")
    if report.mode is not LrmMode.ACTIVE:
        raise NotYetError(f"lrm '{node}' is not in mode 'active'")


def _check_version(round_: Round, node: NodeId) -> None:
    version = round_.turn.seen.measurements.versions.get(node)
    if version is None:
        raise NotYetError(f"could not retrieve version for node '{node}'")
    round_.turn.say(events.GroupsVersion(node, version))
    if needs_upgrade(version):
        raise NotYetError(
            f"node '{node}' needs at least pve-manager version '{LEAST_SHOWN}'"
        )


def _write_rules(round_: Round, texts: Texts, groups: Mapping[str, Group]) -> None:
    group_of = {s: c.group for s, c in round_.config.items() if c.group}
    texts.rules = rules_text(group_rules(read_rules(texts.rules), groups, group_of))
    round_.turn.do(WriteRules(texts.rules))
    round_.turn.say(events.GroupRulesWritten())


def _leave_groups(round_: Round, groups: Mapping[str, Group]) -> None:
    for service, config in sorted(round_.config.items()):
        if config.group:
            group = groups.get(config.group)
            failback = config.failback if group is None else group.failback
            round_.turn.do(LeaveGroup(service, failback))
            round_.config[service] = replace(config, group=None, failback=failback)
    round_.turn.say(events.GroupsLeft())
