"""The services that Proxmox VE's resources.cfg hands to the HA manager."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha.config.section_config import (
    PropertyKind,
    SectionType,
    escape_comment,
    format_section,
    parse_comment,
    parse_flag,
    read_sections,
)
from opendrs.pve_ha.states import CONTAINER, VIRTUAL_MACHINE, RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig

NUMBER = re.compile(r"[1-9]\d{2,8}", re.ASCII)  # what Proxmox VE numbers guests by
GUEST_SECTION = SectionType(
    {
        "state": PropertyKind.STATE,
        "group": PropertyKind.NAME,
        "failback": PropertyKind.FLAG,
        "max_restart": PropertyKind.COUNT,
        "max_relocate": PropertyKind.COUNT,
        "comment": PropertyKind.TEXT,
    },
    names=NUMBER,
)
TYPES: Mapping[str, SectionType] = MappingProxyType(
    {VIRTUAL_MACHINE: GUEST_SECTION, CONTAINER: GUEST_SECTION}
)
ENABLED = "enabled"  # what was said before there was started


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfig:
    """What resources.cfg says of a service; it does not say where that is.

    Attributes:
        state: What is wanted of it.
        group: Its group, in a cluster that has no rules yet.
        failback: Whether it goes to a better node once there is one.
        max_restart: How often an agent tries to start it again.
        max_relocate: How many other nodes are tried when it does not start.
        comment: The operator's words.
    """

    state: RequestedState = RequestedState.STARTED
    group: str | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    comment: str | None = None

    def to_service_config(self, node: NodeId, lock: str | None = None) -> ServiceConfig:
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


DEFAULTS = ResourceConfig()


@dataclass(frozen=True, slots=True)
class ResourceFile:
    """The services of a file, in order, and what was passed over in it."""

    resources: Mapping[ServiceId, ResourceConfig] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_resources(text: str) -> ResourceFile:
    """Return the services of *text*; what cannot be understood is left out.

    Of a service that stands twice the later section counts.
    """
    file = read_sections(text, TYPES)
    resources = {
        ServiceId(f"{section.kind}:{section.name}"): _resource(section.properties)
        for section in file.sections
        if section.properties is not None
    }
    return ResourceFile(resources, tuple(file.warnings))


def format_resources(resources: Mapping[ServiceId, ResourceConfig]) -> str:
    """Return *resources* as the text of a file, in their order."""
    return "".join(
        format_section(kind, number, _properties(resource))
        for service, resource in resources.items()
        for kind, _, number in [service.partition(":")]
    )


def _resource(properties: Mapping[str, str]) -> ResourceConfig:
    state = properties.get("state", DEFAULTS.state)
    return ResourceConfig(
        state=RequestedState.STARTED if state == ENABLED else RequestedState(state),
        group=properties.get("group"),
        failback=parse_flag(properties, "failback") is not False,
        max_restart=int(properties.get("max_restart", DEFAULTS.max_restart)),
        max_relocate=int(properties.get("max_relocate", DEFAULTS.max_relocate)),
        comment=parse_comment(properties),
    )


def _properties(resource: ResourceConfig) -> Iterator[str]:
    """Yield what differs from the usual, and always the state."""
    if resource.comment:
        yield f"comment {escape_comment(resource.comment)}"
    if not resource.failback:
        yield "failback 0"
    if resource.group is not None:
        yield f"group {resource.group}"
    if resource.max_relocate != DEFAULTS.max_relocate:
        yield f"max_relocate {resource.max_relocate}"
    if resource.max_restart != DEFAULTS.max_restart:
        yield f"max_restart {resource.max_restart}"
    yield f"state {resource.state}"
