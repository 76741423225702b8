"""Commands that only read need no write permission for a record or its directory."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from opendrs.store import SqliteStore
from support.persistent_cluster import PLATFORM_NAME, configure_persistent_platform
from support.terminal import RunOpendrs
from support.unprivileged import public_directory, requires_root, unprivileged

READING_COMMANDS = [
    ("show",),
    ("plan",),
    ("compare", "--policy", "balance"),
    ("check",),
    ("record", "-o", "-"),
]


@requires_root
@pytest.mark.parametrize("record", ["absent", "there", "in use"])
@pytest.mark.parametrize("command", READING_COMMANDS, ids=lambda words: words[0])
def test_read_only_user_can_show_and_plan(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    record: str,
) -> None:
    with public_directory() as place, ExitStack() as stack:
        path = place / "record.sqlite"
        words = configure_persistent_platform(monkeypatch, place / "opendrs.toml", path)
        monkeypatch.chdir(place)
        if record != "absent":
            with SqliteStore(path) as store:
                store.save("platform", {"name": PLATFORM_NAME})
            path.chmod(0o644)
        if record == "in use":
            stack.enter_context(SqliteStore(path))
        before = set(place.iterdir())
        opendrs(
            *words(*command)
        )  # loads modules that the unprivileged user may be unable to read

        with unprivileged():
            answer = opendrs(*words(*command))

        assert answer.status == 0, answer.err
        assert set(place.iterdir()) == before


@requires_root
@pytest.mark.parametrize("hidden", ["record", "directory"])
def test_unreadable_store_is_named(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    with public_directory() as place:
        inner = place / "state"
        inner.mkdir(mode=0o700 if hidden == "directory" else 0o755)
        path = inner / "record.sqlite"
        words = configure_persistent_platform(monkeypatch, place / "opendrs.toml", path)
        with SqliteStore(path):
            pass
        opendrs(*words("plan"))

        with unprivileged():
            answer = opendrs(*words("plan"))

        assert answer.status == 3
        assert answer.err == f"opendrs: cannot open {path}: Permission denied\n"


@requires_root
def test_unreadable_working_directory_has_no_configuration(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    assert os.stat(tmp_path.parent).st_mode & 0o077 == 0  # noqa: PTH116
    opendrs("show", "demo")

    with unprivileged():
        answer = opendrs("show", "demo")

    assert answer.status == 0, answer.err


def test_default_configuration_is_named(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text('[policy]\nname = "balance"\n')

    found = opendrs("plan", "demo", "--format", "json")
    given = opendrs("plan", "demo", "--config", "opendrs.toml")
    shutil.move("opendrs.toml", "other.toml")
    absent = opendrs("plan", "demo")

    assert found.err == "opendrs: using ./opendrs.toml\n"
    assert given.err == absent.err == ""
