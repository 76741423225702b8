"""opendrs simulate: traces of each kind, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.simulation.traces import READERS
from support.terminal import RunOpendrs
from support.traces import WRITERS, random_load

SPOILED = b"spoiled\x00"


def trace(kind: str) -> Path:
    folder = Path(kind)
    folder.mkdir()
    return WRITERS[kind](folder, random_load(seed=1, guests=4))


def files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


@pytest.mark.parametrize("kind", READERS)
def test_a_trace_of_each_kind_is_simulated(opendrs: RunOpendrs, kind: str) -> None:
    path = trace(kind)

    answer = opendrs("simulate", kind, str(path), "--hosts", "20", "--format", "json")

    assert answer.status == 0
    assert '"guests": 4' in answer.out
    assert json.loads(answer.out)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("damage", ["cut", "spoiled", "empty", "gone"])
def test_damaged_trace_writes_nothing(
    opendrs: RunOpendrs, kind: str, damage: str
) -> None:
    path = trace(kind)
    for file in files(path):
        content = file.read_bytes()
        if damage == "cut":
            file.write_bytes(content[: len(content) // 2].rstrip(b"\r\n0123456789"))
        elif damage == "spoiled":
            file.write_bytes(SPOILED + content[len(SPOILED) :])
        elif damage == "empty":
            file.write_bytes(b"")
        else:
            file.unlink()

    answer = opendrs("simulate", kind, str(path), "--hosts", "20", "--out", "out.json")

    assert answer.status == 2
    assert kind in answer.err
    assert "Traceback" not in answer.err
    assert not Path("out.json").exists()
