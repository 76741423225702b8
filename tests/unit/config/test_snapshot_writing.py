"""Round trip of written snapshots, and atomic replacement of files."""

import json
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from opendrs.config import json_line, json_text, read_snapshot, write_snapshot
from opendrs.config.snapshot_writing import replace_file
from opendrs.errors import InvalidFileError
from opendrs.model import AntiAffinity, Disk, GuestId, Snapshot
from support.builders import cluster, guest_ids
from support.strategies import snapshots

PAIR = cluster(
    nodes={"b": 0.5, "a": None},
    guests={"vm2": ("b", 0.25), "vm1": ("a", None)},
    rules=[AntiAffinity(guests=guest_ids("vm2", "vm1"))],
)


@pytest.mark.parametrize("form", ["json", "toml"])
def test_what_was_written_is_read_back(form: str) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / f"cluster.{form}"

        @settings(max_examples=40, deadline=None)
        @given(snapshots(details=True))
        def holds(snapshot: Snapshot) -> None:
            write_snapshot(snapshot, path)

            assert read_snapshot(path) == snapshot

        holds()


def test_name_and_target_of_a_moving_disk_are_read_back(tmp_path: Path) -> None:
    name = GuestId("vm2")
    disk = Disk(storage="one", size=1, name="scsi0", moving_to="two")
    moving = replace(PAIR.guests[name], disks=(disk,))
    snapshot = replace(PAIR, guests={**PAIR.guests, name: moving})
    path = tmp_path / "cluster.json"

    write_snapshot(snapshot, path)

    assert read_snapshot(path) == snapshot


def test_written_text_has_the_documented_form() -> None:
    assert json_text(PAIR) == (
        "{\n"
        '  "format": "opendrs-snapshot/1",\n'
        '  "taken_at": "2026-11-21T12:00:00Z",\n'
        '  "nodes": {\n'
        '    "a": {"capacity": {"cpu": 10, "memory": 107374182400}, '
        '"state": "online"},\n'
        '    "b": {"capacity": {"cpu": 10, "memory": 107374182400}, '
        '"usage": {"cpu": 5, "memory": 53687091200}, "state": "online"}\n'
        "  },\n"
        '  "guests": {\n'
        '    "vm1": {"node": "a", "kind": "vm", "state": "running", '
        '"mobility": "live"},\n'
        '    "vm2": {"node": "b", "kind": "vm", "state": "running", '
        '"limit": {"cpu": 2.5, "memory": 26843545600}, '
        '"usage": {"cpu": 2.5, "memory": 26843545600}, "mobility": "live"}\n'
        "  },\n"
        '  "rules": [\n'
        '    {"kind": "anti-affinity", "guests": ["vm1", "vm2"], "strict": true}\n'
        "  ]\n"
        "}\n"
    )


def test_json_line_equals_json_text() -> None:
    line = json_line(PAIR)

    assert "\n" not in line
    assert json.loads(line) == json.loads(json_text(PAIR))


def test_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text("old")

    write_snapshot(PAIR, path)

    assert read_snapshot(path) == PAIR
    assert os.listdir(tmp_path) == ["cluster.json"]  # noqa: PTH208


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "cluster.json", tmp_path / "latest.json"
    link.symlink_to(path)

    write_snapshot(PAIR, link)

    assert link.is_symlink()
    assert read_snapshot(path) == PAIR


def test_unwritable_path_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "cluster.json"

    with pytest.raises(InvalidFileError, match=r"cannot write .*nowhere/cluster.json"):
        write_snapshot(PAIR, path)


def test_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "opendrs.toml"
    path.touch(mode=0o600)

    replace_file(path, "new")

    assert path.read_text(encoding="utf-8") == "new"
    assert path.stat().st_mode & 0o777 == 0o600
