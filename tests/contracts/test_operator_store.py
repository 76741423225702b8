"""Contract of the operator store, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.errors import LeaseLostError
from opendrs.ports import OperatorAction
from opendrs.store import Access, OperatorStore, PostgresqlStore, SqliteStore
from support.builders import NOON

Open = Callable[[Access], AbstractContextManager[SqliteStore | PostgresqlStore]]
DRAIN = "operator/drain/n1"


@pytest.fixture(params=["sqlite", "postgresql"])
def open_as(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "sqlite":
        return lambda access: SqliteStore(tmp_path / "record.db", access)
    url = request.getfixturevalue("postgresql_url")
    return lambda access: PostgresqlStore(url, "lab", access=access)


def action(minute: int = 0, **arguments: object) -> OperatorAction:
    return OperatorAction(
        at=NOON + timedelta(minutes=minute),
        user="ada",
        command="drain",
        arguments=arguments,
    )


def test_operator_changes_state_while_controller_runs(open_as: Open) -> None:
    with open_as(Access.CONTROL) as controller, open_as(Access.OPERATE) as store:
        operator = OperatorStore(store)
        operator.change(action(node="n1"), {DRAIN: {"by": "ada"}})
        controller.save("policy", {"name": "balance"})

        assert controller.load(DRAIN) == {"by": "ada"}
        assert operator.actions() == (action(node="n1"),)


def test_none_deletes_the_entry(open_as: Open) -> None:
    with open_as(Access.OPERATE) as store:
        operator = OperatorStore(store)
        operator.change(action(), {DRAIN: {"by": "ada"}, "operator/mode": {}})
        operator.change(action(1), {DRAIN: None})

        assert store.load_all("operator/") == {"operator/mode": {}}
        assert operator.actions(NOON + timedelta(seconds=1)) == (action(1),)


def test_keys_of_the_controller_are_rejected(open_as: Open) -> None:
    with open_as(Access.OPERATE) as store:
        operator = OperatorStore(store)

        with pytest.raises(ValueError, match="keys that operators set"):
            operator.change(action(), {DRAIN: {}, "policy": {}})

        assert operator.actions() == ()
        assert store.load_all("") == {}


def test_operator_takes_no_lease(open_as: Open) -> None:
    with (
        open_as(Access.OPERATE),
        open_as(Access.OPERATE),
        open_as(Access.CONTROL),
        pytest.raises(LeaseLostError),
        open_as(Access.CONTROL),
    ):
        pass


def test_actions_of_the_future_are_corrected(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        operator = OperatorStore(store)
        operator.change(action(5), {})

        assert store.correct_times(NOON) == 1
        assert operator.actions() == (action(),)
