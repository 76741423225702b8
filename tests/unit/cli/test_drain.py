"""The commands drain and undrain on a cluster that outlives them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.cli.platforms import PLATFORMS
from opendrs.config.platform_kinds import PlatformKind
from opendrs.controller import SystemClock
from opendrs.model import GIB, GuestId, GuestState, Snapshot
from opendrs.simulation import SimulatedPlatform, datacenter
from support.builders import cluster
from support.terminal import CommandResult, RunOpendrs


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoSettings:
    """The settings of a platform that needs none."""


def initial_cluster() -> Snapshot:
    snapshot = cluster(
        {"n1": 0.4, "n2": 0.1, "n3": 0.1},
        {
            "a": ("n1", 0.1),
            "b": ("n1", 0.1),
            "backup": ("n1", 0.1),
            "stopped": ("n1", 0.1),
            "d": ("n2", 0.1),
            "e": ("n3", 0.1),
        },
    )
    changed = {
        "stopped": replace(
            snapshot.guests[GuestId("stopped")], state=GuestState.STOPPED
        ),
        "backup": replace(snapshot.guests[GuestId("backup")], lock="backup"),
    }
    guests = {**snapshot.guests, **{each.id: each for each in changed.values()}}
    return replace(snapshot, guests=guests)


class Lab:
    """A platform, and commands about it."""

    def __init__(self, opendrs: RunOpendrs, config: Path, origin: Snapshot) -> None:
        self._opendrs = opendrs
        self._config = config
        self.platform = SimulatedPlatform(
            origin, SystemClock(), bandwidth=1000 * GIB, load_variation=0.0, name="lab"
        )

    def run(self, command: str, *options: str) -> CommandResult:
        return self._opendrs(command, "lab", *options, "--config", str(self._config))

    def document(self, command: str, *options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.run(command, *options, "--format", "json").out
        )
        return found

    def on(self, node: str) -> list[str]:
        guests = self.platform.observe().guests.values()
        return sorted(guest.id for guest in guests if guest.node == node)


@pytest.fixture
def lab(opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    sleep = SystemClock.sleep
    monkeypatch.setattr(
        SystemClock, "sleep", lambda clock, seconds: sleep(clock, min(seconds, 0.05))
    )
    monkeypatch.setattr(datacenter, "RESTART_TIME", 0.1)
    config = tmp_path / "opendrs.toml"
    config.write_text(
        tomli_w.dumps(
            {
                "platform": {"lab": {"kind": "shared"}},
                "store": {"path": str(tmp_path / "record.sqlite")},
            }
        )
    )
    found = Lab(opendrs, config, initial_cluster())
    kind = PlatformKind(
        settings_type=_NoSettings,
        create=lambda _name, _settings, _rules: found.platform,
    )
    monkeypatch.setitem(PLATFORMS.kinds, "shared", lambda: kind)
    return found


def test_drain_names_what_stays_and_what_it_needs(lab: Lab) -> None:
    result = lab.run("drain", "n1", "--yes", "--because", "new disk")

    assert (result.status, result.err) == (1, "")
    assert lab.on("n1") == ["backup"]
    assert "1 guest cannot leave n1:" in result.out
    assert "wait for the end of the operation" in result.out
    assert lab.run("drain").out.count("new disk") == 1


def test_drain_reports_targets_with_their_load_afterwards(lab: Lab) -> None:
    document = lab.document("drain", "n1", "--yes")

    assert (document["executed_by"], document["empty"]) == ("drain", False)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("backup", "guest-locked")
    by_node = {each["node"]: each for each in document["plan"]["targets"]}
    assert sorted(by_node) == ["n2", "n3"]
    assert by_node["n2"]["cpu_before"] == pytest.approx(0.1)
    assert by_node["n2"]["cpu_after"] == pytest.approx(0.2)
    assert {each["outcome"] for each in document["records"]} == {"done"}


def test_node_stays_empty_and_is_refilled(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes")

    assert lab.run("apply", "--yes", "--policy", "optimize").status == 0
    assert lab.on("n1") == ["backup"]
    assert lab.run("undrain", "n1", "--bring-back").status == 0
    assert lab.on("n1") == ["a", "b", "backup", "stopped"]
    assert lab.document("drain") == {"nodes": []}
    assert lab.run("replay").status == 0


def test_undrain_leaves_guests_where_they_are(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes")

    assert lab.run("undrain", "n1").status == 0
    assert lab.on("n1") == ["backup"]


def test_second_drain_continues_the_first(lab: Lab) -> None:
    lab.run("drain", "n1", "--yes", "--because", "new disk")
    (first,) = lab.document("drain")["nodes"]
    lab.run("drain", "n1", "--yes")

    (second,) = lab.document("drain")["nodes"]
    assert (second["since"], second["because"]) == (first["since"], "new disk")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("drain", "n9", "--yes"), "unknown-name"),
        (("drain", "n1"), "inconsistent"),
        (("undrain", "n1"), "unknown-name"),
    ],
)
def test_bad_input_changes_nothing(lab: Lab, words: tuple[str, ...], code: str) -> None:
    result = lab.run(*words, "--format", "json")

    assert result.status == 2
    assert json.loads(result.err.splitlines()[-1])["code"] == code
    assert lab.document("drain") == {"nodes": []}
    assert len(lab.on("n1")) == 4
