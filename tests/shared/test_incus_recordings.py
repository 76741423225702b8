"""Recorded answers of real Incus clusters, as found in the shared folder.

A server answers with the recordings over TLS; the expected values are calculated from
the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.incus import IncusPlatform
from opendrs.platforms.incus.migration import CREATING, progress_detail, running_jobs
from opendrs.platforms.incus.responses import Operation, parse
from opendrs.platforms.incus.values import guest_id, key_from_url
from opendrs.ports import TaskState
from support.incus_double import IncusDouble, TlsFiles

BESIDE = Path(__file__).parents[2].parent / "shared"
RECORDINGS = Path(os.environ.get("OPENDRS_SHARED") or BESIDE) / "data" / "incus-api"
VERSIONS = sorted(path for path in RECORDINGS.glob("*") if (path / "1.0.json").exists())

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not VERSIONS, reason=f"no recordings in {RECORDINGS}"),
]


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def recorded(folder: Path) -> IncusDouble:
    return IncusDouble.from_recording(folder)


@pytest.fixture
def platform(recorded: IncusDouble, tmp_path: Path) -> Iterator[IncusPlatform]:
    tls = TlsFiles(tmp_path)
    with tls.serve(recorded) as url:
        yield IncusPlatform("recorded", tls.settings(url))


def document(folder: Path, name: str) -> Any:  # noqa: ANN401 - as parsed
    return json.loads((folder / name).read_text())["metadata"]


def test_recorded_members_are_nodes_with_their_figures(
    folder: Path, recorded: IncusDouble, platform: IncusPlatform
) -> None:
    nodes = platform.observe().nodes

    assert set(nodes) == {member["server_name"] for member in recorded.members}
    for path in folder.glob("1.0_cluster_members_*_state.json"):
        system = document(folder, path.name)["sysinfo"]
        node = nodes[NodeId(path.name.split("_")[3])]
        assert node.online
        assert node.load_average == pytest.approx(system["load_averages"][0], abs=0.005)
        assert node.capacity is not None
        assert node.capacity.memory == system["total_ram"]
        assert node.usage.memory is not None
        assert node.usage.memory <= system["total_ram"] - system["free_ram"]
        assert node.storages


def test_recorded_instances_are_guests(
    recorded: IncusDouble, platform: IncusPlatform
) -> None:
    guests = platform.observe().guests

    assert {(str(each.id), str(each.node)) for each in guests.values()} == {
        (guest_id((each["project"], each["name"])), each["location"])
        for each in recorded.instances
    }
    for instance in recorded.instances:
        guest = guests[guest_id((instance["project"], instance["name"]))]
        stamp = instance["config"].get("volatile.rebalance.last_move")
        assert guest.limit is not None
        assert (guest.migrated_at is None) is (stamp is None)
        if guest.migrated_at is not None:
            assert guest.migrated_at.timestamp() == int(stamp)


def test_recorded_metrics_give_memory_of_machines_without_guest_agent(
    recorded: IncusDouble, platform: IncusPlatform
) -> None:
    guests = platform.observe().guests

    for instance in recorded.instances:
        guest = guests[guest_id((instance["project"], instance["name"]))]
        assert guest.usage.memory is not None
        # QEMU itself needs some memory beyond that of the machine.
        assert guest.limit is not None
        assert 0 < guest.usage.memory < guest.limit.memory + (256 << 20)


def test_recorded_list_of_operations_is_understood(
    folder: Path, recorded: IncusDouble, platform: IncusPlatform
) -> None:
    for path in folder.glob("1.0_operations__*.json"):
        listed = document(folder, path.name)
        recorded.operations = [each for group in listed.values() for each in group]

        assert all(guest.lock is None for guest in platform.observe().guests.values())


def test_recorded_move_is_understood(folder: Path) -> None:
    accepted, running, done = (
        parse(Operation, document(folder, f"move_{name}.json"), name)
        for name in ("accepted", "running", "done")
    )

    (key,) = running_jobs([accepted])
    assert key == key_from_url(accepted.resources["instances"][0])
    assert accepted.id == running.id == done.id
    assert (running.is_running, done.is_running) == (True, False)


def test_recorded_events_of_moves_show_targets_and_no_secret(folder: Path) -> None:
    lines = (folder / "events_move.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.strip()]
    latest: dict[str, Operation] = {}
    targets = set()
    for event in events:
        if event["type"] != "operation":
            continue
        operation = parse(Operation, event["metadata"], "event")
        latest[operation.id] = operation
        targets |= {job.target for job in running_jobs(latest.values()).values()}
        secrets = [
            value
            for key, value in operation.metadata.items()
            if key in ("control", "criu", "fs") and value
        ]
        shown = f"{operation!r} {progress_detail(operation.metadata)}"
        assert not any(secret in shown for secret in secrets)

    created = {e.location for e in latest.values() if e.description == CREATING}
    assert targets - {None} == created
    assert created
    assert not any(each.is_running for each in latest.values())


def test_migration_in_a_recorded_cluster_is_done(
    recorded: IncusDouble, platform: IncusPlatform
) -> None:
    first = recorded.instances[0]
    others = [m["server_name"] for m in recorded.members]
    target = next(name for name in others if name != first["location"])
    move = LiveMigration(
        GuestId(guest_id((first["project"], first["name"]))),
        NodeId(first["location"]),
        NodeId(target),
    )

    task = platform.start(move)
    while (status := platform.status(task)).state is TaskState.RUNNING:
        pass

    assert status.state is TaskState.DONE
