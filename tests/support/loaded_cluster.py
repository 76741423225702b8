"""Cluster of the platform kind `command` whose load follows its guests.

    python loaded_cluster.py STATE snapshot|start|find|status|abort

The state has nodes, guests and tasks. The use of a node is the sum of its guests, so
that a migration changes the imbalance; a migration takes the seconds that the state
names, and reports its progress.
"""

from __future__ import annotations

import fcntl
import json
import math
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

State = dict[str, Any]
GIB = 2**30
CORES, MEMORY = 32.0, 128 * GIB
_OVERHEAD = {"cpu": 0.5, "memory": 2 * GIB}  # of a node without guests
_SWING = 0.1  # of the use of CPU, up and down
_PERIOD = 40.0  # seconds


def create(path: Path, *, seconds: float, nodes: int = 12, guests: int = 6) -> None:
    """Write the state of a cluster whose third node has twice the load of the others.

    Args:
        path: The file of the state.
        seconds: Duration of a migration.
        nodes: Number of nodes.
        guests: Number of guests of each node; the third has more.
    """
    width = len(str(nodes))
    names = [f"node{number:0{width}d}" for number in range(1, nodes + 1)]
    places = [name for name in names for _ in range(guests)] + [names[2]] * 8
    every = {
        f"vm:{number}": _guest(number, node)
        for number, node in enumerate(places, start=101)
    }
    every["vm:103"]["mobility"] = "none"
    every["vm:103"]["mobility_detail"] = "a local device"
    every["vm:104"]["tags"] = ["database"]
    rules = [
        {"kind": "pin", "name": "license", "guests": ["vm:102"]},
        {
            "kind": "node-affinity",
            "name": "fast-disks",
            "guests": ["vm:114"],
            "nodes": {names[2]: 1, names[4]: 1},
        },
        {
            "kind": "anti-affinity",
            "name": "web-apart",
            "guests": ["vm:113", "vm:119", "vm:125"],
        },
        {
            "kind": "affinity",
            "name": "shop-together",
            "guests": ["vm:131", "vm:132"],
        },
        {
            "kind": "anti-affinity",
            "name": "db-apart",
            "strict": False,
            "guests": ["vm:107", "vm:108"],
        },
    ]
    state = {
        "seconds": seconds,
        "nodes": names,
        "guests": every,
        "rules": rules,
        "tasks": {},
    }
    path.write_text(json.dumps(state), encoding="utf-8")


def _guest(number: int, node: str) -> State:
    share = 0.5 + (number * 7 % 10) / 20  # different guests, the same on each run
    return {
        "node": node,
        "kind": "vm",
        "state": "running",
        "limit": {"cpu": 4.0, "memory": 16 * GIB},
        "usage": {"cpu": 2.4 * share, "memory": int(9 * GIB * share)},
        "mobility": "live",
        "uptime": 86_400.0,
        "dirty_rate": 2e7,
    }


def change(path: Path, **fields: object) -> None:
    """Set fields of the state in *path*."""
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _write(file, {**json.load(file), **fields})


def _write(file: Any, state: State) -> None:  # noqa: ANN401
    file.seek(0)
    file.truncate()
    json.dump(state, file)


def _now() -> float:
    return time.time()  # noqa: TID251 - shared by processes


def _advance(state: State) -> None:
    """Complete the migrations whose time has passed."""
    for task in state["tasks"].values():
        if task["state"] == "running" and _now() >= task["ends_at"]:
            task["state"] = "done"
            guest = state["guests"][task["guest"]]
            guest["node"] = task["target"]
            guest.pop("migrating_to", None)


def _snapshot(state: State) -> State:
    swing = 1 + _SWING * math.sin(2 * math.pi * _now() / _PERIOD)
    used = {name: dict(_OVERHEAD) for name in state["nodes"]}
    guests = {}
    for name, each in state["guests"].items():
        usage = {**each["usage"], "cpu": each["usage"]["cpu"] * swing}
        guests[name] = {**each, "usage": usage}
        for resource in used[each["node"]]:
            used[each["node"]][resource] += usage[resource]
    rack = max(6, len(used) // 20)  # nodes of a rack
    nodes = {
        name: {
            "state": "online",
            "capacity": {"cpu": CORES, "memory": MEMORY},
            "usage": {"cpu": usage["cpu"], "memory": int(usage["memory"])},
            "failure_domain": f"rack{position // rack + 1}",
            "cpu_model": "x86-64-v3",
        }
        for position, (name, usage) in enumerate(used.items())
    }
    return {
        "format": "opendrs-snapshot/1",
        "taken_at": datetime.now(UTC).isoformat(),  # noqa: TID251
        "nodes": nodes,
        "guests": guests,
        "rules": state["rules"],
    }


def _start(state: State, action: State) -> State:
    guest = state["guests"][action["guest"]]
    if guest["node"] != action["source"] or "migrating_to" in guest:
        sys.exit(f"{action['guest']}: cannot migrate to {action['target']}")
    name = f"task-{len(state['tasks'])}"
    task = {**action, "state": "running", "ends_at": _now() + state["seconds"]}
    state["tasks"][name] = task
    guest["migrating_to"] = action["target"]
    return {"task": name}


def _find(state: State, action: State) -> State:
    fields = ("guest", "source", "target")
    found = [
        name
        for name, task in state["tasks"].items()
        if all(task[field] == action[field] for field in fields)
    ]
    return {"task": found[-1] if found else None}


def _status(state: State, request: State) -> State:
    task = state["tasks"].get(request["task"])
    if task is None:
        return {"state": "lost", "detail": f"{request['task']} is unknown"}
    if task["state"] != "running":
        return {"state": task["state"], "detail": task.get("detail", "")}
    total = state["guests"][task["guest"]]["usage"]["memory"]
    left = max(0.0, min(1.0, (task["ends_at"] - _now()) / state["seconds"]))
    progress = {
        "total": total,
        "remaining": int(total * left),
        "dirty_rate": 2e7,
        "bandwidth": total / state["seconds"],
    }
    return {"state": "running", "progress": progress}


def _abort(state: State, request: State) -> None:
    task = state["tasks"].get(request["task"])
    if task is not None and task["state"] == "running":
        task["state"], task["detail"] = "failed", "aborted on request"
        state["guests"][task["guest"]].pop("migrating_to")


def main() -> None:
    path, request = Path(sys.argv[1]), sys.argv[2]
    answers = {"start": _start, "find": _find, "status": _status, "abort": _abort}
    with path.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        _advance(state)
        if request == "snapshot":
            answer: State | None = _snapshot(state)
        else:
            answer = answers[request](state, json.load(sys.stdin))
        _write(file, state)
    if answer is not None:
        json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
