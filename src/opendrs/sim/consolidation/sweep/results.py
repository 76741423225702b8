"""The results of sweeps in a Parquet file, a row for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType

from opendrs import __version__
from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.platforms.file import shown_path
from opendrs.platforms.ordinary_files import open_ordinary
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.ledger import Result
from opendrs.sim.consolidation.machines import Behaviour
from opendrs.sim.consolidation.outputs import Columns, Drafts, Value, table_bytes
from opendrs.sim.consolidation.scenario.contenders import settings_of
from opendrs.sim.consolidation.scenario.running import Metrics
from opendrs.sim.consolidation.scenario.scenario import source_name
from opendrs.sim.consolidation.sweep.grid import Trial, canonical, parameters_of

FORMAT = "opendrs-sweep-results/1"
MARK = "opendrs"  # under which a file says that it is one of ours

Row = Mapping[str, Value]

ABOUT = ("id", "model", "workload", "load", "policy", "name", "seed", "hosts")
SETTINGS = tuple(
    f"policy.{each.name}" for each in fields(Consolidate) if each.name != "limits"
)
LIMITED = tuple(each.name for each in fields(Limits) if each.name != "networks")
LIMITS = tuple(f"limits.{name}" for name in LIMITED)
BEHAVIOUR = tuple(f"behaviour.{each.name}" for each in fields(Behaviour))
METRICS = tuple(
    dict.fromkeys(
        [
            *(each.name for each in fields(Account)),
            "bound_ratio",
            *(each.name for each in fields(Result) if each.name != "energy"),
        ]
    )
)
COLUMNS = (*ABOUT, *SETTINGS, *LIMITS, *BEHAVIOUR, *METRICS, "opendrs", "parameters")
_COUNTS = ("seed", "hosts", "migrations", "shutdowns", "wakes", "guests", "guests_left")
_WHOLE = ("last_n", "history", "attempts", "emptied", "seed")
_WORDS = ("detector", "selection", "placement", "server")
TYPES: Mapping[str, type[Value]] = MappingProxyType(
    {
        **dict.fromkeys(COLUMNS, float),
        **dict.fromkeys(ABOUT, str),
        **dict.fromkeys(("opendrs", "parameters"), str),
        **dict.fromkeys(_COUNTS, int),
        **{f"policy.{name}": int for name in _WHOLE},
        **{f"policy.{name}": str for name in _WORDS},
        "policy.power": bool,
    }
)
"""What the values of the columns are; those of later versions tell by themselves."""


def row_of(trial: Trial, identity: str, digest: str, metrics: Metrics) -> Row:
    """Return the row of a run.

    Args:
        trial: The run.
        identity: What tells it from any other.
        digest: That of its load.
        metrics: What came of it.
    """
    stage, policy = trial.stage, trial.contender.policy
    row: dict[str, Value] = {
        **dict.fromkeys(COLUMNS),
        "id": identity,
        "model": stage.model.value,
        "workload": source_name(stage.source),
        "load": digest,
        "policy": trial.label,
        "name": trial.contender.name,
        "seed": trial.seed,
        "hosts": sum(pool.count for pool in stage.pools),
        "opendrs": __version__,
        "parameters": canonical(parameters_of(trial, digest)),
        **metrics,
    }
    if isinstance(policy, Consolidate):
        for name, value in settings_of(policy):
            row[f"policy.{name}"] = _plain(value)
        for name in LIMITED:
            row[f"limits.{name}"] = getattr(policy.limits, name)
        for each in fields(Behaviour):
            row[f"behaviour.{each.name}"] = getattr(stage.behaviour, each.name)
    return row


def renamed(row: Row, trial: Trial) -> Row:
    """Return *row* called as *trial* is: names are no part of an identity."""
    return {
        **row,
        "workload": source_name(trial.stage.source),
        "policy": trial.label,
        "name": trial.contender.name,
    }


def _plain(value: object) -> Value:
    """Return *value* without its enum."""
    if isinstance(value, str):
        return str(value)
    assert value is None or isinstance(value, bool | int | float)  # noqa: S101 - a setting
    return value


def read_results(path: Path) -> list[Row]:
    """Return the rows of the file *path*; none when it is not there.

    Raises:
        InvalidFileError: It cannot be read, or is not the result of a sweep.
    """
    if not path.exists():
        return []
    import pyarrow as pa  # noqa: PLC0415 - takes long
    from pyarrow import parquet  # noqa: PLC0415

    name = shown_path(path)
    try:
        found = parquet.read_table(path, partitioning=None)
        metadata = found.schema.metadata or {}
        if metadata.get(MARK.encode()) != FORMAT.encode():
            raise InvalidFileError(
                f"{name} is not the result of a sweep: give another name with --out"
            )
        rows: list[Row] = found.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise InvalidFileError(f"{name} is no sound Parquet file: {first}") from error
    return rows


def results_bytes(rows: Iterable[Row]) -> bytes:
    """Return the file that holds *rows*, each once, in whatever order they came."""
    ordered = sorted({_order(row): row for row in rows}.values(), key=_order)
    further = sorted({name for row in ordered for name in row} - set(COLUMNS))
    names = [*COLUMNS, *further]
    columns: Columns = {name: [row.get(name) for row in ordered] for name in names}
    return table_bytes(columns, ".parquet", {MARK: FORMAT}, TYPES)


def _order(row: Row) -> tuple[str, ...]:
    seed = row.get("seed")
    number = f"{seed:020}" if isinstance(seed, int) else ""
    return (
        *(str(row.get(name)) for name in ("model", "workload", "policy")),
        number,
        str(row["id"]),
    )


def write_results(path: Path, rows: Iterable[Row]) -> None:
    """Write *rows* to *path*, all of them or nothing; not if they are there already.

    Raises:
        InvalidFileError: They cannot be written.
    """
    content = results_bytes(rows)
    # What is wrong with the path, the writing tells.
    with suppress(OSError), open_ordinary(path) as file:
        if file.read(len(content) + 1) == content:
            return
    with Drafts() as drafts:
        drafts.add(path, content)
