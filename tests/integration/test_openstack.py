"""Rebalancing on real Nova: observe, plan, apply, abort and recover."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import eventually
from integration.nova_exporters import WINDOW, monitored
from integration.nova_lab import CLOUD, HOSTS, NovaLab
from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Usage,
)
from opendrs.platforms.openstack import KIND, connection
from opendrs.ports import TaskState

pytestmark = [pytest.mark.shared, pytest.mark.lab]

OPENDRS = Path(sys.executable).with_name("opendrs")
H1, H2, H3 = (NodeId(host) for host in HOSTS)


@dataclass
class Operator:
    """An operator at the command line, with a configuration of the lab."""

    lab: NovaLab
    home: Path
    prometheus: str
    limits: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        platform = {
            "kind": "openstack",
            "cloud": CLOUD,
            "clouds_file": str(self.lab.clouds_file),
            "load": {
                "url": self.prometheus,
                "exporters": ["openstack"],
                "window": WINDOW,
                "max_age": 30.0,
            },
        }
        document = {
            "platform": {"nova": platform},
            "policy": {"name": "balance", "balance": {"threshold": 0.3}},
            "limits": {"min_uptime": 0.0, **self.limits},
            "store": {"path": str(self.home / "record.sqlite")},
        }
        (self.home / "opendrs.toml").write_text(tomli_w.dumps(document))

    def command(self, *words: str) -> list[str]:
        return [str(OPENDRS), *words, "--config", str(self.home / "opendrs.toml")]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own command
            self.command(*words),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "100"},
        )

    def plan(self) -> dict[str, Any]:
        done = self.run("plan", "nova", "--format", "json")
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    def apply(self) -> tuple[int, str]:
        done = self.run("apply", "nova", "--yes")
        return done.returncode, done.stdout + done.stderr


def move(guest: GuestId, source: NodeId, target: NodeId) -> LiveMigration:
    return LiveMigration(guest, source, target)


def ended(lab: NovaLab, action: LiveMigration, **settings: Any) -> TaskState:  # noqa: ANN401
    """Start *action* and return the state at its end."""
    platform = lab.platform(**settings)
    task = platform.start(action)
    state = TaskState.RUNNING

    def over() -> bool:
        nonlocal state
        state = platform.status(task).state
        return state is not TaskState.RUNNING

    eventually(over, 30, f"{task} ends")
    return state


def test_load_of_prometheus_is_balanced_within_server_groups(
    nova: NovaLab, tmp_path: Path
) -> None:
    apart = nova.group("anti-affinity", "apart")
    busy = [nova.boot(f"busy{n}", vcpus=2) for n in range(2)]
    member = nova.boot("member", vcpus=2, group=apart)
    other = nova.boot("other", HOSTS[1], group=apart)
    idle = nova.boot("idle")
    load = dict.fromkeys((*busy, member), 1.6) | {other: 0.05, idle: 0.05}
    with monitored(nova, load, tmp_path) as url:
        operator = Operator(nova, tmp_path, url)
        plan = operator.plan()
        status, output = operator.apply()

    assert plan["reason"] == "improves-balance"
    assert plan["before"]["imbalance"] > 0.3 >= plan["after"]["imbalance"]
    moved = {step["guest"] for step in plan["steps"]}
    assert moved <= {*busy, member}
    assert status == 0, output
    assert nova.host_of(member) != nova.host_of(other)
    assert len({nova.host_of(guest) for guest in (*busy, member)}) == 3
    assert nova.host_of(idle) == HOSTS[0]


def test_balance_keeps_server_groups(each_nova: NovaLab, tmp_path: Path) -> None:
    lab = each_nova
    together, apart = lab.group("affinity"), lab.group("anti-affinity")
    pairs = lab.group("anti-affinity", max_server_per_host=2)
    near, far = lab.group("soft-affinity"), lab.group("soft-anti-affinity")
    load = {
        lab.boot("together0", group=together): 0.2,
        lab.boot("together1", group=together): 0.2,
        lab.boot("apart0", vcpus=2, group=apart): 1.6,
        lab.boot("apart1", HOSTS[1], group=apart): 0.1,
        lab.boot("pairs0", vcpus=2, group=pairs): 1.2,
        lab.boot("pairs1", vcpus=2, group=pairs): 1.2,
        lab.boot("pairs2", HOSTS[2], group=pairs): 0.1,
        lab.boot("pairs3", HOSTS[2], group=pairs): 0.1,
        lab.boot("near0", HOSTS[1], group=near): 0.1,
        lab.boot("near1", HOSTS[1], group=near): 0.1,
        lab.boot("far0", vcpus=2, group=far): 1.2,
        lab.boot("far1", HOSTS[2], group=far): 0.1,
    }
    with monitored(lab, load, tmp_path) as url:
        operator = Operator(lab, tmp_path, url)
        plan = operator.plan()
        status, output = operator.apply()

    snapshot = lab.platform().observe()
    node_of = {name.split("/")[0]: g.node for name, g in snapshot.guests.items()}
    kinds = Counter((type(rule), rule.strict) for rule in snapshot.rules)  # type: ignore[union-attr]
    assert status == 0, output
    assert plan["steps"]
    assert plan["after"]["imbalance"] < plan["before"]["imbalance"]
    assert kinds == {
        (Affinity, True): 1,
        (Affinity, False): 1,
        (AntiAffinity, True): 2,  # one allows two servers on a host
        (AntiAffinity, False): 1,
    }
    assert node_of["together0"] == node_of["together1"] == H1
    assert node_of["apart0"] != node_of["apart1"]
    assert max(Counter(node_of[f"pairs{n}"] for n in range(4)).values()) <= 2
    assert node_of["near0"] == node_of["near1"]
    assert node_of["far0"] != node_of["far1"]


def test_plan_does_not_use_host_with_disabled_service(
    nova: NovaLab, tmp_path: Path
) -> None:
    guests = [nova.boot(f"busy{n}", vcpus=2) for n in range(2)]
    nova.disable(HOSTS[1])
    with monitored(nova, dict.fromkeys(guests, 1.6), tmp_path) as url:
        plan = Operator(nova, tmp_path, url).plan()

    assert {step["target"] for step in plan["steps"]} == {HOSTS[2]}


def test_optimize_drains_host_with_disabled_service(
    each_nova: NovaLab, tmp_path: Path
) -> None:
    guests = [each_nova.boot(f"vm{n}") for n in range(3)]
    each_nova.disable(HOSTS[0])
    load = dict.fromkeys(guests, 0.3)

    node = each_nova.platform().observe().nodes[H1]
    with monitored(each_nova, load, tmp_path) as url:
        operator = Operator(each_nova, tmp_path, url)
        done = operator.run("apply", "nova", "--yes", "--policy", "optimize")

    assert node.state is NodeState.MAINTENANCE
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each_nova.host_of(guest) for guest in guests} == {HOSTS[1], HOSTS[2]}
    back = move(guests[0], NodeId(each_nova.host_of(guests[0])), H1)
    with pytest.raises(PlatformError, match=r"No valid host|is failed|is error"):
        require_done(each_nova, back)


def require_done(lab: NovaLab, action: LiveMigration) -> None:
    """Raise `PlatformError` with the reason if *action* does not succeed."""
    platform = lab.platform()
    task = platform.start(action)
    eventually(
        lambda: platform.status(task).state is not TaskState.RUNNING, 30, "it ends"
    )
    status = platform.status(task)
    if status.state is not TaskState.DONE:
        raise PlatformError(status.detail)


def test_forced_down_host_is_offline_and_its_guests_unknown(nova: NovaLab) -> None:
    guest = nova.boot("vm")
    nova.force_down(HOSTS[0])

    snapshot = nova.platform().observe()

    assert snapshot.nodes[H1].state is NodeState.OFFLINE
    assert snapshot.nodes[H2].online
    assert not snapshot.guests[guest].uptime


def test_snapshot_has_no_load_and_limits_of_placement(nova: NovaLab) -> None:
    guest = nova.boot("vm", vcpus=2)

    snapshot = nova.platform().observe()

    node = snapshot.nodes[H1]
    assert node.usage == snapshot.guests[guest].usage == Usage()
    assert node.allocation.cpu_ratio == 4.0
    assert node.allocation.reserved_memory == 512 << 20
    assert node.failure_domain == "nova"
    assert snapshot.guests[guest].limit is not None


def test_server_groups_are_rules_that_nova_enforces(each_nova: NovaLab) -> None:
    together = each_nova.group("affinity")
    pairs = each_nova.group("anti-affinity", "pairs", max_server_per_host=2)
    a, b = (each_nova.boot(name, group=together) for name in "ab")
    members = [each_nova.boot(f"p{n}", HOSTS[n // 2], group=pairs) for n in range(4)]

    snapshot = each_nova.platform().observe()

    kinds = {type(rule): rule.origin for rule in snapshot.rules}
    assert kinds.keys() == {Affinity, AntiAffinity}
    assert all("server group" in origin for origin in kinds.values())
    assert {snapshot.guests[each].mobility for each in (a, b)} == {Mobility.NONE}
    parts = [rule.guests for rule in snapshot.rules if isinstance(rule, AntiAffinity)]
    assert sorted(guest for part in parts for guest in part) == sorted(members)
    with pytest.raises(PlatformError, match="No valid host"):
        require_done(each_nova, move(a, H1, H2))
    with pytest.raises(PlatformError, match="No valid host"):
        require_done(each_nova, move(members[0], H1, H2))
    require_done(each_nova, move(members[0], H1, H3))


def test_requested_zone_is_a_rule(nova: NovaLab) -> None:
    for zone, hosts in (("dc1", HOSTS[:2]), ("dc2", HOSTS[2:])):
        aggregate = nova.compute.create_aggregate(name=zone, availability_zone=zone)
        for host in hosts:
            nova.compute.add_host_to_aggregate(aggregate, host)
    pinned = nova.boot("pinned", availability_zone="dc1")
    free = nova.boot("free")

    snapshot = nova.platform().observe()

    (rule,) = snapshot.rules
    assert isinstance(rule, NodeAffinity)
    assert (set(rule.guests), set(rule.nodes)) == ({pinned}, {H1, H2})
    assert set(nova.platform(zones=("dc2",)).observe().nodes) == {H3}
    with pytest.raises(PlatformError, match="No valid host"):
        require_done(nova, move(pinned, H1, H3))
    require_done(nova, move(free, H1, H3))


def test_traits_and_aggregates_are_labels_and_required_traits_rules(
    nova: NovaLab,
) -> None:
    for host in HOSTS[:2]:
        nova.add_trait(host, "CUSTOM_SSD")
    aggregate = nova.compute.create_aggregate(name="fast")
    nova.compute.add_host_to_aggregate(aggregate, HOSTS[0])
    nova.compute.set_aggregate_metadata(aggregate, {"rack": "r1"})
    guest = nova.boot("vm", extra_specs={"trait:CUSTOM_SSD": "required"})

    snapshot = nova.platform().observe()

    (rule,) = snapshot.rules
    assert isinstance(rule, NodeAffinity)
    assert (set(rule.guests), set(rule.nodes)) == ({guest}, {H1, H2})
    assert snapshot.nodes[H1].labels >= {"CUSTOM_SSD", "rack=r1"}
    assert snapshot.nodes[H1].groups == {"fast"}
    with pytest.raises(PlatformError, match="No valid host"):
        require_done(nova, move(guest, H1, H3))
    require_done(nova, move(guest, H1, H2))


def test_apply_survives_rejected_migration(each_nova: NovaLab, tmp_path: Path) -> None:
    # The disks of a large and of a full server exceed that of a host, which policies
    # do not count.
    storages = each_nova.platform().observe().nodes[H1].storages or ()
    (size,) = (each.capacity for each in storages if each.capacity is not None)
    part = size // 10 // GIB
    large = [each_nova.boot(f"large{n}", vcpus=2, disk=4 * part) for n in range(2)]
    for host in HOSTS[1:]:
        each_nova.boot(f"full-{host}", host, disk=7 * part)
    with monitored(each_nova, dict.fromkeys(large, 1.6), tmp_path) as url:
        status, output = Operator(each_nova, tmp_path, url).apply()

    assert status == 3, output
    assert "No valid host" in " ".join(output.split())
    for guest in large:
        server = each_nova.compute.get_server(each_nova.uuid(guest))
        assert (server.compute_host, server.status) == (HOSTS[0], "ACTIVE")
        assert server.task_state is None


def test_rejected_migration_is_failed_with_the_reason(nova: NovaLab) -> None:
    large = nova.boot("large", disk=400)
    nova.boot("full", HOSTS[1], disk=700)
    platform = nova.platform()

    task = platform.start(move(large, H1, H2))
    eventually(
        lambda: platform.status(task).state is not TaskState.RUNNING, 20, "it ends"
    )

    status = platform.status(task)
    assert status.state is TaskState.FAILED
    assert "No valid host" in status.detail
    assert platform.find(move(large, H1, H2)) == task
    assert nova.host_of(large) == HOSTS[0]


def test_locked_servers_are_skipped(nova: NovaLab, tmp_path: Path) -> None:
    guests = [nova.boot(f"vm{n}") for n in range(2)]
    for guest in guests:
        nova.compute.lock_server(nova.uuid(guest), locked_reason="audit")

    with monitored(nova, dict.fromkeys(guests, 1.0), tmp_path) as url:
        plan = Operator(nova, tmp_path, url).plan()
    snapshot = nova.platform().observe()

    assert plan["steps"] == []
    assert {each["reason"] for each in plan["skipped"]} == {"guest-locked"}
    assert {snapshot.guests[each].lock for each in guests} == {
        "locked by its owner: audit"
    }


@pytest.mark.parametrize("version", [connection.MICROVERSIONS[0]])
def test_oldest_microversion_suffices(
    nova: NovaLab, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    monkeypatch.setattr(connection, "MICROVERSIONS", (version,))
    guest = nova.boot("vm")

    platform = nova.platform()
    require_done(nova, move(guest, H1, H2))

    assert platform.observe().guests[guest].node == H2


def test_apply_aborts_migration_after_timeout(
    each_nova: NovaLab, tmp_path: Path
) -> None:
    guests = [each_nova.boot(f"vm{n}") for n in range(2)]
    limits: dict[str, object] = {"migration_timeout": 1.0}
    with monitored(each_nova, dict.fromkeys(guests, 1.0), tmp_path) as url:
        status, output = Operator(each_nova, tmp_path, url, limits).apply()

    assert status == 3, output
    assert "timeout" in output
    assert {each_nova.host_of(guest) for guest in guests} == {HOSTS[0]}
    eventually(
        lambda: (
            {m["status"] for g in guests for m in each_nova.migrations(g)}
            == {"cancelled"}
        ),
        30,
        "the migrations are cancelled",
    )


def test_migration_that_takes_too_long_is_forced_to_complete(
    slow_nova: NovaLab,
) -> None:
    guest = slow_nova.boot("vm")

    state = ended(slow_nova, move(guest, H1, H2), force_complete_after=0.5)

    actions = slow_nova.compute.get(
        f"/servers/{slow_nova.uuid(guest)}/os-instance-actions", microversion="2.96"
    ).json()["instanceActions"]
    assert state is TaskState.DONE
    assert "live_migration_force_complete" in {each["action"] for each in actions}


def test_killed_apply_recovers_its_migration(
    each_nova: NovaLab, tmp_path: Path
) -> None:
    guests = [each_nova.boot(f"vm{n}") for n in range(2)]
    with monitored(each_nova, dict.fromkeys(guests, 1.0), tmp_path) as url:
        operator = Operator(each_nova, tmp_path, url)
        movers = killed_while_migrating(operator, guests)
        status, output = operator.apply()

    assert status == 0, output
    assert movers
    for mover in movers:
        assert mover in " ".join(output.split())
        assert [m["status"] for m in each_nova.migrations(mover)] == ["completed"]
        assert each_nova.host_of(mover) != HOSTS[0]


def killed_while_migrating(
    operator: Operator, guests: list[GuestId]
) -> tuple[GuestId, ...]:
    """Kill an `apply` once a guest is migrating; return those that it started."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "nova", "--yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(
            lambda: any(operator.lab.migrations(guest) for guest in guests),
            30,
            "a guest is migrating",
        )
    finally:
        process.kill()
        process.wait()
    return tuple(guest for guest in guests if operator.lab.migrations(guest))


def test_frozen_nova_is_unavailable_after_timeout(nova: NovaLab) -> None:
    platform = nova.platform(timeout=3.0)
    platform.observe()
    nova.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(PlatformUnavailableError):
            platform.observe()
    finally:
        nova.process.send_signal(signal.SIGCONT)


def test_online_check_of_administrator_succeeds(nova: NovaLab) -> None:
    assert KIND.check_online is not None
    guest = nova.boot("vm")

    settings = nova.settings(force_complete_after=60.0)
    checks = list(KIND.check_online("nova", settings))

    assert [check for check in checks if not check.ok] == []
    assert nova.migrations(guest) == []  # the checks have started nothing
    assert {"login", "Nova", "permission to abort a live migration"} <= {
        each.subject for each in checks
    }


def test_connect_writes_configuration_that_shows_the_cloud(
    nova: NovaLab, tmp_path: Path
) -> None:
    nova.boot("web")

    def run(answers: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own command
            [str(OPENDRS), *words],
            input=answers,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    answers = f"{CLOUD}\n{nova.clouds_file}\n\ny\n"
    connected = run(answers, "connect", "openstack", "--name", "prod")
    checked = run("", "check", "opendrs.toml", "--online")
    shown = run("", "show", "prod", "--config", "opendrs.toml", "--format", "json")

    assert connected.returncode == 0, connected.stdout + connected.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert shown.returncode == 0, shown.stderr
    assert all(f'"{host}"' in shown.stdout for host in HOSTS)
