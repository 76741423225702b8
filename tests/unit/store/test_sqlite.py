"""The record in a file: safe, private, and one process at a time."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from opendrs.errors import LeaseLostError, StoreError
from opendrs.model import GuestId, LiveMigration, NodeId, StepId
from opendrs.ports import (
    CycleRecord,
    Outcome,
    RequestRecord,
    RequestState,
    StepRecord,
)
from opendrs.store import Access, DatabaseRequestStore, SqliteStore
from opendrs.store.tables import METADATA
from support.builders import NOON
from support.unprivileged import public_directory, requires_root, unprivileged

RECORD = StepRecord(
    run="run",
    step=StepId("1"),
    action=LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b")),
    intended_at=NOON,
)
REQUEST = RequestRecord(
    id="one",
    node=NodeId("a"),
    sequence=1,
    taken_at=NOON,
    received_at=NOON,
    interval=300.0,
    digest="",
    load_state="normal",
)


READ_COUNT = """
import sys
from pathlib import Path
from opendrs.store import Access, SqliteStore
with SqliteStore(Path(sys.argv[1]), Access.OPERATE) as store:
    print(store.load("key")["count"])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.db"


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let writing beyond *size* bytes fail, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_reopened_store_returns_records(path: Path) -> None:
    with SqliteStore(path) as store:
        store.write(RECORD)
        store.save("key", {"value": 1})

    with SqliteStore(path) as store:
        assert store.unfinished() == (RECORD,)
        assert store.load("key") == {"value": 1}


def test_records_survive_killed_process(path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from opendrs.store import SqliteStore\n"
        "with SqliteStore(Path(sys.argv[1])) as store:\n"
        "    store.save('key', {'value': 1})\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", program, str(path)], check=False
    )

    # The lease of the dead is free as well.
    with SqliteStore(path) as store:
        assert store.load("key") == {"value": 1}
    assert ended.returncode == -signal.SIGKILL


def test_store_files_are_private(path: Path) -> None:
    nested = path.parent / "state" / "record.db"
    with SqliteStore(nested):
        modes = [entry.stat().st_mode & 0o777 for entry in nested.parent.iterdir()]

    assert modes == [0o600] * len(modes)
    assert nested.parent.stat().st_mode & 0o777 == 0o700


def test_second_process_gets_lease_error_with_pid(path: Path) -> None:
    with (
        SqliteStore(path),
        pytest.raises(LeaseLostError, match=f"locked by process {os.getpid()}"),
        SqliteStore(path),
    ):
        pytest.fail("two were let in")


def test_failed_second_open_keeps_lease(path: Path) -> None:
    with SqliteStore(path):
        for _ in range(2):
            with pytest.raises(LeaseLostError):
                SqliteStore(path).__enter__()


def test_the_lease_is_free_after_use(path: Path) -> None:
    with SqliteStore(path):
        pass

    with SqliteStore(path) as again:
        assert again.unfinished() == ()


def test_the_lease_is_free_after_a_failure(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look at " * 50)
    for _ in range(2):
        with pytest.raises(StoreError, match="not a database"):
            SqliteStore(path).__enter__()


def test_newer_schema_version_is_rejected(path: Path) -> None:
    with SqliteStore(path):
        pass
    change(path, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(
        StoreError, match=r"newer opendrs: .* got version 9999"
    ) as raised:
        SqliteStore(path).__enter__()
    assert str(path) in str(raised.value)


FORMER_VERSIONS_REJECT = 4


def of_version(number: int, path: Path) -> Path:
    """Return a store as that version wrote it: one migration is in progress."""
    shutil.copy(Path(__file__).with_name(f"version-{number}.sqlite"), path)
    return path


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version


def check_what_version_1_wrote(store: SqliteStore) -> None:
    records = store.recent(NOON)
    outcomes = [record.outcome for record in records]
    assert outcomes == [Outcome.DONE, Outcome.FAILED, Outcome.DONE, None]
    assert records[1].detail == "the disk is full"
    assert store.unfinished() == records[3:]
    assert store.load("platform") == {"name": "lab"}
    assert store.load("memory of auto-rebalance") == {"memory": 2}


def test_schema_version_1_is_migrated(path: Path) -> None:
    with SqliteStore(of_version(1, path)) as store:
        check_what_version_1_wrote(store)
        store.record_cycle(CycleRecord(run="run", decided_at=NOON, document={"a": 1}))
        DatabaseRequestStore(store).accept(REQUEST, [], keep=1)

    with SqliteStore(path) as store:
        check_what_version_1_wrote(store)
        assert len(list(store.cycles())) == 1
        assert DatabaseRequestStore(store).latest_per_node() == (REQUEST,)
    assert version_of(path) == FORMER_VERSIONS_REJECT


def test_schema_version_2_is_migrated_to_present_names(path: Path) -> None:
    with SqliteStore(of_version(2, path)) as store:
        outcomes = [record.outcome for record in store.recent(NOON)]
        (request,) = DatabaseRequestStore(store).latest_per_node()

    assert outcomes == [Outcome.DONE, Outcome.REJECTED, Outcome.DONE, None]
    assert (request.load_state, request.state) == ("normal", RequestState.REJECTED)
    assert version_of(path) == FORMER_VERSIONS_REJECT


def test_schema_version_3_is_migrated_with_all_tables(path: Path) -> None:
    with SqliteStore(of_version(3, path)) as store:
        check_what_version_1_wrote(store)
        assert [cycle.document for cycle in store.cycles()] == [{"a": 1}]
        requests = DatabaseRequestStore(store)
        assert [found.evict for found in requests.latest_per_node()] == [("vm",)]
        (history,) = requests.histories(NOON)
        assert history.samples == (0.1, 0.2)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_upgraded_tables_equal_declared_ones(path: Path, number: int) -> None:
    with (
        SqliteStore(of_version(number, path)) as store,
        store.transaction() as upgraded,
    ):
        found = compare_metadata(MigrationContext.configure(upgraded), METADATA)

    assert found == []


def test_read_only_open_does_not_migrate(path: Path) -> None:
    # That version may be at work on it, and could not open it any more.
    with SqliteStore(of_version(1, path), Access.READ) as store:
        check_what_version_1_wrote(store)

    assert version_of(path) == 1


def test_schema_migration_is_atomic(path: Path) -> None:
    change(of_version(1, path), "CREATE TABLE steps (in_the_way)")

    with pytest.raises(StoreError, match="steps already exists"):
        SqliteStore(path).__enter__()

    change(path, "DROP TABLE steps")
    assert version_of(path) == 1
    with SqliteStore(path) as store:
        check_what_version_1_wrote(store)


def test_foreign_database_is_rejected(path: Path) -> None:
    change(path, "CREATE TABLE theirs (x)")

    with pytest.raises(StoreError, match="not a store of opendrs"):
        SqliteStore(path).__enter__()


def test_path_is_directory_raises_store_error(path: Path) -> None:
    path.mkdir()

    with pytest.raises(StoreError, match="Is a directory"):
        SqliteStore(path).__enter__()


def test_directory_not_creatable_raises_store_error(path: Path) -> None:
    path.write_text("in the way")

    with pytest.raises(StoreError, match="cannot create"):
        SqliteStore(path / "record.db").__enter__()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_missing_write_permission_raises_store_error(path: Path) -> None:
    path.parent.chmod(0o500)

    with pytest.raises(StoreError, match="Permission denied"):
        SqliteStore(path).__enter__()


def test_full_disk_raises_store_error(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save("key", {"value": "small"})
        with no_file_larger_than(100_000), pytest.raises(StoreError) as raised:
            store.save("key", {"value": "large" * 100_000})

        assert str(path) in str(raised.value)
        assert store.load("key") == {"value": "small"}


def test_closed_store_raises_store_error(path: Path) -> None:
    with pytest.raises(StoreError, match="not open"):
        SqliteStore(path).unfinished()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE steps SET action = '{}'",
        "UPDATE steps SET action = 'x'",
        'UPDATE steps SET action = \'{"kind": "live-migration", "guest": "vm"}\'',
        "UPDATE steps SET intended_at = 'yesterday'",
        "UPDATE steps SET task = '1', detail = 'x', ended_at = 'never'",
    ],
)
def test_damaged_record_raises_store_error(path: Path, damage: str) -> None:
    with SqliteStore(path) as store:
        store.write(RECORD)
    change(path, damage)

    with SqliteStore(path) as store, pytest.raises(StoreError, match="expected a"):
        store.unfinished()


@pytest.mark.parametrize("damage", ["x", "[1]"])
def test_damaged_value_raises_store_error(path: Path, damage: str) -> None:
    with SqliteStore(path) as store:
        store.save("key", {})
    change(path, f"UPDATE entries SET value = '{damage}'")  # noqa: S608 - our own words

    with SqliteStore(path) as store, pytest.raises(StoreError, match="expected a"):
        store.load("key")


def test_unusable_lease_file_raises_store_error(path: Path) -> None:
    path.with_name(f"{path.name}.lock").mkdir()

    with pytest.raises(StoreError, match=r"cannot open .*record\.db\.lock"):
        SqliteStore(path).__enter__()


def test_lease_holder_without_pid_is_unknown(path: Path) -> None:
    with SqliteStore(path):
        path.with_name(f"{path.name}.lock").write_text("")
        with pytest.raises(LeaseLostError, match="process unknown"):
            SqliteStore(path).__enter__()


def test_read_only_open_works_beside_writer(path: Path) -> None:
    with SqliteStore(path) as working:
        working.save("key", {"count": 1})

        with SqliteStore(path, Access.READ) as reading:
            assert reading.load("key") == {"count": 1}


@pytest.mark.parametrize("access", Access)
def test_second_open_in_the_process_keeps_the_locks(path: Path, access: Access) -> None:
    """Otherwise another process takes itself for the last user, and deletes the log."""
    command = [sys.executable, "-c", READ_COUNT, str(path)]

    def count() -> str:
        return subprocess.run(  # noqa: S603 - our own program
            command, check=True, capture_output=True, text=True
        ).stdout.strip()

    with SqliteStore(path) as store:
        store.save("key", {"count": 1})
        with suppress(LeaseLostError), SqliteStore(path, access) as other:
            assert other.load("key") == {"count": 1}
        assert count() == "1"

        store.save("key", {"count": 2})

        assert count() == "2"


def test_read_only_open_creates_no_file(path: Path) -> None:
    with (
        pytest.raises(StoreError, match="cannot open"),
        SqliteStore(path, Access.READ),
    ):
        pass

    assert not path.exists()


def test_threads_share_the_connection(path: Path) -> None:
    def write(number: int) -> None:
        for step in range(20):
            store.write(replace(RECORD, run=f"run {number}", step=StepId(f"{step}")))

    with SqliteStore(path) as store:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))

        assert len(store.unfinished()) == 80


@pytest.mark.parametrize(
    "damage",
    [
        "cycle_parts SET content = x'00'",
        "cycle_parts SET content = 'text'",
        "cycle_parts SET base = 9",
        "cycles SET decided_at = 'never'",
    ],
)
def test_damaged_cycle_raises_store_error(path: Path, damage: str) -> None:
    with SqliteStore(path) as store:
        store.record_cycle(CycleRecord(run="run", decided_at=NOON, document={}))
    change(path, f"UPDATE {damage}")

    with SqliteStore(path) as store, pytest.raises(StoreError, match="expected a"):
        list(store.cycles())


def test_lease_file_does_not_follow_symlink(path: Path) -> None:
    precious = path.with_name("precious")
    precious.write_text("not to be changed")
    path.with_name(f"{path.name}.lock").symlink_to(precious)

    with pytest.raises(StoreError, match=r"record\.db\.lock: symbolic link"):
        SqliteStore(path).__enter__()

    assert precious.read_text() == "not to be changed"


@pytest.mark.parametrize("there", [False, True])
def test_store_file_does_not_follow_symlink(path: Path, there: bool) -> None:  # noqa: FBT001
    target = path.with_name("elsewhere")
    if there:
        target.touch()
    path.symlink_to(target)

    with pytest.raises(StoreError, match=r"record\.db: symbolic link"):
        SqliteStore(path).__enter__()

    assert target.exists() == there
    assert not there or target.stat().st_size == 0


@pytest.mark.parametrize("name", ["record.db", "record.db.lock"])
def test_named_pipe_is_rejected_without_waiting(path: Path, name: str) -> None:
    os.mkfifo(path.with_name(name))

    with pytest.raises(StoreError, match="expected a regular file"):
        SqliteStore(path).__enter__()
    if name == path.name:
        with pytest.raises(StoreError, match="expected a regular file"):
            SqliteStore(path, Access.READ).__enter__()


def test_lease_error_shows_only_a_pid(path: Path) -> None:
    with SqliteStore(path):
        path.with_name(f"{path.name}.lock").write_text("\x1b[2J" * 1000)
        with pytest.raises(LeaseLostError, match="process unknown"):
            SqliteStore(path).__enter__()


def test_store_being_created_reads_as_empty(path: Path) -> None:
    path.touch()

    with SqliteStore(path, Access.READ) as store:
        assert store.load("key") is None
        assert store.unfinished() == ()

    assert path.stat().st_size == 0


def test_in_memory_store_creates_no_file(path: Path) -> None:
    before = set(path.parent.iterdir())
    with SqliteStore(None) as store:
        store.write(RECORD)
        DatabaseRequestStore(store).accept(REQUEST, [], keep=1)

        assert store.unfinished() == (RECORD,)
        assert DatabaseRequestStore(store).latest_per_node() == (REQUEST,)
        assert set(path.parent.iterdir()) == before


_HOLDING = """
import signal, sys
from pathlib import Path
from opendrs.store import SqliteStore
with SqliteStore(Path(sys.argv[1])) as store:
    with store.transaction() as connection:
        connection.exec_driver_sql(f"PRAGMA cache_size = {sys.argv[2]}")
        connection.exec_driver_sql(
            "INSERT INTO entries VALUES ('new', zeroblob(100000))"
        )
        print("under way", flush=True)
        signal.pause()
"""


@contextmanager
def writing(path: Path, pages: int = 100) -> Iterator[None]:
    """Let another process be in the middle of a change, and kill it there.

    With few *pages* in memory it has written to the file before.
    """
    with subprocess.Popen(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", _HOLDING, str(path), str(pages)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "under way\n"
            yield
        finally:
            process.kill()


@requires_root
@pytest.mark.parametrize("at_work", [False, True])
def test_user_with_read_permission_can_read(at_work: bool) -> None:  # noqa: FBT001
    with public_directory() as place, ExitStack() as stack:
        path = place / "record.db"
        with SqliteStore(path) as store:
            store.write(RECORD)
        path.chmod(0o644)
        if at_work:
            stack.enter_context(SqliteStore(path))
        before = set(place.iterdir())

        with unprivileged(), SqliteStore(path, Access.READ) as store:
            assert store.unfinished() == (RECORD,)
            with pytest.raises(StoreError, match="readonly"):
                store.save("key", {})

        assert set(place.iterdir()) == before


@requires_root
def test_read_only_user_sees_state_before_change() -> None:
    with public_directory() as place:
        path = place / "record.db"
        with SqliteStore(path) as store:
            store.save("key", {"value": 1})
        path.chmod(0o644)

        with writing(path), unprivileged(), SqliteStore(path, Access.READ) as store:
            assert store.load("key") == {"value": 1}
            assert store.load("new") is None


@requires_root
def test_read_only_user_sees_state_before_incomplete_write() -> None:
    with public_directory() as place:
        path = place / "record.db"
        with SqliteStore(path) as store:
            store.save("key", {"value": 1})
        path.chmod(0o644)
        with writing(path, pages=1):
            pass

        with unprivileged(), SqliteStore(path, Access.READ) as store:
            assert store.load("key") == {"value": 1}
            assert store.load("new") is None

        with SqliteStore(path) as store:
            assert store.load("key") == {"value": 1}
            assert store.load("new") is None


@requires_root
def test_user_without_permission_gets_store_error() -> None:
    with public_directory() as place:
        path = place / "record.db"
        with SqliteStore(path):
            pass

        with unprivileged(), pytest.raises(StoreError, match="Permission denied"):
            SqliteStore(path, Access.READ).__enter__()


def test_writer_waits_for_others(path: Path) -> None:
    with SqliteStore(path) as store, store.reading() as connection:
        milliseconds = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()

    assert milliseconds == 30_000


_OPENING = """
import sys
from pathlib import Path
from opendrs.store import Access, SqliteStore
print("ready", flush=True)
for line in sys.stdin:
    try:
        with SqliteStore(Path(line.strip()), Access[sys.argv[1]]) as store:
            store.save(sys.argv[1], {})
            print("open", flush=True)
            sys.stdin.readline()
            assert store.load_all("")
    except Exception as error:
        print(repr(error), flush=True)
        sys.stdin.readline()
"""


@contextmanager
def opening(*accesses: Access) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield processes, each of which opens the files that it is sent."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(  # noqa: S603 - our own interpreter and program
                    [sys.executable, "-c", _OPENING, access.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for access in accesses
        ]
        for process in processes:
            stack.callback(process.kill)
        assert receive(processes) == ["ready"] * len(processes)
        yield processes


def send(processes: Iterable[subprocess.Popen[str]], text: object) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{text}\n")
        process.stdin.flush()


def receive(processes: Iterable[subprocess.Popen[str]]) -> list[str]:
    lines = []
    for process in processes:
        assert process.stdout is not None
        lines.append(process.stdout.readline().rstrip())
    return lines


@pytest.mark.parametrize("existing", [False, True])
def test_processes_started_together_create_one_database(
    tmp_path: Path,
    existing: bool,  # noqa: FBT001
) -> None:
    accesses = Access.OPERATE, Access.CONTROL, Access.OPERATE, Access.OPERATE
    with opening(*accesses) as processes:
        for number in range(6):
            path = tmp_path / f"{number}" / "record.db"
            if existing:
                path.parent.mkdir()
                shutil.copyfile(Path(__file__).with_name("version-3.sqlite"), path)
            send(processes, path)
            assert receive(processes) == ["open"] * len(processes)

            with pytest.raises(LeaseLostError):
                SqliteStore(path).__enter__()
            send(processes, "close")
