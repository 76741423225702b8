"""Databases of each earlier revision are upgraded with the data of all their tables."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Connection,
    Engine,
    Table,
    column,
    create_engine,
    insert,
    inspect,
    make_url,
    select,
    table,
)

from opendrs.model import (
    GIB,
    GuestId,
    MigrationLoad,
    NodeId,
    StepId,
    Usage,
    time_from_text,
)
from opendrs.ports import (
    CycleRecord,
    MigrationRates,
    OperatorAction,
    Outcome,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
    RequestRecord,
    StepRecord,
    TaskId,
    UsageHistory,
)
from opendrs.store import (
    DatabaseAccessStore,
    DatabaseEventLog,
    DatabasePlanStore,
    DatabaseRequestStore,
    DatabaseStore,
    OperatorStore,
    PostgresqlStore,
    SqliteStore,
)
from opendrs.store.tables import METADATA, UtcTime
from support.builders import NOON
from support.simulated_cluster import migration, step

LATER = NOON + timedelta(minutes=5)
CONFIG = Config()
CONFIG.set_main_option("script_location", "opendrs.store:migrations")
HEAD, *EARLIER = (
    each.revision for each in ScriptDirectory.from_config(CONFIG).walk_revisions()
)
CYCLES = tuple(
    CycleRecord(
        run=run,
        decided_at=NOON,
        document={
            "settings": {"threshold": 0.1},
            "memory": None,
            "snapshot": {"taken_at": "t", "nodes": {"h1": {}}, "guests": guests},
            "decision": {"policy": "balance", "reason": "r", "detail": "", "steps": []},
        },
    )
    for run, guests in (("run", {"vm1": {"cpu": 1}}), ("next", {"vm1": {"cpu": 2}}))
)
USAGE = Usage(cpu=1.0, memory=GIB)
STEPS = (
    StepRecord(
        run="run",
        step=StepId("1"),
        action=migration("vm1", "h1", "h2"),
        intended_at=NOON,
        task=TaskId("UPID"),
        ended_at=LATER,
        outcome=Outcome.DONE,
        detail="ünder way",
        load=MigrationLoad(USAGE, USAGE, USAGE),
        rates=MigrationRates(bandwidth=1e9, dirty_rate=1e6),
    ),
    StepRecord(
        run="run",
        step=StepId("2"),
        action=migration("vm2", "h1", "h2"),
        intended_at=NOON,
    ),
)
REQUEST = RequestRecord(
    id="r1",
    node=NodeId("h1"),
    sequence=1,
    taken_at=NOON,
    received_at=LATER,
    interval=300.0,
    digest="d",
    load_state="overloaded",
    evict=(GuestId("vm1"),),
    host_overhead=(0.1,),
)
HISTORY = UsageHistory(
    guest=GuestId("vm1"),
    node=NodeId("h1"),
    taken_at=NOON,
    interval=300.0,
    samples=(0.25, 0.5),
)
PLAN = PlanRecord(
    id="p1",
    run="run",
    created_at=NOON,
    lifetime=3600.0,
    policy="balance",
    reason="improves-balance",
    reason_detail="",
    steps=(step("1", migration("vm1", "h1", "h2")),),
    groups=((StepId("1"),),),
    digest="digest",
    snapshot="snapshot",
    state=PlanState.PROPOSED,
    changed_at=NOON,
)
APPROVAL = PlanApproval(user="ada", at=LATER, steps=(StepId("1"),), digest="digest")
PAUSE = OperatorAction(at=NOON, user="ada", command="pause", arguments={"for": 60})


def fill(store: DatabaseStore) -> None:
    """Write data to each table."""
    store.save("memory/balance", {"high_since": "t"})
    for record in STEPS:
        store.write(record)
    for cycle in CYCLES:
        store.record_cycle(cycle)
    DatabaseRequestStore(store).accept(REQUEST, [HISTORY], keep=10)
    OperatorStore(store).change(PAUSE, {"operator/pause": {"because": "backup"}})
    plans = DatabasePlanStore(store)
    assert plans.add(PLAN)
    approved = PlanChange(state=PlanState.APPROVED, at=LATER, approval=APPROVAL)
    assert plans.change(PLAN.id, approved)


def contents(store: DatabaseStore, revision: str) -> dict[str, Any]:
    """Return what the interfaces read of the data that *revision* has."""
    requests = DatabaseRequestStore(store)
    steps: tuple[StepRecord, ...] = store.records_of("run")
    if revision < "0005":
        steps = tuple(replace(each, load=None) for each in steps)
    if revision < "0006":
        steps = tuple(replace(each, rates=MigrationRates()) for each in steps)
    return {
        "entries": store.load_all(""),
        "steps": steps,
        "unfinished": [each.step for each in store.unfinished()],
        "cycles": list(store.cycles()),
        "requests": requests.latest_per_node(),
        "histories": requests.histories(NOON),
        "actions": OperatorStore(store).actions() if revision >= "0002" else (),
        "plans": DatabasePlanStore(store).plans() if revision >= "0003" else (),
    }


def create_revision(engine: Engine, revision: str, source: SqliteStore) -> None:
    """Create the tables of *revision* with the rows of *source*."""
    with engine.begin() as connection, source.reading() as origin:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "opendrs.store:migrations")
        command.upgrade(config, revision)
        for name in inspect(connection).get_table_names():
            if name not in (*METADATA.tables, "cycles"):
                continue  # alembic_version
            rows = list(rows_of(METADATA.tables[name], origin, connection))
            assert rows or name == "leases"
            if rows:
                of_revision = METADATA.tables[name]
                columns = [
                    column(each, of_revision.c[each].type)
                    if each in of_revision.c
                    else column(each)
                    for each in rows[0]
                ]
                connection.execute(insert(table(name, *columns)), rows)
    engine.dispose()


def rows_of(
    of_table: Table, origin: Connection, target: Connection
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with the columns that *target* has."""
    present = {each["name"] for each in inspect(target).get_columns(of_table.name)}
    # Generated numbers stay generated; rows follow in the same order.
    copied = [c for c in of_table.c if c.name in present and c.identity is None]
    order = select(*copied).order_by(*of_table.primary_key.columns)
    for number, row in enumerate(origin.execute(order).all()):
        values = dict(zip((c.name for c in copied), row, strict=True))
        for each in copied:
            if isinstance(each.type, UtcTime) and values[each.name] is not None:
                values[each.name] = time_from_text(values[each.name])
        if "document" in present:
            document = json.dumps(CYCLES[number].document)
            values["document"] = zlib.compress(document.encode())
        yield values


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store of the present revision with data."""
    with SqliteStore(tmp_path / "source.sqlite") as store:
        fill(store)
        yield store


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("revision", sorted(EARLIER))
def test_earlier_revision_is_upgraded_with_data(
    revision: str,
    database: str,
    source: SqliteStore,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    path = tmp_path / "store.sqlite"
    with ExitStack() as stack:
        store: SqliteStore | PostgresqlStore
        if database == "sqlite":
            create_revision(create_engine(f"sqlite:///{path}"), revision, source)
            path.chmod(0o600)
            store = stack.enter_context(SqliteStore(path))
        else:
            url = request.getfixturevalue("postgresql_url")
            address = make_url(url).set(drivername="postgresql+psycopg")
            create_revision(create_engine(address), revision, source)
            store = stack.enter_context(PostgresqlStore(url, "lab"))

        assert contents(store, revision) == contents(source, revision)
        with store.reading() as connection:
            context = MigrationContext.configure(connection)
            assert context.get_current_revision() == HEAD
            assert compare_metadata(context, METADATA) == []
        new = CycleRecord(run="new", decided_at=LATER, document=CYCLES[0].document)
        store.record_cycle(new)
        assert list(store.cycles())[-1] == new
        assert DatabaseEventLog(store).newest(10) == ()
        assert DatabaseAccessStore(store).tokens() == ()
