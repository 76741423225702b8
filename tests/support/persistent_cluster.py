"""Small cluster that outlives the process, as a platform with a stored record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w

from opendrs.cli.platforms import PLATFORMS
from opendrs.config.platform_kinds import PlatformKind
from opendrs.controller import SystemClock
from opendrs.model import NodeId, NodeState, Snapshot
from opendrs.simulation import SimulatedPlatform
from support.builders import cluster, node

PLATFORM_NAME = "lab"
UNREACHABLE_NODE = NodeId(
    "c"
)  # a node that does not answer, so that the record is asked about it


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoSettings:
    """The settings of a platform that needs none."""


class _PersistentPlatform(SimulatedPlatform):
    """An even cluster, in which there is nothing to do."""

    def __init__(self, name: str) -> None:
        balanced = cluster(
            nodes={"a": 0.5, "b": 0.5}, guests={"v": ("a", 0.4), "w": ("b", 0.4)}
        )
        super().__init__(balanced, SystemClock(), name=name, load_variation=0.0)

    def observe(self) -> Snapshot:
        snapshot = super().observe()
        unreachable = node(UNREACHABLE_NODE, None, state=NodeState.UNKNOWN)
        return Snapshot(
            snapshot.taken_at,
            {**snapshot.nodes, UNREACHABLE_NODE: unreachable},
            snapshot.guests,
        )


KIND = PlatformKind(
    settings_type=_NoSettings,
    create=lambda name, _settings, _rules: _PersistentPlatform(name),
)


def configure_persistent_platform(
    monkeypatch: pytest.MonkeyPatch, config: Path, record: Path
) -> Callable[..., list[str]]:
    """Write a configuration to *config* by which the record of `lab` is *record*.

    Returns:
        A function from the words of a command to these with the configuration.
    """
    monkeypatch.setitem(PLATFORMS.kinds, "persistent", lambda: KIND)
    document: dict[str, object] = {
        "platform": {PLATFORM_NAME: {"kind": "persistent"}},
        "policy": {"name": "auto-rebalance"},  # one with a memory
        "store": {"path": str(record)},
    }
    config.write_text(tomli_w.dumps(document))

    def arguments(command: str, *options: str) -> list[str]:
        if command == "run":
            return [command, str(config), *options]
        return [command, PLATFORM_NAME, *options, "--config", str(config)]

    return arguments
