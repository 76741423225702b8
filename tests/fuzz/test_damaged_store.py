"""Damaged records: each command that opens one reports it in one line."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from opendrs.agent import AgentStateFile
from opendrs.agent.state_file import AgentState, is_continuous
from opendrs.cli.main import run
from opendrs.controller import SystemClock
from opendrs.errors import StoreError
from opendrs.model import GuestId, LiveMigration, NodeId, PowerOff, Step, StepId
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import (
    CycleRecord,
    Outcome,
    RequestRecord,
    StepRecord,
    TaskId,
    UsageHistory,
)
from opendrs.store import DatabaseRequestStore, MemoryStore, SqliteStore, sqlite
from support.persistent_cluster import (
    PLATFORM_NAME,
    UNREACHABLE_NODE,
    configure_persistent_platform,
)
from support.unprivileged import public_directory, requires_root, unprivileged

NOW = SystemClock().now()
PAGE = 4096
COMMANDS = (
    ("show",),
    ("plan",),
    ("plan", "--format", "json"),
    ("apply", "--yes"),
    ("run", "--once"),
)
Words = Callable[..., list[str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def words(path: Path, monkeypatch: pytest.MonkeyPatch) -> Words:
    return configure_persistent_platform(
        monkeypatch, path.with_name("opendrs.toml"), path
    )


@pytest.fixture(scope="module")
def valid_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a record in which there is something of everything."""
    path = tmp_path_factory.mktemp("sound") / "record.sqlite"
    move = LiveMigration(GuestId("v"), NodeId("b"), NodeId("a"))
    node = {"seen_at": NOW.isoformat(), "cpu": 8.0, "memory": 1 << 34}
    node |= {"architecture": "x86_64", "cpu_model": None}
    with SqliteStore(path) as store:
        store.save("platform", {"name": PLATFORM_NAME})
        store.save("nodes", {UNREACHABLE_NODE: node})
        store.save("memory of auto-rebalance", {"memory": 1})
        for number in range(40):
            ago = NOW - timedelta(minutes=number)
            done = StepRecord(
                run="run",
                step=StepId(f"s{number}"),
                action=PowerOff(UNREACHABLE_NODE) if number == 1 else move,
                intended_at=ago,
                ended_at=ago,
                outcome=Outcome.DONE,
                task=TaskId("task"),
                detail="as it was wished " * 5,
            )
            store.write(done)
        store.write(replace(done, step=StepId("open"), ended_at=None, outcome=None))
        store.record_cycle(CycleRecord(run="run", decided_at=NOW, document={"a": [1]}))
        request = RequestRecord(
            id="one",
            node=NodeId("a"),
            sequence=1,
            taken_at=NOW,
            received_at=NOW,
            interval=300.0,
            digest="",
            load_state="normal",
            evict=(GuestId("v"),),
            host_overhead=(0.5,),
            steps=(Step(StepId("s1"), move),),
        )
        history = UsageHistory(
            guest=GuestId("v"),
            node=NodeId("a"),
            taken_at=NOW,
            interval=300.0,
            samples=(0.1, 0.2),
        )
        DatabaseRequestStore(store).accept(request, [history], keep=5)
    return path


def assert_one_error_line(*arguments: str) -> None:
    """Check that a command ends well, or says in one line why not."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run(arguments)

    said = [
        line
        for line in err.getvalue().splitlines()
        if line.startswith(("opendrs:", '{"code": '))  # of tables, and of JSON
    ]
    of_another = status == 2 and "configure another store" in err.getvalue()
    assert status in (0, 3) or of_another, err.getvalue()
    assert len(said) == (status > 0), err.getvalue()
    assert "bug in opendrs" not in err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert all(len(line) < 700 and line.isprintable() for line in said), said


@contextmanager
def one_short_error() -> Iterator[None]:
    """Accept a short store error; any other exception fails the test."""
    try:
        yield
    except StoreError as error:
        assert_short(str(error))


def assert_short(message: str) -> None:
    assert len(message) < 600
    assert message.isprintable()


def read_everything(path: Path) -> None:
    """Read all that is in a record, as the controller and the interface do."""
    with SqliteStore(path) as store:
        request_store = DatabaseRequestStore(store)
        readers: tuple[Callable[[], object], ...] = (
            store.unfinished,
            lambda: store.recent(NOW - timedelta(days=1)),
            lambda: store.records_of("run"),
            lambda: list(store.cycles()),
            lambda: store.load("nodes"),
            lambda: store.load("platform"),
            request_store.latest_per_node,
            request_store.open_requests,
            lambda: request_store.latest(NodeId("a")),
            lambda: request_store.histories(NOW - timedelta(days=1)),
            lambda: request_store.history(GuestId("v")),
            AgentStateFile(store, "a").load,
        )
        for read in readers:
            with one_short_error():
                read()


def assert_error_lines(words: Words, path: Path) -> None:
    damaged = path.read_bytes()
    for command in COMMANDS:
        path.write_bytes(damaged)  # for some take it over, or write to it
        assert_one_error_line(*words(*command))
    with one_short_error():
        read_everything(path)


def test_valid_store_is_read(words: Words, path: Path, valid_store: Path) -> None:
    restore(valid_store, path)

    for command in COMMANDS:
        path.write_bytes(valid_store.read_bytes())
        assert run(words(*command)) == 0


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.5, 0.9, 0.999])
def test_truncated_store_is_reported(
    words: Words, path: Path, valid_store: Path, share: float
) -> None:
    content = valid_store.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])

    assert_error_lines(words, path)


def test_random_bytes_in_each_page_are_reported(
    words: Words, path: Path, valid_store: Path
) -> None:
    content, draw = valid_store.read_bytes(), Random(1)  # noqa: S311
    assert len(content) > 10 * PAGE
    for start in range(0, len(content), PAGE):
        page = bytearray(content)
        page[start : start + PAGE] = draw.randbytes(PAGE)
        path.write_bytes(page)
        assert_error_lines(words, path)


@pytest.mark.slow
def test_random_bytes_anywhere_are_reported(
    words: Words, path: Path, valid_store: Path
) -> None:
    content, draw = valid_store.read_bytes(), Random(2)  # noqa: S311
    for _ in range(30):
        torn = bytearray(content)
        for _ in range(draw.choice([1, 10, 300])):
            torn[draw.randrange(len(torn))] = draw.randrange(256)
        path.write_bytes(torn)
        assert_error_lines(words, path)


def restore(valid_store: Path, path: Path) -> None:
    """Copy a record to *path*, as a new file.

    SQLite would continue the journal of a connection to the file before.
    """
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(valid_store, path)


def _other_values(draw: Random, value: object) -> object:
    """Return what may stand in place of *value*."""
    plain: list[object] = [None, -1, 2**62, 1e300, b"\xff\x00", "", "x\x1b[2J\n\u202e"]
    plain += ["[" * 100_000, '"\\ud800"', "9" * 5000, "1e999", "NaN", "{}", "[{}]"]
    plain += ["x" * 10_000, "0001-01-01T00:00:00", "2026-11-22", "[null]", "[[1]]"]
    if isinstance(value, str) and value[:1] in ("{", "["):
        plain += [_change_document(draw, value) for _ in range(20)]
    return draw.choice(plain)


def _change_document(draw: Random, text: str) -> str:
    """Return JSON in which one value has become another."""
    document = json.loads(text)
    holders = [document]
    for holder in holders:
        inner = holder.values() if isinstance(holder, dict) else holder
        holders += [part for part in inner if isinstance(part, dict | list)]
    holder = draw.choice([each for each in holders if each] or [{"a": 1}])
    key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    odd: list[object] = [None, [], {}, -1, 1e300, "", "x\n\u202e", ["a"], True, 10**400]
    odd += ["2026-11-22T00:00:00", "0001-01-01T00:00:00+00:00", float("nan")]
    holder[key] = draw.choice(odd)
    return json.dumps(document)


@pytest.mark.slow
def test_other_values_in_each_column_are_reported(
    words: Words, path: Path, valid_store: Path
) -> None:
    draw = Random(3)  # noqa: S311
    connection = sqlite3.connect(valid_store)
    names = "SELECT name FROM sqlite_master WHERE type = 'table'"
    columns = [
        (table, column)
        for (table,) in connection.execute(names).fetchall()
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")
    ]
    connection.close()
    assert len(columns) > 20
    for table, column in columns:
        for _ in range(2):
            restore(valid_store, path)
            connection = sqlite3.connect(path)
            query = f"SELECT rowid, {column} FROM {table}"  # noqa: S608 - our own words
            for row, value in connection.execute(query).fetchall():
                change = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608
                with connection:
                    try:
                        connection.execute(change, (_other_values(draw, value), row))
                    except sqlite3.IntegrityError:  # a column that must not be empty
                        continue
            connection.close()
            assert_error_lines(words, path)


@pytest.mark.parametrize("key", ["platform", "nodes", "memory of auto-rebalance"])
def test_other_values_in_saved_documents_are_reported(
    words: Words, path: Path, valid_store: Path, key: str
) -> None:
    draw = Random(5)  # noqa: S311
    for _ in range(25):
        restore(valid_store, path)
        with closing(sqlite3.connect(path)) as connection, connection:
            query = "SELECT value FROM entries WHERE key = ?"
            ((text,),) = connection.execute(query, (key,)).fetchall()
            change = "UPDATE entries SET value = ? WHERE key = ?"
            connection.execute(change, (_change_document(draw, text), key))
        for command in ("show",), ("run", "--once"):
            assert_one_error_line(*words(*command))


def test_other_values_in_the_agent_state_file_are_reported() -> None:
    memory = Consolidate().initial_memory()
    page = AgentState(node="a", sampled_at=NOW, sequence=1, memory=memory)
    text, draw = page.model_dump_json(), Random(6)  # noqa: S311
    for _ in range(300):
        store = MemoryStore()
        store.save("agent", {"state": _change_document(draw, text)})
        with one_short_error():
            found = AgentStateFile(store, "a").load()
            assert found is not None
            is_continuous(found, NOW, 300.0)


@pytest.mark.parametrize("version", [-1, 0, 3, 99, 2**31 - 1])
def test_other_schema_version_is_reported(
    words: Words, path: Path, valid_store: Path, version: int
) -> None:
    restore(valid_store, path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()

    assert_error_lines(words, path)


def test_missing_tables_are_reported(
    words: Words, path: Path, valid_store: Path
) -> None:
    for table in (
        "entries",
        "steps",
        "requests",
        "usage_histories",
        "cycles",
        "cycle_parts",
        "alembic_version",
    ):
        restore(valid_store, path)
        connection = sqlite3.connect(path)
        connection.execute(f"DROP TABLE {table}")
        connection.close()

        assert_error_lines(words, path)


def test_irregular_store_file_is_reported(words: Words, path: Path) -> None:
    makers: tuple[Callable[[], None], ...] = (
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/"),
    )
    for make in makers:
        make()
        for command in COMMANDS:
            assert_one_error_line(*words(*command))
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_damaged_journal_is_reported(
    words: Words, path: Path, valid_store: Path
) -> None:
    draw = Random(4)  # noqa: S311
    journal = path.with_name(f"{path.name}-journal")
    magic = bytes.fromhex("d9d505f920a163d7")  # as SQLite's journals begin
    for start in (b"", magic, magic + b"\0\0\0\x05"):
        restore(valid_store, path)
        journal.write_bytes(start + draw.randbytes(3 * PAGE))
        for command in COMMANDS:
            assert_one_error_line(*words(*command))
        journal.unlink(missing_ok=True)


def test_locked_store_is_reported(
    words: Words, path: Path, valid_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 1.0)  # instead of 30 s
    restore(valid_store, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for command in ("plan",), ("apply", "--yes"):
            assert_one_error_line(*words(*command))


def test_full_disk_is_reported(words: Words, path: Path, valid_store: Path) -> None:
    for free_space in (0, 100, 10_000):
        for command in ("apply", "--yes"), ("run", "--once"):
            restore(valid_store, path)
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (free_space, before[1]))
            try:
                assert_one_error_line(*words(*command))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)


@requires_root
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_store_of_another_user_is_reported(
    monkeypatch: pytest.MonkeyPatch, valid_store: Path, mode: int
) -> None:
    with public_directory() as place:
        path = place / "record.sqlite"
        words = configure_persistent_platform(monkeypatch, place / "opendrs.toml", path)
        restore(valid_store, path)
        for command in COMMANDS:  # loads modules that the unprivileged user cannot read
            assert_one_error_line(*words(*command))
        restore(valid_store, path)
        path.chmod(mode)
        with unprivileged():
            for command in COMMANDS:
                assert_one_error_line(*words(*command))
