"""Databases of earlier revisions are upgraded with their data."""

from __future__ import annotations

import json
import zlib
from contextlib import ExitStack
from datetime import UTC
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, make_url, select, text

from opendrs.errors import LeaseLostError
from opendrs.model import GuestId, LiveMigration, NodeId, PowerOn
from opendrs.ports import CycleRecord
from opendrs.store import Access, PostgresqlStore, SqliteStore
from opendrs.store.tables import CYCLES, METADATA, STEPS
from support.builders import NOON

DOCUMENT = {
    "settings": {"threshold": 0.1},
    "memory": None,
    "snapshot": {"taken_at": "t", "nodes": {"a": {}}, "guests": {}, "rules": []},
    "decision": {"policy": "balance", "reason": "balanced", "detail": "d", "steps": []},
}
STEP_ROWS = {
    "1": '{"kind": "live-migration", "guest": "vm1", "source": "a", "target": "b"}',
    "2": '{"kind": "power-on", "node": "c"}',
}


def create_revision(engine: Engine, revision: str) -> None:
    """Create the tables of *revision* with two steps and two cycles."""
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "opendrs.store:migrations")
        command.upgrade(config, revision)
        time = NOON if engine.dialect.name == "postgresql" else NOON.isoformat()
        for step, action in STEP_ROWS.items():
            connection.execute(
                text(
                    "INSERT INTO steps (run, step, action, intended_at, detail) "
                    "VALUES ('run', :step, :action, :time, '')"
                ),
                {"step": step, "action": action, "time": time},
            )
        for run, document in (("run", DOCUMENT), ("other", {"number": 1})):
            connection.execute(
                text(
                    "INSERT INTO cycles (run, decided_at, document) "
                    "VALUES (:run, :time, :document)"
                ),
                {
                    "run": run,
                    "time": time,
                    "document": zlib.compress(json.dumps(document).encode()),
                },
            )
    engine.dispose()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_first_revision_is_upgraded_with_data(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "store.sqlite"
    with ExitStack() as stack:
        store: SqliteStore | PostgresqlStore
        if database == "sqlite":
            create_revision(create_engine(f"sqlite:///{path}"), "0001")
            path.chmod(0o600)
            store = stack.enter_context(SqliteStore(path))
        else:
            url = request.getfixturevalue("postgresql_url")
            address = make_url(url).set(drivername="postgresql+psycopg")
            create_revision(create_engine(address), "0001")
            store = stack.enter_context(PostgresqlStore(url, "lab"))

        assert [record.action for record in store.records_of("run")] == [
            LiveMigration(GuestId("vm1"), NodeId("a"), NodeId("b")),
            PowerOn(NodeId("c")),
        ]
        assert list(store.cycles()) == [
            CycleRecord(run="run", decided_at=NOON, document=DOCUMENT),
            CycleRecord(run="other", decided_at=NOON, document={"number": 1}),
        ]
        with store.reading() as connection:
            named = select(STEPS.c.guest, STEPS.c.source, STEPS.c.target)
            assert connection.execute(named.order_by(STEPS.c.id)).all() == [
                ("vm1", "a", "b"),
                (None, None, "c"),
            ]
            described = select(CYCLES.c.policy, CYCLES.c.reason, CYCLES.c.detail)
            assert connection.execute(described.order_by(CYCLES.c.id)).all() == [
                ("balance", "balanced", "d"),
                ("", "", ""),
            ]
            context = MigrationContext.configure(connection)
            assert compare_metadata(context, METADATA) == []
        store.record_cycle(
            CycleRecord(run="new", decided_at=NOON.astimezone(UTC), document=DOCUMENT)
        )
        assert len(list(store.cycles())) == 3


@pytest.mark.parametrize("access", [Access.OPERATE, Access.CONTROL])
def test_tables_in_use_are_not_upgraded(postgresql_url: str, access: Access) -> None:
    address = make_url(postgresql_url).set(drivername="postgresql+psycopg")
    engine = create_engine(address)
    create_revision(engine, "0001")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO leases (name, holder, token, expires_at) "
                "VALUES ('lab', 'host:7:x', 1, clock_timestamp() + interval '1 hour')"
            )
        )

    with pytest.raises(LeaseLostError, match="process 7 on host"):
        PostgresqlStore(postgresql_url, "lab", access=access).__enter__()

    with engine.begin() as connection:
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    engine.dispose()
    assert found == "0001"
