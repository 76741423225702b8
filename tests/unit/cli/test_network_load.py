"""Plans that count the network traffic of guests of libvirt and Incus."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import tomli_w

from support.howto_pages import HowToPage
from support.incus_documents import (
    double,
    instance,
    metrics,
    network_metrics,
    resources,
    state,
)
from support.incus_double import CallMoment, IncusDouble, TlsFiles
from support.libvirt_double import DomainDouble, HostDouble, connect_to
from support.terminal import RunOpendrs

GIB = 1 << 30
MEGABYTES = 1e6  # per second
CAPACITY = "8 Gbit/s"  # 1,000 MB/s
BALANCED = {"name": "network", "weight": 1.0}
LIMITED = {"name": "network", "threshold": 0.5}
NIC = {"eth0": {"type": "nic", "network": "br0"}}
OPEN = "opendrs.platforms.libvirt.client.open_connection"
SAMPLE_AGE = "opendrs.platforms.incus.observation.MIN_SAMPLE_AGE"


def plan_of(
    opendrs: RunOpendrs, table: dict[str, Any], load: dict[str, Any]
) -> dict[str, Any]:
    document = {
        "platform": {"lab": table},
        "policy": {"name": "balance"},
        "limits": {"migrate_local_disks": True, "loads": [load]},
        "store": {"path": "record.sqlite"},
    }
    Path("opendrs.toml").write_text(tomli_w.dumps(document))
    result = opendrs("plan", "lab", "--config", "opendrs.toml", "--format", "json")
    assert result.status == 0, result
    found: dict[str, Any] = json.loads(result.out)
    return found


def moves(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["guest"], step["target"]) for step in plan["steps"]]


def skipped(plan: dict[str, Any]) -> dict[str, str]:
    return {
        guest: each["reason"] for each in plan["skipped"] for guest in each["guests"]
    }


def libvirt_table(
    monkeypatch: pytest.MonkeyPatch, *hosts: HostDouble, **changes: object
) -> dict[str, Any]:
    pytest.importorskip("libvirt")
    monkeypatch.setattr(OPEN, connect_to(*hosts))
    nodes = {each.host: f"qemu+ssh://root@{each.host}/system" for each in hosts}
    return {"kind": "libvirt", "nodes": nodes, "sample": 0.2, **changes}


def assert_balanced(plan: dict[str, Any]) -> None:
    """Assert that one of the two guests with all of the traffic leaves their node."""
    assert plan["reason"] == "improves-balance", plan
    assert plan["before"]["highest_network"] == pytest.approx(0.6, abs=0.06)
    assert plan["after"]["highest_network"] == pytest.approx(0.3, abs=0.03)
    assert plan["steps"][0]["guest"].startswith("web")


def test_libvirt_balances_the_traffic_of_guests(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = [DomainDouble(f"web{i}", traffic=300 * MEGABYTES) for i in (1, 2)]
    idle = [DomainDouble(f"idle{i}") for i in (1, 2)]
    hosts = (HostDouble("h1", web), HostDouble("h2", idle))
    table = libvirt_table(monkeypatch, *hosts, network_capacity=CAPACITY)

    plan = plan_of(opendrs, table, BALANCED)

    assert_balanced(plan)


@pytest.mark.parametrize("capacity", [{"network_capacity": CAPACITY}, {}])
def test_libvirt_guest_does_not_come_to_a_node_above_the_threshold(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    capacity: dict[str, str],
) -> None:
    # By its memory, h2 is the best target. Its traffic is 60 % of its capacity.
    large = [DomainDouble(f"large{i}", GIB // 2) for i in (1, 2)]
    busy = DomainDouble("busy", GIB // 16, 600 * MEGABYTES)
    small = DomainDouble("small", GIB // 8)
    hosts = (
        HostDouble("h1", large),
        HostDouble("h2", [busy]),
        HostDouble("h3", [small]),
    )
    table = libvirt_table(monkeypatch, *hosts, **capacity)

    plan = plan_of(opendrs, table, LIMITED)

    targets = {to for _, to in moves(plan)}
    assert targets, plan
    assert ("h2" in targets) is not bool(capacity)


def test_libvirt_guest_without_counters_is_skipped_and_its_node_no_target(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = [
        DomainDouble("large1", GIB // 2, traffic=None),
        DomainDouble("large2", GIB // 2),
    ]
    unknown = DomainDouble("unknown", GIB // 16, traffic=None)
    hosts = (
        HostDouble("h1", large),
        HostDouble("h2", [unknown]),
        HostDouble("h3", [DomainDouble("small")]),
    )
    table = libvirt_table(monkeypatch, *hosts, network_capacity=CAPACITY)

    plan = plan_of(opendrs, table, LIMITED)

    assert moves(plan) == [("large2", "h3")], plan
    assert skipped(plan) == {"large1": "metrics-missing", "unknown": "metrics-missing"}
    assert any("no targets: h1, h2" in each for each in plan["notes"]), plan["notes"]


@pytest.mark.parametrize("kind", ["libvirt", "incus"])
def test_configuration_of_the_howto_is_valid(opendrs: RunOpendrs, kind: str) -> None:
    pytest.importorskip("libvirt")
    first, loads = map(tomllib.loads, HowToPage(f"{kind}.md").blocks("toml"))
    table = first["platform"]["lab"] | loads["platform"]["lab"]
    document = {"platform": {"lab": table}, "limits": loads["limits"]}
    Path("opendrs.toml").write_text(tomli_w.dumps(document))

    result = opendrs("check", "opendrs.toml")

    assert result.status == 0, result
    assert table["network_capacity"] == "20 Gbit/s"


class CountingIncus:
    """Incus cluster whose counters go on with time.

    Args:
        traffic: Bytes per second of each instance.
    """

    def __init__(self, **traffic: tuple[str, float]) -> None:
        self.traffic = traffic
        instances = (
            instance(
                name,
                location,
                expanded_devices={**instance(name)["expanded_devices"], **NIC},
            )
            for name, (location, _) in traffic.items()
        )
        self.cluster: IncusDouble = double(*instances)
        self.cluster.on_call = self.count

    def count(self, request: str, moment: CallMoment) -> None:
        if "/1.0/metrics" not in request or moment is CallMoment.AFTER:
            return
        now = monotonic()
        for member in self.cluster.metrics:
            self.cluster.metrics[member] = "".join(
                metrics(name, seconds=1 + now / 10)
                + network_metrics(name, {"lo": 7, "enp5s0": int(rate * now)})
                for name, (location, rate) in self.traffic.items()
                if location == member
            )


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path)


@pytest.fixture(autouse=True)
def short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SAMPLE_AGE, 0.2)


def incus_tables(
    cluster: IncusDouble, tls: TlsFiles, **changes: object
) -> Iterator[dict[str, Any]]:
    with tls.serve(cluster) as url:
        yield {
            "kind": "incus",
            "urls": [url],
            "certificate": "client.crt",
            "key": "client.key",
            "fingerprint": tls.fingerprint(),
            **changes,
        }


def test_incus_balances_the_traffic_of_instances(
    opendrs: RunOpendrs, tls: TlsFiles
) -> None:
    web = ("h1", 300 * MEGABYTES)
    incus = CountingIncus(web1=web, web2=web, idle=("h2", 0.0), other=("h3", 0.0))
    settings = {"network_capacity": CAPACITY, "sample": 0.2}

    for table in incus_tables(incus.cluster, tls, **settings):
        plan = plan_of(opendrs, table, BALANCED)

    assert_balanced(plan)


@pytest.mark.parametrize("capacity", [{"network_capacity": CAPACITY}, {}])
def test_incus_instance_does_not_come_to_a_member_above_the_threshold(
    opendrs: RunOpendrs, tls: TlsFiles, capacity: dict[str, str]
) -> None:
    # By its memory, h2 is the best target. Its traffic is 60 % of its capacity.
    incus = CountingIncus(
        large=("h1", 0.0), other=("h1", 0.0), busy=("h2", 600 * MEGABYTES)
    )
    for name, used in {"h1": 0.9, "h2": 0.1, "h3": 0.2}.items():
        incus.cluster.states[name] = state(used=used)
        incus.cluster.resources[name] = resources(used=used)

    for table in incus_tables(incus.cluster, tls, sample=0.2, **capacity):
        plan = plan_of(opendrs, table, LIMITED)

    targets = {to for _, to in moves(plan)}
    assert targets, plan
    assert ("h2" in targets) is not bool(capacity)


def test_incus_instance_with_one_reading_is_skipped(
    opendrs: RunOpendrs, tls: TlsFiles
) -> None:
    web = ("h1", 300 * MEGABYTES)
    incus = CountingIncus(web1=web, web2=web, idle=("h2", 0.0))

    for table in incus_tables(incus.cluster, tls, network_capacity=CAPACITY):
        plan = plan_of(opendrs, table, BALANCED)

    assert skipped(plan) == dict.fromkeys(
        ("web1", "web2", "idle"), "metrics-missing"
    ), plan
    assert any("no targets: h1, h2" in each for each in plan["notes"]), plan["notes"]
