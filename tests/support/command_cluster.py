"""Cluster of the platform kind `command`: a program with its state in a file.

    python command_cluster.py STATE snapshot|start|find|status|abort

The state has the snapshot and the tasks. A migration takes the seconds that the state
names for its guest, and so does the move of a disk. With an overhead, the use of a node
is that of its guests and the overhead, so that a migration changes the imbalance; it
also reports its progress then.
"""

from __future__ import annotations

import fcntl
import json
import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

State = dict[str, Any]
TEMPORARY_FAILURE = 75
_SWING = 0.1  # of the use of CPU that follows the guests, up and down
_PERIOD = 40.0  # seconds


def create(
    path: Path,
    snapshot: State,
    durations: dict[str, float],
    overhead: dict[str, float] | None = None,
) -> None:
    """Write the state of a new cluster to *path*.

    Args:
        path: The file of the state.
        snapshot: The first snapshot.
        durations: Seconds of a migration by guest.
        overhead: Use of a node without guests; None if the use of nodes is fixed.
    """
    state = {
        "snapshot": snapshot,
        "durations": durations,
        "overhead": overhead,
        "tasks": {},
        "failure": None,
    }
    path.write_text(json.dumps(state), encoding="utf-8")


def change(path: Path, apply: Callable[[State], object]) -> None:
    """Change the state in *path*."""
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        apply(state)
        _write(file, state)


def command(path: Path) -> tuple[str, ...]:
    """Return the program and its arguments, without the request."""
    return (sys.executable, __file__, str(path))


def _write(file: Any, state: State) -> None:  # noqa: ANN401
    file.seek(0)
    file.truncate()
    json.dump(state, file)


def _now() -> float:
    return time.time()  # noqa: TID251 - shared by processes


def _advance(state: State) -> None:
    """Complete the migrations whose time has passed."""
    now = _now()
    guests = state["snapshot"]["guests"]
    for task in state["tasks"].values():
        guest = guests[task["guest"]]
        if task["state"] != "running" or now < task["ends_at"]:
            continue
        task["state"] = "done"
        if task["kind"] == "disk-move":
            disk = _disk(guest, task)
            disk["storage"] = disk.pop("moving_to")
            continue
        guest["node"] = task["target"]
        guest.pop("migrating_to", None)


def _snapshot(state: State) -> State:
    """Return the present snapshot."""
    snapshot: State = state["snapshot"]
    snapshot["taken_at"] = datetime.now(UTC).isoformat()  # noqa: TID251
    overhead = state["overhead"]
    if overhead is None:
        return snapshot
    swing = 1 + _SWING * math.sin(2 * math.pi * _now() / _PERIOD)
    used = {name: dict(overhead) for name in snapshot["nodes"]}
    guests = {}
    for name, guest in snapshot["guests"].items():
        usage = {**guest["usage"], "cpu": guest["usage"]["cpu"] * swing}
        guests[name] = {**guest, "usage": usage}
        for resource in overhead:
            used[guest["node"]][resource] += usage[resource]
    nodes = {
        name: {**node, "usage": used[name]} for name, node in snapshot["nodes"].items()
    }
    return {**snapshot, "nodes": nodes, "guests": guests}


def _start(state: State, action: State) -> State:
    guest = state["snapshot"]["guests"].get(action["guest"])
    if guest is None:
        sys.exit(f"{action['guest']}: not in the cluster")
    if action["kind"] == "disk-move":
        return _start_disk_move(state, guest, action)
    targets = state["snapshot"]["nodes"].keys() - {guest["node"]}
    is_movable = guest["node"] == action["source"] and "migrating_to" not in guest
    if not is_movable or action["target"] not in targets:
        sys.exit(f"{action['guest']}: cannot migrate to {action['target']}")
    guest["migrating_to"] = action["target"]
    return _add_task(state, action)


def _start_disk_move(state: State, guest: State, action: State) -> State:
    storages = state["snapshot"]["nodes"][guest["node"]]["storages"]
    disk, target = _disk(guest, action), action["target_storage"]
    is_movable = (
        disk is not None
        and (guest["node"], disk["storage"], disk.get("moving_to"))
        == (action["node"], action["source_storage"], None)
        and target in {each["id"] for each in storages} - {disk["storage"]}
    )
    if not is_movable:
        sys.exit(f"{action['guest']}: cannot move {action['disk']} to {target}")
    disk["moving_to"] = target
    return _add_task(state, action)


def _disk(guest: State, action: State) -> Any:  # noqa: ANN401
    """Return the disk that *action* moves; None if there is none."""
    named = (each for each in guest["disks"] if each["name"] == action["disk"])
    return next(named, None)


def _add_task(state: State, action: State) -> State:
    name = f"task-{len(state['tasks'])}"
    duration = state["durations"].get(action["guest"], 0.2)
    task = {"state": "running", "seconds": duration, "ends_at": _now() + duration}
    state["tasks"][name] = {**action, **task}
    return {"task": name}


def _find(state: State, action: State) -> State:
    found = [
        name for name, task in state["tasks"].items() if action.items() <= task.items()
    ]
    return {"task": found[-1] if found else None}


def _status(state: State, request: State) -> State:
    task = state["tasks"].get(request["task"])
    if task is None:
        return {"state": "lost", "detail": f"{request['task']} is unknown"}
    found = {"state": task["state"], "detail": task.get("detail", "")}
    if task["state"] == "running" and state["overhead"] is not None:
        found["progress"] = _progress(task, state["snapshot"]["guests"][task["guest"]])
    return found


def _progress(task: State, guest: State) -> State:
    total = guest["usage"]["memory"]
    left = max(0.0, min(1.0, (task["ends_at"] - _now()) / task["seconds"]))
    return {
        "total": total,
        "remaining": int(total * left),
        "dirty_rate": 2e7,
        "bandwidth": total / task["seconds"],
    }


def _abort(state: State, request: State) -> None:
    task = state["tasks"].get(request["task"])
    if task is not None and task["state"] == "running":
        task["state"], task["detail"] = "failed", "aborted on request"
        guest = state["snapshot"]["guests"][task["guest"]]
        if task["kind"] == "disk-move":
            del _disk(guest, task)["moving_to"]
        else:
            guest.pop("migrating_to")


_ANSWERS: dict[str, Callable[[State, State], State | None]] = {
    "start": _start,
    "find": _find,
    "status": _status,
    "abort": _abort,
}


def main() -> None:
    path, request = Path(sys.argv[1]), sys.argv[2]
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        if state["failure"] is not None:
            sys.stderr.write("the pool is busy\n")
            sys.exit(state["failure"])
        _advance(state)
        if request == "snapshot":
            answer: State | None = _snapshot(state)
        else:
            answer = _ANSWERS[request](state, json.load(sys.stdin))
        _write(file, state)
    if answer is not None:
        json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
