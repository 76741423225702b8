"""Reader and writer of resources.cfg, the services of the HA manager."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from opendrs.config.diagnostics import Diagnostic
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

NUMBER = re.compile(r"[1-9]\d{2,8}", re.ASCII)  # guest number (VMID) of Proxmox VE
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
ENABLED = "enabled"  # deprecated synonym of started


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfig:
    """Settings of a service in resources.cfg, which does not contain its node.

    Attributes:
        state: Requested state.
        group: Its group, in a cluster without rules.
        failback: The service returns to a preferred node once one is available.
        max_restart: Retries of a failed start on the same node.
        max_relocate: Other nodes that are tried after failed starts.
        comment: Comment of the operator.
    """

    state: RequestedState = RequestedState.STARTED
    group: str | None = None
    failback: bool = True
    max_restart: int = 1
    max_relocate: int = 1
    comment: str | None = None

    def to_service_config(self, node: NodeId, lock: str | None = None) -> ServiceConfig:
        """Return the configuration of the service on *node* with the lock *lock*."""
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
    """The services of a file, in order, and warnings about skipped content."""

    resources: Mapping[ServiceId, ResourceConfig] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()


def read_resources(text: str) -> ResourceFile:
    """Return the services of *text*. Invalid content is skipped with a warning.

    If a service occurs twice, the later section counts.
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
    """Yield the properties that differ from their defaults, and the state."""
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
