"""Placement rules from the configuration of instances, projects and members.

An instance or a profile has keys `user.opendrs.*`:

- `user.opendrs.affinity = web` places all instances with this word on one member,
  `user.opendrs.anti-affinity = web` on different members. The words belong to the
  project; several are separated by commas.
- `user.opendrs.soft-affinity` and `user.opendrs.soft-anti-affinity` are preferences.
- `user.opendrs.nodes = n1,@fast` places it on these members or cluster groups.
- `user.opendrs.pin = true` keeps it on its member.
- `user.opendrs.priority = high` is its priority: low, normal, high or a number.
- `user.opendrs.tags = a,b` are its tags.

Incus itself restricts projects to cluster groups, keeps instances in the group to which
they were started, and excludes members from scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opendrs.model import (
    GuestId,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
)
from opendrs.platforms.incus.mobility import RESTRICTED, SCHEDULED, SCHEDULER
from opendrs.platforms.incus.responses import Instance, Member, Project
from opendrs.platforms.incus.values import guest_id, is_true
from opendrs.rules import (
    keyed_group_rules,
    keyed_node_rules,
    keyed_priorities,
    pin_rules,
    words_of,
)

PREFIX = "user.opendrs."
_PIN = f"{PREFIX}pin"
_PRIORITY = f"{PREFIX}priority"


def key_words(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the words of the key `user.opendrs.KEY`, separated by commas or spaces."""
    return words_of(config.get(PREFIX + key, ""))


def platform_rules(
    instances: Sequence[Instance],
    members: Sequence[Member],
    projects: Mapping[str, Project],
) -> tuple[Rule, ...]:
    """Return all rules that Incus has, each with its origin.

    Args:
        instances: The managed instances.
        members: All members.
        projects: The projects that can be read, by name.
    """
    pinned = (
        guest_id(each.key)
        for each in instances
        if is_true(each.expanded_config.get(_PIN))
    )
    return (
        *keyed_group_rules(
            (
                (guest_id(each.key), each.project, each.expanded_config)
                for each in instances
            ),
            PREFIX,
        ),
        *keyed_node_rules(
            (
                (guest_id(each.key), key_words(each.expanded_config, "nodes"))
                for each in instances
            ),
            ((NodeId(each.server_name), each.groups) for each in members),
            f"{PREFIX}nodes",
        ),
        *pin_rules(pinned, _PIN),
        *keyed_priorities(
            (
                (guest_id(each.key), each.expanded_config.get(_PRIORITY, ""))
                for each in instances
            ),
            _PRIORITY,
        ),
        *_project_rules(instances, members, projects),
        *_cluster_group_rules(instances, members),
        *_scheduler_rules(instances, members),
    )


def _project_rules(
    instances: Iterable[Instance],
    members: Sequence[Member],
    projects: Mapping[str, Project],
) -> Iterator[Rule]:
    for name, project in sorted(projects.items()):
        groups = project.config.get("restricted.cluster.groups", "")
        if not is_true(project.config.get(RESTRICTED)) or not groups:
            continue
        guests = {guest_id(each.key) for each in instances if each.project == name}
        allowed = {group.strip() for group in groups.split(",")}
        nodes = [m.server_name for m in members if allowed.intersection(m.groups)]
        origin = f"restricted.cluster.groups of the project {name}"
        if rule := _affinity_to(guests, nodes, f"groups of project {name}", origin):
            yield rule


def _cluster_group_rules(
    instances: Iterable[Instance], members: Sequence[Member]
) -> Iterator[Rule]:
    """Yield the groups to which instances were started with --target=@GROUP."""
    groups: dict[str, set[GuestId]] = {}
    for instance in instances:
        if group := instance.config.get("volatile.cluster.group", ""):
            groups.setdefault(group, set()).add(guest_id(instance.key))
    for group, guests in sorted(groups.items()):
        nodes = [member.server_name for member in members if group in member.groups]
        name = f"cluster group {group}"
        if rule := _affinity_to(guests, nodes, name, "volatile.cluster.group"):
            yield rule


def _scheduler_rules(
    instances: Iterable[Instance], members: Sequence[Member]
) -> Iterator[Rule]:
    """Yield rules that leave members alone that are not scheduled automatically."""
    excluded = {
        member.server_name
        for member in members
        if member.config.get(SCHEDULER, SCHEDULED) != SCHEDULED
    }
    if not excluded:
        return
    origin = f"{SCHEDULER} of {', '.join(sorted(excluded))}"
    there = {guest_id(each.key) for each in instances if each.location in excluded}
    if there:
        yield Pin(guests=frozenset(there), name="not scheduled", origin=origin)
    elsewhere = {
        guest_id(each.key) for each in instances if each.location not in excluded
    }
    nodes = [m.server_name for m in members if m.server_name not in excluded]
    if rule := _affinity_to(elsewhere, nodes, "scheduled members", origin):
        yield rule


def _affinity_to(
    guests: Iterable[GuestId], nodes: Iterable[str], name: str, origin: str
) -> Rule | None:
    """Return a strict node affinity; None without guests.

    Without nodes the guests stay: the rule pins them.
    """
    chosen, priorities = frozenset(guests), {NodeId(node): 0 for node in nodes}
    if not chosen:
        return None
    if not priorities:
        return Pin(guests=chosen, name=name, origin=origin)
    return NodeAffinity(guests=chosen, nodes=priorities, name=name, origin=origin)
