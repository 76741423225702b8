"""A small cluster that outlasts the process, as a platform whose record is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w

from builders import cluster, node
from opendrs.controller.clock import SystemClock
from opendrs.model import NodeId, NodeState, Snapshot
from opendrs.platforms import connect
from opendrs.sim import SimulatedPlatform

NAME = "lab"
AWAY = NodeId("c")  # a node that does not answer, so that the record is asked about it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nothing:
    """The settings of a platform that needs none."""


class _Lasting(SimulatedPlatform):
    """An even cluster, in which there is nothing to do."""

    def __init__(self, name: str) -> None:
        even = cluster(
            nodes={"a": 0.5, "b": 0.5}, guests={"v": ("a", 0.4), "w": ("b", 0.4)}
        )
        super().__init__(even, SystemClock(), name=name, swing=0.0)

    def observe(self) -> Snapshot:
        found = super().observe()
        away = node(AWAY, None, state=NodeState.UNKNOWN)
        return Snapshot(found.taken_at, {**found.nodes, AWAY: away}, found.guests)


def _kind() -> tuple[type, connect.Adapter]:
    def adapter(name: str, settings: object, rules: object) -> SimulatedPlatform:
        del settings, rules
        return _Lasting(name)

    return _Nothing, adapter


def make_lasting(
    monkeypatch: pytest.MonkeyPatch, config: Path, record: Path
) -> Callable[..., list[str]]:
    """Write a configuration to *config* by which the record of `lab` is *record*.

    Returns:
        A function from the words of a command to these with the configuration.
    """
    monkeypatch.setitem(connect.KINDS, "lasting", _kind)
    document: dict[str, object] = {
        "platform": {NAME: {"kind": "lasting"}},
        "policy": {"name": "auto-rebalance"},  # one with a memory
        "store": {"path": str(record)},
    }
    config.write_text(tomli_w.dumps(document))

    def words(command: str, *options: str) -> list[str]:
        if command == "run":
            return [command, str(config), *options]
        return [command, NAME, *options, "--config", str(config)]

    return words
