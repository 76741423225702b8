"""Definition of a scenario: an environment, and the policies to run in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from opendrs.model import format_count
from opendrs.policies import Policy
from opendrs.simulation.cloudsim.schemes import CloudSimScheme
from opendrs.simulation.hardware import SimulationBehavior
from opendrs.simulation.scenario.guests import GuestOptions
from opendrs.simulation.scenario.hosts import DEFAULT_HOSTS, HostPool
from opendrs.simulation.traces import WindowSettings
from opendrs.simulation.traces.window import WHOLE_TRACE
from opendrs.simulation.workload import SyntheticSettings


class SimulationModel(StrEnum):
    """Model of the data center."""

    OPENDRS = "opendrs"
    CLOUDSIM = "cloudsim-3.0.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWorkload:
    """Workload from a file.

    Attributes:
        kind: Name of the reader.
        path: File or directory.
        window: Part of the trace to use.
    """

    kind: str
    path: Path
    window: WindowSettings = WHOLE_TRACE


WorkloadSource = RecordedWorkload | SyntheticSettings


def source_name(source: WorkloadSource) -> str:
    """Return the display name of *source*."""
    if isinstance(source, RecordedWorkload):
        parts = [
            f"{each.name} {getattr(source.window, each.name):g}"
            for each in fields(WindowSettings)
            if getattr(source.window, each.name) != getattr(WHOLE_TRACE, each.name)
        ]
        return ", ".join([source.path.name or str(source.path), *parts])
    days = format_count(source.days, "day")
    guests = format_count(source.guests, "guest")
    return f"synthetic, {guests}, {days}, seed {source.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """Policy to run.

    Attributes:
        label: Label in the results.
        name: Name of the policy.
        settings: Settings that were given.
        policy: The policy; None for no migrations, or a scheme of CloudSim.
    """

    label: str
    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    policy: Policy[Any] | CloudSimScheme | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationEnvironment:
    """Inputs of a run except the policy.

    Attributes:
        model: Simulation model.
        source: Source of the workload.
        pools: The hosts.
        guests: Options of the guests besides their load.
        behavior: Duration and cost of power actions and migrations.
    """

    model: SimulationModel
    source: WorkloadSource
    pools: tuple[HostPool, ...] = DEFAULT_HOSTS
    guests: GuestOptions = field(default_factory=GuestOptions)
    behavior: SimulationBehavior = field(default_factory=SimulationBehavior)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationScenario:
    """Environment and the policies to run in it.

    Attributes:
        title: Title given by the operator; empty if there is none.
        environment: The environment.
        policy_runs: The policies; labels are unique.
    """

    title: str = ""
    environment: SimulationEnvironment
    policy_runs: tuple[PolicyRun, ...]
