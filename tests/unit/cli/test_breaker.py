"""opendrs breaker: state and reset of the circuit breaker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from opendrs.controller.modes import API_BREAKER_KEY, BREAKER_KEY
from opendrs.store import Access, OperatorStore, SqliteStore
from support.persistent_cluster import configure_persistent_platform
from support.terminal import RunOpendrs

Words = Callable[..., list[str]]
ENTRY = {"opened_at": "2026-11-21T12:00:00.000000+00:00", "detail": "5 failed steps"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def words(path: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    return configure_persistent_platform(
        monkeypatch, path.with_name("opendrs.toml"), path
    )


def open_breaker(path: Path, key: str = BREAKER_KEY) -> None:
    with SqliteStore(path) as store:
        store.save("platform", {"name": "lab"})
        store.save(key, ENTRY)


def test_breaker_of_a_new_platform_is_closed(opendrs: RunOpendrs, words: Words) -> None:
    result = opendrs(*words("breaker"))

    assert result.status == 0
    assert result.out.splitlines() == [
        "circuit breaker: closed",
        "API circuit breaker: closed",
    ]


def test_open_api_breaker_is_shown_and_reset(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    open_breaker(path, API_BREAKER_KEY)

    document = opendrs(*words("breaker", "--format", "json"))
    reset = opendrs(*words("breaker", "--reset"))

    assert (document.status, reset.status) == (1, 0)
    assert json.loads(document.out) == {"open": False, "api": ENTRY}


def test_open_breaker_is_shown_with_its_reason(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    open_breaker(path)

    table, document = (
        opendrs(*words("breaker")),
        opendrs(*words("breaker", "--format", "json")),
    )

    assert table.status == document.status == 1
    assert "open since 2026-11-21 12:00:00 UTC: 5 failed steps" in table.out
    assert "opendrs breaker lab --reset" in table.out
    assert json.loads(document.out) == {"open": True, **ENTRY, "api": None}


def test_reset_closes_it_while_a_controller_runs(
    opendrs: RunOpendrs, words: Words, path: Path
) -> None:
    open_breaker(path)

    with SqliteStore(path) as controller:
        result = opendrs(*words("breaker", "--reset", "--because", "repaired"))
        assert controller.load(BREAKER_KEY) is None

    assert result.status == 0
    with SqliteStore(path, Access.READ) as store:
        (action,) = OperatorStore(store).actions()
    assert action.command == "breaker --reset"
    assert action.arguments == {"because": "repaired"}
    assert action.user


def test_because_without_reset_is_an_error(opendrs: RunOpendrs, words: Words) -> None:
    assert opendrs(*words("breaker", "--because", "x")).status == 2


def test_unknown_platform_is_an_error(opendrs: RunOpendrs, words: Words) -> None:
    config = words("breaker")[-1]

    result = opendrs("breaker", "gone", "--config", config)

    assert result.status == 2
    assert "gone" in result.err


@pytest.mark.parametrize(
    ("pause", "ends"),
    [(False, ""), (True, "the pause and ")],
    ids=["open", "and pause"],
)
def test_mode_names_the_mode_after_the_reset(
    opendrs: RunOpendrs, words: Words, path: Path, ends: str, *, pause: bool
) -> None:
    open_breaker(path)
    opendrs(*words("mode", "automatic"))
    if pause:
        opendrs(*words("pause", "--for", "2 h", "--because", "upgrade"))

    result = opendrs(*words("mode"))

    after = f"after {ends}opendrs breaker lab --reset: mode automatic"
    assert after in " ".join(result.out.split())
