"""Contract of the access store, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.ports import AccessToken, ActionOrigin, OperatorAction, Role, Session
from opendrs.store import (
    Access,
    DatabaseAccessStore,
    OperatorStore,
    PostgresqlStore,
    SqliteStore,
)
from support.builders import NOON

TOKEN = AccessToken(
    id="k7w2x3ab",
    name="ada",
    role=Role.OPERATOR,
    sha256="0" * 64,
    created_at=NOON,
    created_by="root",
    expires_at=NOON + timedelta(days=90),
)
CREATED = OperatorAction(
    at=NOON,
    user="root",
    command="access create",
    arguments={"id": TOKEN.id},
    origin=ActionOrigin.API,
    address="192.0.2.1",
    token="abcdefgh",  # noqa: S106 - an id
)
REVOKED = replace(CREATED, at=NOON + timedelta(hours=1), command="access revoke")
SESSION = Session(
    sha256="1" * 64,
    token=TOKEN.id,
    created_at=NOON + timedelta(minutes=1),
    expires_at=NOON + timedelta(hours=8),
)
Stores = tuple[DatabaseAccessStore, OperatorStore]


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    store: SqliteStore | PostgresqlStore
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "record.db", Access.OPERATE)
    else:
        url = request.getfixturevalue("postgresql_url")
        store = PostgresqlStore(url, "lab", access=Access.OPERATE)
    with store:
        yield DatabaseAccessStore(store), OperatorStore(store)


def test_token_is_added_once_with_the_audit(stores: Stores) -> None:
    access, operators = stores

    assert access.add_token(TOKEN, CREATED)
    assert not access.add_token(replace(TOKEN, name="eve"), CREATED)

    assert access.token(TOKEN.id) == TOKEN
    assert access.token("unknown") is None
    assert access.tokens() == (TOKEN,)
    assert operators.actions() == (CREATED,)


def test_revocation_ends_the_sessions_once(stores: Stores) -> None:
    access, operators = stores
    access.add_token(TOKEN, CREATED)
    assert access.start_session(SESSION)
    assert access.session(SESSION.sha256) == SESSION

    assert access.revoke(TOKEN.id, REVOKED)
    assert not access.revoke(TOKEN.id, REVOKED)
    assert not access.revoke("unknown", REVOKED)

    assert access.session(SESSION.sha256) is None
    (found,) = access.tokens()
    assert found.revoked_at == REVOKED.at
    assert not found.is_valid(NOON)
    assert not access.start_session(SESSION)
    assert operators.actions() == (CREATED, REVOKED)


def test_single_use_token_starts_one_session(stores: Stores) -> None:
    access, _ = stores
    access.add_token(replace(TOKEN, single_use=True), CREATED)

    assert access.start_session(SESSION)
    assert not access.start_session(replace(SESSION, sha256="2" * 64))

    assert access.session("2" * 64) is None


def test_ended_sessions_are_deleted(stores: Stores) -> None:
    access, _ = stores
    access.add_token(TOKEN, CREATED)
    access.start_session(SESSION)
    later = SESSION.expires_at + timedelta(hours=1)

    access.start_session(replace(SESSION, sha256="2" * 64, created_at=later))
    access.end_session("3" * 64)

    assert access.session(SESSION.sha256) is None
    assert access.session("2" * 64) is not None


def test_expired_single_use_tokens_without_a_session_are_deleted(
    stores: Stores,
) -> None:
    access, operators = stores
    soon, later = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    program = replace(TOKEN, id="program2", expires_at=soon)
    link = replace(program, id="ended222", single_use=True)
    used = replace(link, id="used2222")
    valid = replace(link, id="valid222", expires_at=NOON + timedelta(days=1))
    for each in (TOKEN, program, link, used, valid):
        assert access.add_token(each, CREATED)
    first = replace(SESSION, sha256="2" * 64, token=used.id)
    assert access.start_session(first)

    assert access.start_session(replace(SESSION, created_at=later))

    names = {each.id for each in access.tokens()}
    assert names == {TOKEN.id, program.id, used.id, valid.id}
    assert access.session(first.sha256) == first
    assert len(operators.actions()) == 5


def test_last_use_is_recorded(stores: Stores) -> None:
    access, _ = stores
    access.add_token(TOKEN, CREATED)

    access.record_use(TOKEN.id, NOON + timedelta(minutes=5))

    found = access.token(TOKEN.id)
    assert found is not None
    assert found.last_used_at == NOON + timedelta(minutes=5)


def test_audit_has_pages(stores: Stores) -> None:
    _, operators = stores
    actions = [replace(CREATED, result=f"code-{number}") for number in range(3)]
    for each in actions:
        operators.record(each)

    newest = operators.audit(2)
    assert [each for _, each in newest] == [actions[2], actions[1]]
    assert [each for _, each in operators.audit(5, newest[-1][0])] == [actions[0]]
