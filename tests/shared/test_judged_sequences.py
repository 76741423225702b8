"""Drawn changes of recorded clusters, ordered by us and judged by another program."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from opendrs.config import snapshot_from
from opendrs.controller.step_serialization import step_document
from opendrs.model import Guest, GuestId, Limits, Mobility, NodeId, Plan, Snapshot
from opendrs.planning import GroupMove, sequence_moves
from opendrs.rules import CompiledRules, compile_rules

BESIDE = Path(__file__).parents[3] / "shared"
SHARED = Path(os.environ.get("OPENDRS_SHARED") or BESIDE)
JUDGE = SHARED / "tools" / "judge_plan.py"
LARGEST = 200_000  # nodes times guests; more take long to read and judge
SHARE = 4  # one guest in so many is to go elsewhere
LIMITS = Limits(memory_headroom=0.0, memory_overcommit=100.0)

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not JUDGE.exists(), reason=f"there is no {JUDGE}"),
]


def clusters() -> list[Path]:
    every = sorted((SHARED / "data" / "clusters").glob("*.json*"))
    return [path for path in every if size(path) <= LARGEST]


def size(path: Path) -> int:
    """Return nodes times guests of a cluster named like c100x2000.rules.json."""
    nodes, guests = path.name.split(".")[0].lstrip("c").split("x")
    return int(nodes) * int(guests)


def read(path: Path) -> Any:  # noqa: ANN401 -- as JSON is
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def limit_capacity(document: Any, part: float) -> None:  # noqa: ANN401 -- as JSON is
    """Take memory away from every node until *part* of what is left is in use."""
    used: defaultdict[str, int] = defaultdict(int)
    for guest in document["guests"].values():
        used[guest["node"]] += guest["usage"]["memory"]
    for name, node in document["nodes"].items():
        node["capacity"]["memory"] = int(max(used[name], 1) / part)


class MoveDrawing:
    """Draws guests, and a place with room for each once all have left theirs."""

    def __init__(self, snapshot: Snapshot, rules: CompiledRules, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 -- a sample, not a secret
        self._rules = rules
        self._nodes = sorted(snapshot.nodes)
        free = sorted(
            guest.id
            for guest in snapshot.guests.values()
            if guest.id not in rules.together
            and guest.effective_mobility is Mobility.LIVE
        )
        self._chosen = self._random.sample(free, len(snapshot.guests) // SHARE)
        self._guests = snapshot.guests
        self._available_memory = {
            node.id: node.capacity.memory if node.capacity else 0
            for node in snapshot.nodes.values()
        }
        self._on: defaultdict[NodeId, set[GuestId]] = defaultdict(set)
        for name in snapshot.guests.keys() - {*self._chosen}:
            self._place(snapshot.guests[name], snapshot.guests[name].node)

    def moves(self) -> Iterator[GroupMove]:
        """Yield where they are to go: the large ones are placed first."""
        for name in sorted(self._chosen, key=self._memory, reverse=True):
            guest = self._guests[name]
            target = self._target(guest)
            self._place(guest, target)
            if target != guest.node:
                yield GroupMove((guest,), target, "as drawn", self._random.random())

    def _target(self, guest: Guest) -> NodeId:
        suitable = [name for name in self._nodes if self._is_feasible(guest, name)]
        return self._random.choice(suitable) if suitable else guest.node

    def _is_feasible(self, guest: Guest, node: NodeId) -> bool:
        return (
            self._available_memory[node] >= self._memory(guest.id)
            and node in self._rules.nodes.get(guest.id, self._available_memory)
            and self._rules.apart.get(guest.id, frozenset()).isdisjoint(self._on[node])
        )

    def _place(self, guest: Guest, node: NodeId) -> None:
        self._available_memory[node] -= self._memory(guest.id)
        self._on[node].add(guest.id)

    def _memory(self, name: GuestId) -> int:
        return self._guests[name].usage.memory or 0


def judge_plan(document: object, plan: Plan, folder: Path) -> Any:  # noqa: ANN401 -- as JSON is
    """Return what the judge says of a plan that has nothing wrong."""
    snapshot_file, plan_file = folder / "snapshot.json", folder / "plan.json"
    snapshot_file.write_text(json.dumps(document))
    steps = [step_document(step) for step in plan.steps]
    plan_file.write_text(json.dumps({"steps": steps}))
    done = subprocess.run(  # noqa: S603 -- the words are the tests' own
        [sys.executable, str(JUDGE), str(snapshot_file), str(plan_file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("part", [0.8, 0.9, 0.97])
@pytest.mark.parametrize("path", clusters(), ids=lambda path: path.name)
def test_no_step_of_a_drawn_change_is_unsafe(
    path: Path, part: float, tmp_path: Path
) -> None:
    document = read(path)
    limit_capacity(document, part)
    snapshot = snapshot_from(document, path.name)
    rules = compile_rules(snapshot)
    moves = [*MoveDrawing(snapshot, rules, seed=7).moves()]

    sequenced = sequence_moves(moves, snapshot, rules, LIMITS)

    result = judge_plan(document, sequenced.plan, tmp_path)
    assert result["unsafe_steps"] == []
    assert result["migrations"] == len(moves) + len(sequenced.detours) - len(
        sequenced.dropped
    )
    if part < 0.9:
        assert sequenced.dropped == ()
