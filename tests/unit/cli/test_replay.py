"""opendrs replay: recorded cycles of a platform are repeated."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support.persistent_cluster import configure_persistent_platform
from support.terminal import RunOpendrs

Words = Callable[..., list[str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def words(path: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    config = path.with_name("opendrs.toml")
    return configure_persistent_platform(monkeypatch, config, path)


def test_cycles_of_run_and_apply_are_the_same(
    opendrs: RunOpendrs, words: Words
) -> None:
    opendrs(*words("run", "--once"))
    opendrs(*words("apply", "--yes"))
    opendrs(*words("apply", "--yes", "--policy", "optimize", "--time-limit", "0.2"))

    table = opendrs(*words("replay"))
    document = opendrs(*words("replay", "--last", "2", "--format", "json"))

    assert (table.status, table.err) == (0, "")
    assert table.out == "replay: 3 decisions: all the same\n"
    assert opendrs(*words("replay", "--all")).out.count("\tsame\n") == 3
    assert [each["same"] for each in json.loads(document.out)] == [True, True]


def test_platform_without_record_has_no_cycle(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    result = opendrs(*words("replay"))

    assert (result.status, result.out) == (0, "replay: no recorded cycle\n")
    assert not path.exists()


def test_unknown_run_is_an_error(opendrs: RunOpendrs, words: Words) -> None:
    opendrs(*words("run", "--once"))

    result = opendrs(*words("replay", "--run", "gone"))

    assert result.status == 2
    assert "--run: no recorded cycle" in result.err


def test_different_decision_is_shown(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    opendrs(*words("run", "--once"))
    with closing(sqlite3.connect(path)) as database, database:
        part = "part = 'decision'"
        ((stored,),) = database.execute(
            f"SELECT content FROM cycle_parts WHERE {part}"  # noqa: S608 - our own
        ).fetchall()
        decision = {**json.loads(zlib.decompress(stored)), "detail": "another"}
        changed = zlib.compress(json.dumps(decision).encode())
        database.execute(
            f"UPDATE cycle_parts SET content = ? WHERE {part}",  # noqa: S608 - our own
            (changed,),
        )

    result = opendrs(*words("replay"))

    assert result.status == 1
    assert "replay: 1 decision: 1 differ" in result.out
    assert "differs: detail" in result.out
