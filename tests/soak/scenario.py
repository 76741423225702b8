"""Clusters, limits, rules and policies, drawn."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.policy_loading import build_policy
from opendrs.model import Limits, Network, NodeId, Protection
from opendrs.policies import Policy
from soak.cluster import GIB, Cluster, Guest, Rule, TrueHost
from soak.platform import ARRIVING, HIDDEN, UNKNOWN, FaultyPlatform

HOUR = 3600.0
AUTOMATIC = ControllerSettings(mode=Mode.AUTOMATIC)
POLICIES: dict[str, dict[str, object]] = {
    "balance": {"threshold": 0.05},
    "optimize": {"iterations_per_group": 50},
    "consolidate": {
        "manage_power": True,
        "detector": "last-n-average",
        "averaging_window": 2,
        "history_length": 12,
    },
    "pressure": {
        "cpu_pressure_threshold": 0.3,
        "memory_threshold": 0.6,
        "min_uptime": 60.0,
    },
    "auto-rebalance": {"hold": 1, "threshold": 0.1, "margin": 0.02},
    "threshold-rebalance": {"threshold": 0.1, "max_migrations": 3, "cooldown": 300.0},
}


@dataclass(frozen=True)
class SoakScenario:
    """Everything that is drawn for one episode, besides faults.

    Attributes:
        limits: The limits of the operator.
        policy: The name of the policy.
        interval: Seconds from one cycle to the next.
        pause: Mean seconds from one fault to the next.
        consent: What the configuration lets the controller start.
        protection: Protection of the cluster.
    """

    limits: Limits
    policy: str
    interval: float
    pause: float
    consent: ControllerSettings
    protection: Protection

    def build_policy(self, limits: Limits) -> Policy[Any]:
        """Return the policy, with these limits."""
        settings = POLICIES[self.policy]
        if self.policy in ("consolidate", "pressure"):
            settings = {**settings, "interval": self.interval}
        return build_policy(self.policy, settings, limits)


def draw_scenario(
    draw: random.Random, cluster: Cluster, policy: str | None, *, operated: bool
) -> tuple[SoakScenario, FaultyPlatform]:
    """Draw a scenario, fill *cluster*, and return what can be seen of it.

    Without operators, the controller starts its plans by itself.
    """
    hosts = _hosts(draw)
    cluster.hosts.update({host.name: host for host in hosts})
    limits = _limits(draw, list(cluster.hosts))
    for guest in _guests(draw, hosts):
        cluster.add(guest)
    cluster.rules = _rules(draw, cluster)
    chosen = policy or draw.choice(sorted(POLICIES))
    interval = draw.choice([60.0, 120.0, 300.0])
    pause = draw.choice([40.0, 120.0, 400.0])
    errors = draw.choice([0.0, 0.02, 0.08])
    platform = FaultyPlatform(
        cluster=cluster,
        draw=random.Random(draw.random()),  # noqa: S311 - no secret
        errors=errors,
        slow=errors / 2,
        unreachable_guests=draw.choice([HIDDEN, UNKNOWN, ARRIVING]),
        lag=draw.choice([0.0, 0.0, 3.0]),
        period=draw.choice([0.0, 0.0, 10.0, 30.0]),
    )
    scenario = SoakScenario(
        limits,
        chosen,
        interval,
        pause,
        consent=_consent(draw, cluster, interval, chosen) if operated else AUTOMATIC,
        protection=Protection(
            undo_horizon=draw.choice([1800.0, HOUR, 4 * HOUR]),
            max_failures=draw.choice([5, 20]) if operated else 1000,
        ),
    )
    return scenario, platform


def _consent(
    draw: random.Random, cluster: Cluster, interval: float, policy: str
) -> ControllerSettings:
    """Draw what the configuration lets the controller start."""
    restricted = {policy: draw.choice([Mode.OBSERVE, Mode.ADVISE])}
    return ControllerSettings(
        interval=interval,
        mode=draw.choice([Mode.ADVISE, Mode.ADVISE, Mode.AUTOMATIC, Mode.AUTOMATIC]),
        repair=draw.choice([Mode.ADVISE, Mode.AUTOMATIC]),
        policy_modes=restricted if draw.random() < 0.1 else {},
        advise_tags=("slow",) if draw.random() < 0.3 else (),
        advise_guests=tuple(draw.sample(sorted(cluster.guests), 2)),
        approval_time=draw.choice([600.0, HOUR]),
        automatic_guests=tuple(draw.sample(sorted(cluster.guests), 2)),
    )


def _hosts(draw: random.Random) -> list[TrueHost]:
    return [
        TrueHost(
            f"h{number}",
            cpu=draw.choice([8.0, 16.0]),
            memory=draw.choice([48, 64, 96]) * GIB,
            own=2 * GIB,
        )
        for number in range(1, draw.randint(3, 6) + 1)
    ]


def _limits(draw: random.Random, hosts: list[str]) -> Limits:
    half = tuple(map(NodeId, hosts[: len(hosts) // 2]))
    networks = (
        Network(name="uplink", nodes=half, max_parallel_migrations=draw.randint(1, 2)),
    )
    return Limits(
        memory_headroom=draw.choice([0.0, 0.05, 0.2]),
        memory_overcommit=draw.choice([1.0, 1.0, 1.2, 1.5]),
        max_migrations_per_node=draw.choice([1, 1, 2, 3]),
        max_parallel_migrations=draw.randint(1, 4),
        cooldown=draw.choice([120.0, 300.0, 900.0]),
        min_uptime=draw.choice([0.0, 60.0, 300.0]),
        migration_timeout=draw.choice([90.0, 300.0, 600.0]),
        networks=networks if draw.random() < 0.5 else (),
    )


def _guests(draw: random.Random, hosts: list[TrueHost]) -> list[Guest]:
    """Draw guests; as few hosts as possible are full, and the others empty."""
    free = {host.name: 0.95 * host.memory - host.own for host in hosts}
    guests: list[Guest] = []
    for number in range(1, draw.randint(8, 24) + 1):
        memory = draw.choice([2, 4, 8, 16]) * GIB
        fitting = [name for name in free if free[name] >= memory]
        if not fitting:
            continue
        host = draw.choice(fitting[:2])
        free[host] -= memory
        cores = draw.choice([1.0, 2.0, 4.0])
        guests.append(
            Guest(
                f"v{number}",
                host,
                cores,
                memory,
                used=int(memory * draw.uniform(0.3, 1.0)),
                load=cores * draw.random(),
                since=-HOUR,
                live=draw.random() < 0.9,
                tags=draw.choices([("fixed",), ("slow",), ()], [0.1, 0.1, 0.8])[0],
            )
        )
    return guests


def _rules(draw: random.Random, cluster: Cluster) -> tuple[Rule, ...]:
    guests, hosts = sorted(cluster.guests), sorted(cluster.hosts)
    rules = [Rule("tag-exclusion", tag="fixed")]
    kinds = ["affinity", "anti-affinity", "anti-affinity", "node-affinity", "pin"]
    for kind in draw.choices(kinds, k=4):
        some = tuple(draw.sample(guests, draw.choice([2, 2, 3])))
        rules.append(
            Rule(
                kind,
                guests=some[:1] if kind == "pin" else some,
                hosts=tuple(draw.sample(hosts, 2)) if kind == "node-affinity" else (),
                strict=draw.random() < 0.8,
            )
        )
    return tuple(rules)
