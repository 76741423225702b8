"""The kind `libvirt` of platforms: its settings, checks, and questions of `connect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opendrs.config import Diagnostic, KeyPath
from opendrs.config.platform_kinds import PlatformKind, Questioner
from opendrs.config.plausibility import check_bandwidth
from opendrs.platforms.libvirt.checks import check_online
from opendrs.platforms.libvirt.client import load_library
from opendrs.platforms.libvirt.platform import LOCAL, LibvirtPlatform
from opendrs.platforms.libvirt.settings import LibvirtSettings


def ask(questioner: Questioner) -> dict[str, object]:
    """Return the table of a cluster from the answers of the operator."""
    nodes: dict[str, str] = {}
    peers: dict[str, str] = {}
    while name := questioner.text("Name of a node (empty: no more)"):
        nodes[name], peers[name] = _ask_uris(questioner, name)
    table: dict[str, object] = {"nodes": nodes}
    if any(peers.values()):
        table["migration_uris"] = {node: uri for node, uri in peers.items() if uri}
    shared = questioner.text("Directory of disks that all nodes share (empty: none)")
    if shared:
        table["shared_storage"] = [shared]
    return table


def _ask_uris(questioner: Questioner, name: str) -> tuple[str, str]:
    """Return the URIs of a node for this machine, and for the other nodes.

    The second one is empty if it is the same.
    """
    uri = questioner.text(f"URI of {name}", default=f"qemu+ssh://root@{name}/system")
    # A local URI leads to another host when another node uses it.
    same = "required" if LOCAL in uri else "empty: the same"
    return uri, questioner.text(f"URI at which other nodes reach {name} ({same})")


def check_settings(at: KeyPath, settings: LibvirtSettings) -> Iterator[Diagnostic]:
    """Yield the values that are plausible for no cluster."""
    if settings.bandwidth is not None:
        yield from check_bandwidth((*at, "bandwidth"), settings.bandwidth)


def _nodes(settings: LibvirtSettings) -> Mapping[str, str]:
    return settings.nodes


KIND = PlatformKind(
    settings_type=LibvirtSettings,
    create=LibvirtPlatform,
    nodes=_nodes,
    check=check_settings,
    require_library=load_library,
    check_online=check_online,
    ask=ask,
)
