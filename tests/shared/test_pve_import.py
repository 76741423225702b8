"""Configurations of ProxLB on the double of Proxmox VE: import, check, show, plan."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pve_access import PASSWORD, SECRET, TOKEN_ID, USER
from support.pve_cluster import PveCluster, PveGuest
from support.pve_clusters import imbalanced_cluster
from support.pve_double import RunningDouble
from support.pve_fixtures import PVE_MARKS, Serve, passing_time, serve, with_guests
from support.terminal import CommandResult, RunOpendrs
from unit.cli.conftest import opendrs

__all__ = ["opendrs", "serve"]  # fixtures
pytestmark = PVE_MARKS
HOWTO = Path(__file__).parents[2] / "docs/how-to/from-proxlb.md"
VERSION_1 = """\
proxmox_api:
  hosts: ['{host}']
  user: {user}
  pass: {password}
  ssl_verification: 0
  timeout: 15

proxmox_cluster:
  maintenance_nodes: []
  ignore_nodes:
  overprovisioning: 1

balancing:
  enable: 1
  enforce_affinity: 1
  parallel: 0
  live: 1
  with_local_disks: 0
  balance_types: [vm]
  max_job_validation: 1200
  balanciness: 5
  method: memory
  mode: assigned

service:
  daemon: 1
  schedule:
    interval: 6
    format: hours
  log_level: INFO
"""


def sections(running: RunningDouble, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a configuration of ProxLB 2 for the double."""
    return {
        "proxmox_api": {
            "hosts": [server.host for server in running.servers],
            "user": USER,
            "token_id": TOKEN_ID,
            "token_secret": SECRET,
            "ssl_verification": True,
        },
        "balancing": {
            "enable": True,
            "enforce_affinity": True,
            "parallel": True,
            "parallel_jobs": 4,
            "balance_types": ["vm", "ct"],
            "balanciness": 5,
            "method": "memory",
            "mode": "assigned",
        },
        "service": {"schedule": {"interval": 20, "format": "minutes"}},
        **changes,
    }


def write(text: str) -> None:
    Path("proxlb.yaml").write_text(text, encoding="utf-8")


def import_sections(
    running: RunningDouble, opendrs: RunOpendrs, **changes: Mapping[str, Any]
) -> CommandResult:
    write(yaml.safe_dump(sections(running, **changes)))
    pin = ["--fingerprint", running.certificate.fingerprint]
    return opendrs("import", "proxlb", "proxlb.yaml", "--name", "lab", *pin)


def shown_rules(opendrs: RunOpendrs) -> dict[str, dict[str, Any]]:
    """Return the rules of the cluster by their origins."""
    result = opendrs("show", "lab", "--format", "json")
    assert result.status == 0, result.err
    rules = json.loads(result.out)["snapshot"]["rules"]
    return {rule["origin"]: rule for rule in rules}


def planned_steps(opendrs: RunOpendrs) -> list[dict[str, Any]]:
    result = opendrs("plan", "lab", "--format", "json")
    assert result.status == 0, result.err
    return json.loads(result.out)["steps"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", ["8.4.14", "9.1.2", "9.2.11"])
def test_imported_configuration_is_checked_and_planned(
    serve: Serve, opendrs: RunOpendrs, version: str
) -> None:
    running = serve(imbalanced_cluster(version, nodes=3, guests=24))

    imported = import_sections(running, opendrs)
    checked = opendrs("check", "opendrs.toml", "--online")
    steps = planned_steps(opendrs)

    assert (imported.status, checked.status) == (0, 0), imported.err + checked.out
    assert steps
    assert running.cluster.tasks == []
    assert SECRET not in imported.out + checked.out + checked.err


def test_imported_configuration_of_version_1_with_a_password_is_planned(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(imbalanced_cluster("8.4.14", nodes=3, guests=12))
    host = running.servers[0].host
    write(VERSION_1.format(host=host, user=USER, password=PASSWORD))
    pin = ["--fingerprint", running.certificate.fingerprint]

    imported = opendrs("import", "proxlb", "proxlb.yaml", "--name", "lab", *pin)
    checked = opendrs("check", "opendrs.toml", "--online")

    assert (imported.status, checked.status) == (0, 0), imported.err + checked.out
    assert Path("lab-password").stat().st_mode & 0o777 == 0o600
    assert planned_steps(opendrs)
    assert PASSWORD not in Path("opendrs.toml").read_text() + imported.out


def rule_cluster() -> PveCluster:
    return with_guests(
        PveGuest(100, "web1", "h1", tags="plb_anti_affinity_web;prod"),
        PveGuest(101, "web2", "h1", tags="plb_anti_affinity_web"),
        PveGuest(102, "app1", "h1", tags="plb_affinity_app"),
        PveGuest(103, "app2", "h2", tags="plb_affinity_app"),
        PveGuest(104, "licensed", "h2", tags="plb_pin_h2;plb_pin_h3"),
        PveGuest(105, "fixed", "h1", tags="plb_ignore_me"),
        PveGuest(106, "db1", "h2"),
        PveGuest(107, "db2", "h2"),
    )


def test_tags_and_pools_are_rules_and_are_repaired(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(rule_cluster())
    access = running.double.access
    access.pools = {"106": "db", "107": "db"}
    access.roles["Balancer"].add("Pool.Audit")
    pools = {"db": {"type": "anti-affinity", "pin": ["h2", "h3"]}}
    balancing = {**sections(running)["balancing"], "pools": pools}
    import_sections(running, opendrs, balancing=balancing)

    rules = shown_rules(opendrs)
    steps = planned_steps(opendrs)

    assert {
        "tag plb_anti_affinity_web",
        "tag plb_affinity_app",
        "tags plb_pin_*",
        "tag plb_ignore_me",
        "setting pools.db",
    } <= rules.keys()
    places = {guest.name: guest.node for guest in running.cluster.guests.values()}
    places |= {step["guest"]: step["target"] for step in steps}
    assert places["web1"] != places["web2"]
    assert places["app1"] == places["app2"]
    assert {places["db1"], places["db2"]} == {"h2", "h3"}
    assert places["fixed"] == "h1"


@pytest.mark.parametrize("granted", ["/pool", "/pool/db"])
def test_pools_with_rules_need_the_privilege_to_read_them(
    serve: Serve, opendrs: RunOpendrs, granted: str
) -> None:
    running = serve(rule_cluster())
    access = running.double.access
    access.pools = {"106": "db", "107": "db"}
    pools = {"pools": {"db": {"type": "anti-affinity"}}}
    import_sections(running, opendrs, balancing=pools)

    planned = opendrs("plan", "lab")
    checked = opendrs("check", "opendrs.toml", "--online")

    assert planned.status == 3
    assert "Pool.Audit on /pool missing" in planned.err
    assert checked.status == 1
    (remedy,) = [line for line in checked.out.splitlines() if "Pool.Audit &&" in line]
    for command in remedy.strip().split(" && "):
        access.pveum(command.replace("modify / ", f"modify {granted} "))
    checked = opendrs("check", "opendrs.toml", "--online")
    assert (checked.status, "pool db\tok\t2 guests" in checked.out) == (0, True)
    assert "setting pools.db" in shown_rules(opendrs)


def test_tags_of_proxlb_are_not_read_without_the_setting(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(rule_cluster())
    import_sections(running, opendrs)
    text = Path("opendrs.toml").read_text()
    Path("opendrs.toml").write_text(text.replace("proxlb_tags = true\n", ""))

    result = opendrs("show", "lab", "--format", "json")

    assert "rules" not in json.loads(result.out)["snapshot"]


def test_node_in_maintenance_is_drained_and_ignored_node_is_left_unchanged(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    guests = [
        PveGuest(100 + n, f"g{n}", node) for n, node in enumerate(["h1", "h2"] * 4)
    ]
    running = serve(with_guests(*guests))
    out_of_service = {"maintenance_nodes": ["h1"], "ignore_nodes": ["h2"]}

    import_sections(running, opendrs, proxmox_cluster=out_of_service)
    checked = opendrs("check", "opendrs.toml", "--online")
    moves = {step["guest"]: step["target"] for step in planned_steps(opendrs)}

    assert checked.status == 0, checked.out
    assert moves == dict.fromkeys(["g0", "g2", "g4", "g6"], "h3")


def test_online_check_names_unknown_nodes_in_settings(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))

    import_sections(running, opendrs, proxmox_cluster={"ignore_nodes": ["h7"]})
    checked = opendrs("check", "opendrs.toml", "--online", "--format", "json")

    failed = [each for each in json.loads(checked.out)["online"] if not each["ok"]]
    assert checked.status == 1
    assert [each["subject"] for each in failed] == ["ignored_nodes"]
    assert "h7" in failed[0]["detail"]


def commands() -> list[list[str]]:
    """Return the arguments of each opendrs command in the how-to."""
    text = HOWTO.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.split()[2:] for line in "".join(blocks).splitlines()]


@pytest.mark.slow
def test_each_command_of_the_howto_works_as_written(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(imbalanced_cluster("9.1.2", nodes=3, guests=12))
    before = max(Counter(g.node for g in running.cluster.guests.values()).values())
    write(yaml.safe_dump(sections(running)))
    running.certificate.write_authority(Path("pve-root-ca.pem"))

    with passing_time(running.cluster, 60.0):
        results = [opendrs(*arguments) for arguments in commands()]

    assert [result.status for result in results] == [0] * 5, results
    assert running.cluster.tasks
    assert all(task.status == "OK" for task in running.cluster.tasks)
    places = Counter(guest.node for guest in running.cluster.guests.values())
    assert max(places.values()) < before
