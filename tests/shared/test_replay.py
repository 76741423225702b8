"""Recorded decisions of all policies, repeated byte for byte.

Clusters are drawn as in the soak, with nodes that do not respond and measurements that
are missing, and read from the shared folder. OPENDRS_DECISIONS=1000 repeats a thousand
decisions, which takes ten minutes.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from opendrs.config import snapshot_from
from opendrs.config.policy_loading import build_policy
from opendrs.controller import replay
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.serialization import cycle_record
from opendrs.errors import PlatformError
from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.ports import CycleRecord
from opendrs.store import Access, MemoryStore, Retention, SqliteStore
from soak.cluster import Cluster
from soak.platform import model_rule
from soak.scenario import draw_scenario
from support.builders import NOON

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED") or BESIDE) / "data" / "clusters"
DECISIONS = int(os.environ.get("OPENDRS_DECISIONS", "140")) // len(BUILT_IN_POLICIES)
CYCLES = 7  # of one policy on a drawn cluster, with its memory
LARGEST = 200_000  # nodes times guests; larger ones take long to decide about
CHOICES: Mapping[str, Mapping[str, list[object]]] = {
    "auto-rebalance": {
        "method": ["bruteforce", "topsis"],
        "threshold": [0.05, 0.3],
        "hold": [1, 3],
        "margin": [0.02, 0.1],
    },
    "balance": {
        "method": ["exhaustive", "topsis"],
        "load_model": ["dynamic", "static"],
        "threshold": [0.01, 0.1],
        "max_migrations": [2, 100],
        "allow_cold_migration": [True, False],
    },
    "consolidate": {
        "detector": ["last-n-average", "forecast", "mad"],
        "history_length": [12, 48],
        "manage_power": [True, False],
        "seed": [0, 7],
    },
    "optimize": {
        "iterations_per_group": [20, 50],
        "budget": ["knee", "unlimited", "5 migrations"],
        "tolerated_node_failures": [0, 1],
        "seed": [0, 7],
    },
    "pressure": {
        "cpu_pressure_threshold": [0.2, 0.75],
        "memory_threshold": [0.5, 0.85],
        "min_uptime": [0.0, 300.0],
    },
    "repair": {
        "budget": ["unlimited", "2 migrations"],
        "allow_cold_migration": [True, False],
    },
    "threshold-rebalance": {
        "threshold": [0.05, 0.2],
        "max_migrations": [1, 5],
        "cooldown": [0.0, 3600.0],
        "load_model": ["static", "dynamic"],
    },
}
Case = tuple[Mapping[str, object], Limits, list[Snapshot]]

pytestmark = [
    pytest.mark.shared,
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED.exists(), reason=f"there is no {SHARED}"),
]


def recorded_clusters() -> list[Snapshot]:
    """Return the clusters of the shared folder up to `LARGEST`."""
    found = []
    for path in sorted(SHARED.glob("*.json*")):
        nodes, guests = path.name.split(".")[0].lstrip("c").split("x")
        if int(nodes) * int(guests) <= LARGEST:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            found.append(snapshot_from(json.loads(content), path.name))
    return found


def drawn_snapshots(draw: Random, policy: str) -> tuple[Limits, list[Snapshot]]:
    """Return what a controller sees of a drawn cluster, cycle by cycle."""
    cluster = Cluster(draw)
    scenario, platform = draw_scenario(draw, cluster, policy, operated=False)
    rules = tuple(map(model_rule, cluster.rules))
    seen: list[Snapshot] = []
    while len(seen) < CYCLES:
        for guest in cluster.guests.values():
            guest.load = guest.cores * draw.random()
        if draw.random() < 0.2:
            cluster.disconnect(draw.choice(sorted(cluster.hosts)), 200.0, cut=False)
        with suppress(PlatformError):
            seen.append(replace(platform.observe(), rules=rules))
        cluster.advance(scenario.interval)
    return scenario.limits, seen


def settings(draw: Random, policy: str) -> dict[str, object]:
    return {name: draw.choice(values) for name, values in CHOICES[policy].items()}


def cases(name: str) -> Iterator[Case]:
    """Yield settings of a policy, and the snapshots that it decides about."""
    draw = Random(f"15 {name}")  # noqa: S311 - no secret
    for snapshot in recorded_clusters():
        yield settings(draw, name), DEFAULT_LIMITS, [snapshot]
    while True:
        chosen = settings(draw, name)
        yield chosen, *drawn_snapshots(draw, name)


def decisions(name: str) -> Iterator[CycleRecord]:
    """Yield the records of its decisions, as a controller makes them."""
    number = 0
    for chosen, limits, seen in cases(name):
        policy: Any = build_policy(name, chosen, limits)
        source = PolicyDecisionSource(policy, MemoryStore())
        for snapshot in seen:
            evaluation = next(source.evaluations(snapshot))
            number += 1
            yield cycle_record(
                f"run {number}",
                NOON + timedelta(minutes=number),
                snapshot,
                policy=policy,
                memory=evaluation.memory,
                decision=evaluation.decision,
            )


@pytest.mark.parametrize("name", BUILT_IN_POLICIES)
def test_decisions_are_repeated_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "record.sqlite"
    with SqliteStore(path, retention=Retention(input_cycles=DECISIONS)) as store:
        for record in islice(decisions(name), DECISIONS):
            store.record_cycle(record)

    reasons: Counter[str] = Counter()
    with SqliteStore(path, Access.READ) as store:
        for cycle in store.cycles():
            found = replay(cycle)
            assert found.is_same, found.run
            assert found.policy == name
            reasons[str(found.recorded["reason"])] += 1

    assert reasons.total() == DECISIONS
    assert len(reasons) > 1, reasons
