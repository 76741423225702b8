"""Commands that only read need no right to write, neither to a record nor beside it."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from lasting import NAME, make_lasting
from opendrs.controller.stores import SqliteStore
from terminal import Opendrs
from unprivileged import as_nobody, by_root, open_directory

READING = [
    ("show",),
    ("plan",),
    ("compare", "--policy", "balance"),
    ("check",),
    ("record", "-o", "-"),
]


@by_root
@pytest.mark.parametrize("record", ["absent", "there", "in use"])
@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
def test_who_may_only_read_can_look_and_plan(
    opendrs: Opendrs,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    record: str,
) -> None:
    with open_directory() as place, ExitStack() as stack:
        path = place / "record.sqlite"
        words = make_lasting(monkeypatch, place / "opendrs.toml", path)
        monkeypatch.chdir(place)
        if record != "absent":
            with SqliteStore(path) as store:
                store.save("platform", {"name": NAME})
            path.chmod(0o644)
        if record == "in use":
            stack.enter_context(SqliteStore(path))
        before = set(place.iterdir())
        opendrs(*words(*command))  # loads what nobody may perhaps not read

        with as_nobody():
            answer = opendrs(*words(*command))

        assert answer.status == 0, answer.err
        assert set(place.iterdir()) == before


@by_root
@pytest.mark.parametrize("hidden", ["record", "directory"])
def test_who_may_not_read_the_record_is_told_which_it_is(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    with open_directory() as place:
        inner = place / "state"
        inner.mkdir(mode=0o700 if hidden == "directory" else 0o755)
        path = inner / "record.sqlite"
        words = make_lasting(monkeypatch, place / "opendrs.toml", path)
        with SqliteStore(path):
            pass
        opendrs(*words("plan"))

        with as_nobody():
            answer = opendrs(*words("plan"))

        assert answer.status == 3
        assert answer.err == f"opendrs: cannot open {path}: Permission denied\n"


@by_root
def test_a_working_directory_that_may_not_be_looked_into_has_no_configuration(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    assert os.stat(tmp_path.parent).st_mode & 0o077 == 0  # noqa: PTH116
    opendrs("show", "demo")

    with as_nobody():
        answer = opendrs("show", "demo")

    assert answer.status == 0, answer.err


def test_a_configuration_that_was_found_is_named(opendrs: Opendrs) -> None:
    Path("opendrs.toml").write_text('[policy]\nname = "balance"\n')

    found = opendrs("plan", "demo", "--format", "json")
    given = opendrs("plan", "demo", "--config", "opendrs.toml")
    shutil.move("opendrs.toml", "other.toml")
    absent = opendrs("plan", "demo")

    assert found.err == "opendrs: using opendrs.toml, found in the working directory\n"
    assert given.err == absent.err == ""
