"""Translation of the sections `proxmox_api` and `proxmox_cluster`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

from opendrs.config.diagnostics import Diagnostic, DiagnosticCode, KeyPath
from opendrs.config.proxlb.schema import ApiSection, ClusterSection
from opendrs.config.proxlb.translation import Translation, present_settings
from opendrs.escapes import repr_value

_HOST = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9.\-]*)(?::(?P<port>\d{1,5}))?")
_BRACKETS = re.compile(r"\[(?P<name>[0-9A-Fa-f:.]+)\](?::(?P<port>\d{1,5}))?")


def translate_api(api: ApiSection, result: Translation, *, trusted: bool) -> None:
    """Add the connection to *result*.

    Args:
        api: The section.
        result: The translation; hosts that are not valid are added to its problems.
        trusted: Whether the operator named the certificates to trust.
    """
    result.platform["hosts"] = list(_hosts(api, result))
    if api.token_secret is not None:
        result.secret = ("token", f"{api.user}!{api.token_id}={api.token_secret}")
    else:
        result.platform["user"] = api.user
        result.secret = ("password", api.password or "")
    secret = f"{result.secret[0]}_file"
    for name, path in present_settings(api, "proxmox_api"):
        match name:
            case "hosts":
                result.taken(path, "hosts")
            case "user" if api.token_secret is None:
                result.taken(path, "user")
            case "user" | "token_id" | "token_secret" | "password":
                result.taken(path, secret)
            case "ssl_verification":
                _verification(api, path, result, trusted=trusted)
            case "timeout":
                result.platform["timeout"] = api.timeout
                result.taken(path, f"timeout = {api.timeout}")
            case "retries" | "wait_time":
                detail = (
                    "a request that reads is sent once to each host, or twice to the "
                    "only one; nothing is to be set"
                )
                result.differs(path, "", detail)


def _hosts(api: ApiSection, result: Translation) -> Iterator[str]:
    for index, text in enumerate(api.hosts):
        if (host := _host(text)) is not None:
            yield host
            continue
        message = (
            "expected a name or an address, with a port or without, got "
            f"{repr_value(text)}"
        )
        path = ("proxmox_api", "hosts", index)
        code = DiagnosticCode.INVALID_VALUE
        result.problems.append(Diagnostic(path, message, code=code))


def _verification(
    api: ApiSection, path: KeyPath, result: Translation, *, trusted: bool
) -> None:
    if trusted:
        detail = "certificates are verified by the authority or fingerprint given"
        if api.ssl_verification:
            result.taken(path, "", detail)
        else:
            result.differs(path, "", detail)
    elif api.ssl_verification:
        result.taken(path, "", "by the system trust store")
    else:
        detail = (
            "certificates are always verified; repeat the import with --fingerprint, "
            "as shown by pvenode cert info on each host, or with --ca pve-root-ca.pem"
        )
        result.unsupported(path, detail)


def _host(text: str) -> str | None:
    """Return a host of ProxLB as that of OpenDRS; None if it is not valid.

    In an IPv6 address without brackets, a decimal number after the last colon is the
    port if the rest is an address.
    """
    if (match := _BRACKETS.fullmatch(text)) is not None:
        name = match["name"] if _is_ipv6(match["name"]) else None
    elif text.count(":") > 1:
        head, _, tail = text.rpartition(":")
        if tail.isdecimal() and _is_ipv6(head):
            return _host(f"[{head}]:{tail}")
        return f"[{text}]" if _is_ipv6(text) else None
    else:
        match = _HOST.fullmatch(text)
        name = match and match["name"]
    if not name or match is None or not 0 < int(match["port"] or 1) <= 65_535:
        return None
    return text


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def translate_cluster(cluster: ClusterSection, result: Translation) -> None:
    """Add nodes and guests out of service to *result*."""
    for name, path in present_settings(cluster, "proxmox_cluster"):
        match name:
            case "maintenance_nodes":
                for index, node in _in_both(cluster):
                    message = f"{node} is in ignore_nodes as well; name it in one list"
                    at = (*path, index)
                    code = DiagnosticCode.INCONSISTENT
                    result.problems.append(Diagnostic(at, message, code=code))
                detail = "the next plan moves their guests away (goal repair)"
                nodes = cluster.maintenance_nodes
                _nodes("maintenance_nodes", nodes, path, detail, result)
            case "maintenance_nodes_schedule":
                if not cluster.maintenance_nodes_schedule.schedules:
                    result.taken(path, "", "no schedule: nothing is to be set")
                    continue
                detail = (
                    "maintenance has no schedule; add the node to maintenance_nodes "
                    "for the time, and restart opendrs run"
                )
                result.unsupported(path, detail)
            case "ignore_nodes":
                detail = "their state is excluded: guests stay, and no others arrive"
                _nodes("ignored_nodes", cluster.ignore_nodes, path, detail, result)
            case "ignore_guests":
                translate_ignored_guests(cluster.ignore_guests, path, result)
            case "overprovisioning":
                _overprovisioning(cluster, path, result)


def _nodes(
    setting: str, nodes: Sequence[str], path: KeyPath, detail: str, result: Translation
) -> None:
    if nodes:
        result.platform[setting] = list(nodes)
        result.taken(path, setting, detail)
    else:
        result.taken(path, "", "no node: nothing is to be set")


def _in_both(cluster: ClusterSection) -> Iterator[tuple[int, str]]:
    for index, node in enumerate(cluster.maintenance_nodes):
        if node in cluster.ignore_nodes:
            yield index, repr_value(node)


def _overprovisioning(
    cluster: ClusterSection, path: KeyPath, result: Translation
) -> None:
    result.limits["memory_overcommit"] = 1.0
    target = "limits.memory_overcommit = 1.0"
    if cluster.overprovisioning:
        result.taken(path, target)
        return
    detail = (
        "no guest migrates to a node whose memory its guests could exhaust; increase "
        "the limit to allow that"
    )
    result.differs(path, target, detail)


def translate_ignored_guests(
    guests: tuple[str, ...], path: KeyPath, result: Translation
) -> None:
    """Add a rule that pins *guests* to *result*."""
    if not guests:
        result.taken(path, "", "no guest: nothing is to be set")
        return
    result.rules.append(
        {
            "kind": "pin",
            "guests": sorted({*guests}),
            "name": "ignored guests",
            "origin": "ignore_guests of ProxLB",
        }
    )
    detail = "full names of guests; a name that no guest has is an error of the plan"
    result.differs(path, "rules: pin", detail)
