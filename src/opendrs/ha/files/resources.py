"""The services that Proxmox VE's resources.cfg hands to the HA manager."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from opendrs.ha.documents import ServiceConfig
from opendrs.ha.identifiers import CONTAINER, VIRTUAL_MACHINE, ServiceId
from opendrs.ha.rules.reading import comment, flag
from opendrs.ha.rules.sections import (
    Kind,
    SectionType,
    escaped,
    read_sections,
    section_text,
)
from opendrs.ha.states import Requested
from opendrs.model import NodeId

NUMBER = re.compile(r"[1-9]\d{2,8}", re.ASCII)  # what Proxmox VE numbers guests by
GUEST = SectionType(
    {
        "state": Kind.STATE,
        "group": Kind.NAME,
        "failback": Kind.FLAG,
        "max_restart": Kind.COUNT,
        "max_relocate": Kind.COUNT,
        "comment": Kind.TEXT,
    },
    names=NUMBER,
)
TYPES: Mapping[str, SectionType] = MappingProxyType(
    {VIRTUAL_MACHINE: GUEST, CONTAINER: GUEST}
)
ENABLED = "enabled"  # what was said before there was started


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What resources.cfg says of a service; it does not say where that is.

    Attributes:
        state: What is wanted of it.
        group: Its group, in a cluster that has no rules yet.
        failback: Whether it goes to a better node once there is one.
        max_restart: How often an agent tries to start it again.
        max_relocate: How many other nodes are tried when it does not start.
        comment: The operator's words.
    """

    state: Requested = Requested.STARTED
    group: str | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    comment: str | None = None

    def at(self, node: NodeId, lock: str | None = None) -> ServiceConfig:
        """Return it as the HA manager sees it on *node*, locked for *lock*."""
        return ServiceConfig(
            node=node,
            state=self.state,
            failback=self.failback,
            max_restart=self.max_restart,
            max_relocate=self.max_relocate,
            group=self.group,
            lock=lock,
        )


USUAL = Resource()


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """The services of a file, in order, and what was passed over in it."""

    resources: Mapping[ServiceId, Resource] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_resources(text: str) -> ResourceFile:
    """Return the services of *text*; what cannot be understood is left out.

    Of a service that stands twice the later section counts.
    """
    found = read_sections(text, TYPES)
    resources = {
        ServiceId(f"{section.kind}:{section.name}"): _resource(section.properties)
        for section in found.sections
        if section.properties is not None
    }
    return ResourceFile(resources, tuple(found.warnings))


def resources_text(resources: Mapping[ServiceId, Resource]) -> str:
    """Return *resources* as the text of a file, in their order."""
    return "".join(
        section_text(kind, number, _properties(resource))
        for service, resource in resources.items()
        for kind, _, number in [service.partition(":")]
    )


def _resource(said: Mapping[str, str]) -> Resource:
    state = said.get("state", USUAL.state)
    return Resource(
        state=Requested.STARTED if state == ENABLED else Requested(state),
        group=said.get("group"),
        failback=flag(said, "failback") is not False,
        max_restart=int(said.get("max_restart", USUAL.max_restart)),
        max_relocate=int(said.get("max_relocate", USUAL.max_relocate)),
        comment=comment(said),
    )


def _properties(resource: Resource) -> Iterator[str]:
    """Yield what differs from the usual, and always the state."""
    if resource.comment:
        yield f"comment {escaped(resource.comment)}"
    if not resource.failback:
        yield "failback 0"
    if resource.group is not None:
        yield f"group {resource.group}"
    if resource.max_relocate != USUAL.max_relocate:
        yield f"max_relocate {resource.max_relocate}"
    if resource.max_restart != USUAL.max_restart:
        yield f"max_restart {resource.max_restart}"
    yield f"state {resource.state}"
