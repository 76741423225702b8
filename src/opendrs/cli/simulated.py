"""The report of a simulation: run, told, and written to a file."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from opendrs.controller.selection import build_policy
from opendrs.errors import ConfigurationError, UnknownPolicyError
from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.sim.consolidation import read_planetlab, scheme, simulate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.machines import Machines, Tenants
from opendrs.sim.consolidation.workload import Workload

NONE = "none"
Metrics = Mapping[str, float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was simulated, and what came of it.

    Attributes:
        model: Which model.
        policy: Which policy.
        settings: Its settings, as far as they are not the usual ones.
        metrics: The metrics by name.
        notes: What was changed in reading.
    """

    model: str
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return all of it as plain values."""
        return {
            "model": self.model,
            "policy": self.policy,
            "settings": dict(self.settings),
            "metrics": dict(self.metrics),
            "notes": list(self.notes),
        }


def opendrs_report(  # noqa: PLR0913 - one for each option
    work: Workload,
    policy: str | None,
    settings: Mapping[str, object],
    *,
    hosts: int,
    memory: float,
    apart: int,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Return what the default model says.

    Raises:
        ConfigurationError: There is no such policy or setting, or no room.
    """
    name = policy or Consolidate.name
    machines = Machines.of(hosts, memory)
    account = run(
        work,
        _policy(name, settings),
        machines,
        tenants=Tenants.serving(work, machines, apart),
        progress=progress,
    )
    metrics = {**asdict(account), "bound_ratio": account.bound_ratio}
    return Report(
        model="opendrs",
        policy=name,
        settings=settings,
        metrics=metrics,
        notes=work.notes,
    )


def cloudsim_report(path: Path, policy: str | None, hosts: int, seed: int) -> Report:
    """Return what CloudSim 3.0.3 would say, defects included.

    Raises:
        ConfigurationError: There is no such policy, no such file, or no room.
    """
    chosen = scheme(policy or "thr-mmt", seed)
    result = simulate(read_planetlab(path), chosen, hosts)
    fields = asdict(result)
    del fields["energy"]
    metrics = {
        "energy_kwh": result.energy_kwh,
        **fields,
        "slav": result.slav,
        "esv": result.esv,
    }
    return Report(model="cloudsim-3.0.3", policy=str(chosen), metrics=metrics)


def _policy(name: str, settings: Mapping[str, object]) -> Consolidate | None:
    if name == NONE:
        if settings:
            raise ConfigurationError(f"{NONE} has no settings")
        return None
    if name != Consolidate.name:
        raise UnknownPolicyError(
            f"simulate knows the policies {Consolidate.name} and {NONE}, not {name!r}"
        )
    built = build_policy(name, settings, Limits())
    assert isinstance(built, Consolidate)  # noqa: S101 - that is its name
    return built


def require_place(out: Path | None) -> None:
    """Check that there will be a place for the report.

    Raises:
        ConfigurationError: There will be none, or the format is not known.
    """
    if out is None:
        return
    if out.suffix not in (".json", ".csv"):
        raise ConfigurationError(f"{out}: give a name that ends in .json or .csv")
    if not out.absolute().parent.is_dir():
        raise ConfigurationError(f"{out}: there is no directory {out.parent}")


def write_report(report: Report, out: Path | None) -> None:
    """Write *report* to *out*, all of it or nothing.

    Raises:
        ConfigurationError: It cannot be written.
    """
    if out is None:
        return
    text = _as_csv(report) if out.suffix == ".csv" else _as_json(report)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(out)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{out}: {error}") from error


def _as_json(report: Report) -> str:
    return json.dumps(report.document(), indent=2, ensure_ascii=False) + "\n"


def _as_csv(report: Report) -> str:
    row = {"model": report.model, "policy": report.policy, **report.metrics}
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return text.getvalue()
