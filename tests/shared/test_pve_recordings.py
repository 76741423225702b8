"""Recorded answers of Proxmox VE, replayed to client and reading one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import GuestId, NodeAffinity, NodeId
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox.client import ProxmoxClient
from opendrs.platforms.proxmox.cluster_view import recent_history
from opendrs.platforms.proxmox.errors import (
    ApiRequestError,
    LoginRejectedError,
    MissingPrivilegeError,
    NodeUnavailableError,
)
from opendrs.platforms.proxmox.ha import (
    HaView,
    ha_rules,
    parse_auto_rebalance,
    parse_ha_status,
)
from opendrs.platforms.proxmox.login import read_login
from opendrs.platforms.proxmox.permissions import parse_permissions
from opendrs.platforms.proxmox.preconditions import parse_preconditions
from opendrs.platforms.proxmox.responses import (
    ApiRow,
    ClusterRow,
    GuestRow,
    HaResourceRow,
    HaRuleRow,
    LogRow,
    NodeHistoryRow,
    ResourceRow,
    TaskRow,
    TaskStatusRow,
    VersionRow,
    parse_row,
    parse_rows,
)
from opendrs.platforms.proxmox.tasks import Upid, log_detail
from support.pve_player import Pair, PvePlayer
from support.pve_recordings import (
    LAB_LOGIN,
    certificate,
    player,
    server,
    settings,
)

__all__ = ["certificate", "player", "server", "settings"]  # fixtures
pytestmark = pytest.mark.shared

ERRORS: dict[int, type[PlatformError]] = {
    400: ApiRequestError,
    401: LoginRejectedError,
    403: MissingPrivilegeError,
    500: ApiRequestError,
    501: UnsupportedError,
    **dict.fromkeys(range(595, 600), NodeUnavailableError),
}


def parser(model: type[ApiRow]) -> Callable[[Any], object]:
    return lambda data: parse_rows(model, data, "test")


READERS: tuple[tuple[str, Callable[[Any], object]], ...] = (
    (r"/version", lambda data: parse_row(VersionRow, data, "test")),
    (r"/cluster/status", parser(ClusterRow)),
    (r"/cluster/resources", parser(ResourceRow)),
    (r"/cluster/tasks|/nodes/[^/]+/tasks", parser(TaskRow)),
    (r"/cluster/ha/resources", parser(HaResourceRow)),
    (r"/cluster/ha/rules", parser(HaRuleRow)),
    (r"/cluster/options", lambda data: parse_auto_rebalance(data, "test")),
    (r"/cluster/ha/status/manager_status", lambda data: parse_ha_status(data, "test")),
    (r"/access/permissions", parse_permissions),
    (r"/nodes/[^/]+/rrddata", parser(NodeHistoryRow)),
    (r"/nodes/[^/]+/(qemu|lxc)", parser(GuestRow)),
    (r"/nodes/[^/]+/(qemu|lxc)/\d+/migrate", lambda d: parse_preconditions(d, "test")),
    (
        r"/nodes/[^/]+/tasks/UPID[^/]+/status",
        lambda data: parse_row(TaskStatusRow, data, "test"),
    ),
    (r"/nodes/[^/]+/tasks/UPID[^/]+/log", parser(LogRow)),
)


def is_playable(pair: Pair) -> bool:
    """Return True for what the client could send: no answers to other programs."""
    return pair.status != 0 and pair.method in ("GET", "POST", "PUT", "DELETE")


def test_client_understands_each_recorded_answer(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    client = ProxmoxClient(settings, read_login("lab", settings))

    for pair in filter(is_playable, player.recording.pairs):
        player.exact = pair
        outcome: object
        try:
            outcome = client.send(pair.method, pair.path, pair.params)
        except PlatformError as error:
            outcome = error
        assert_understood(pair, outcome)
    client.close()


def assert_understood(pair: Pair, outcome: object) -> None:
    if pair.status == 200:
        assert not isinstance(outcome, PlatformError), (pair, outcome)
        assert outcome == pair.data
        return
    expected = ERRORS.get(pair.status, UnexpectedResponseError)
    if pair.status == 500 and "no quorum" in pair.reason:
        expected = PlatformUnavailableError
    assert type(outcome) is expected, (pair, outcome)
    assert " ".join(pair.reason.split())[:60] in str(outcome)
    assert LAB_LOGIN.partition("=")[2] not in str(outcome)
    if isinstance(outcome, MissingPrivilegeError) and "(/" in pair.reason:
        assert f"({outcome.path}, {outcome.privileges})" in pair.reason
    if isinstance(outcome, ApiRequestError) and '"errors"' in pair.text:
        assert outcome.parameters.keys() == json.loads(pair.text)["errors"].keys()


def test_reading_understands_each_recorded_answer(player: PvePlayer) -> None:
    for pair in player.recording.pairs:
        if pair.method != "GET" or pair.status != 200:
            continue
        for pattern, read in READERS:
            if re.fullmatch(pattern, pair.path):
                rows = understood(read, pair.data)
                if isinstance(pair.data, list):
                    assert isinstance(rows, tuple)
                    assert_values_kept(pair.data, rows)


def understood(read: Callable[[Any], object], data: object) -> object:
    """Return what *read* makes of *data*; another formatter gives other shapes."""
    try:
        return read(data)
    except UnexpectedResponseError:
        assert data is None or isinstance(data, dict)
        return None


def assert_values_kept(data: list[dict[str, Any]], rows: tuple[ApiRow, ...]) -> None:
    assert len(rows) == len(data)
    for raw, row in zip(data, rows, strict=True):
        known = row.model_dump(by_alias=True)
        for key in raw.keys() & known.keys():
            if raw[key] is None:
                continue
            assert known[key] is not None, (key, raw[key])
            same = (raw[key], str(raw[key]), str(int(known[key] is True)))
            assert known[key] in same or str(raw[key]) in same


def test_tasks_are_parsed_from_each_started_task(player: PvePlayer) -> None:
    for pair in player.recording.pairs:
        if pair.method == "POST" and pair.status == 200 and "UPID" in pair.text:
            upid = Upid.parse(pair.data)

            assert upid.node in pair.path
            assert upid.id in pair.path


def reads(player: PvePlayer, pattern: str) -> list[Pair]:
    """Return the successful reads of paths that match *pattern*."""
    return [
        pair
        for pair in player.recording.pairs
        if (pair.method, pair.status) == ("GET", 200)
        and re.fullmatch(pattern, pair.path)
        and isinstance(json.loads(pair.text), dict)
        and pair.text.startswith('{"data"')
    ]


def test_preconditions_exclude_the_nodes_that_have_content(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    for pair in reads(player, r"/nodes/[^/]+/(qemu|lxc)/\d+/migrate"):
        known = parse_preconditions(pair.data, "test")
        raw = {key.replace("-", "_"): value for key, value in pair.data.items()}
        entries, allowed = raw.get("not_allowed_nodes", {}), raw.get("allowed_nodes")

        for node in {*entries, *(allowed or ())}:
            excluded = bool(entries.get(node)) or node not in (allowed or (node,))
            assert (known.target_blocker(node, settings) is not None) is excluded
        for disk in raw.get("local_disks", ()):
            assert disk["volid"] in {*known.local_disks, *known.local_media}
        for device in raw.get("local_resources", ()):
            assert device in " ".join(known.blockers)


def test_history_averages_rows_with_figures_only(player: PvePlayer) -> None:
    for pair in reads(player, r"/nodes/[^/]+/rrddata"):
        rows = parse_rows(NodeHistoryRow, pair.data, "test")
        found = recent_history(rows, 300)
        times = [row["time"] for row in pair.data if "time" in row]
        recent = [
            float(row["cpu"])
            for row in pair.data
            if row.get("cpu") is not None and row["time"] > max(times) - 300
        ]

        assert len(found) == len(recent)
        assert all(row.cpu is not None for row in found)
        if recent:
            assert fmean(row.cpu or 0 for row in found) == pytest.approx(fmean(recent))


def test_log_of_a_failed_task_names_the_cause(player: PvePlayer) -> None:
    for pair in reads(player, r"/nodes/[^/]+/tasks/UPID[^/]+/log"):
        lines = [str(row.get("t")) for row in pair.data]
        detail = log_detail(parse_rows(LogRow, pair.data, "test"))

        for line in lines:
            cause = re.search(r"ERROR: migration aborted \([^)]*\): (.+)", line)
            if cause is not None:
                assert cause[1].strip() in detail
        assert not detail.startswith(("no content", "unable to open file"))
        assert "builtin::blessed" not in detail


def test_enabled_rules_keep_their_members_nodes_and_strictness(
    player: PvePlayer,
) -> None:
    for pair in reads(player, "/cluster/ha/rules"):
        rows = parse_rows(HaRuleRow, pair.data, "test")
        members = {sid for row in rows for sid in (row.resources or "").split(",")}
        nodes = {
            NodeId(word.partition(":")[0])
            for row in rows
            for word in (row.nodes or "").split(",")
        }
        guests = {sid: GuestId(sid) for sid in members}

        found = {
            rule.name: rule for rule in ha_rules(HaView(rules=rows), guests, nodes)
        }

        enabled = {raw["rule"]: raw for raw in pair.data if not raw.get("disable")}
        assert found.keys() == enabled.keys()
        for name, raw in enabled.items():
            rule = found[name]
            assert rule.origin
            if isinstance(rule, NodeAffinity):
                assert rule.strict is bool(int(raw.get("strict", 0)))
                assert {f"{node}:{rank}" for node, rank in rule.nodes.items()} == {
                    word if ":" in word else f"{word}:0"
                    for word in raw["nodes"].split(",")
                }


def test_automatic_rebalancing_is_on_only_where_the_options_say_so(
    player: PvePlayer,
) -> None:
    for pair in reads(player, "/cluster/options"):
        scheduler = pair.data.get("crs", {})

        is_on = parse_auto_rebalance(pair.data, "test")

        assert is_on is (str(scheduler.get("ha-auto-rebalance", 0)) == "1")
