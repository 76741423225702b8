"""What a scenario is: a stage, and who is tried on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim.schemes import CloudSimScheme
from opendrs.simulation.hardware import SimulationBehavior
from opendrs.simulation.scenario.guests import GuestOptions
from opendrs.simulation.scenario.hosts import DEFAULT_HOSTS, HostPool
from opendrs.simulation.traces import WindowSettings
from opendrs.simulation.traces.window import WHOLE_TRACE
from opendrs.simulation.workload import SyntheticSettings


class SimulationModel(StrEnum):
    """What is taken to happen in a data centre."""

    OPENDRS = "opendrs"
    CLOUDSIM = "cloudsim-3.0.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWorkload:
    """A workload from a file.

    Attributes:
        kind: Which reader reads it.
        path: The file or directory.
        window: Which part of it.
    """

    kind: str
    path: Path
    window: WindowSettings = WHOLE_TRACE


WorkloadSource = RecordedWorkload | SyntheticSettings


def source_name(source: WorkloadSource) -> str:
    """Return what people call *source*."""
    if isinstance(source, RecordedWorkload):
        parts = [
            f"{each.name} {getattr(source.window, each.name):g}"
            for each in fields(WindowSettings)
            if getattr(source.window, each.name) != getattr(WHOLE_TRACE, each.name)
        ]
        return ", ".join([source.path.name or str(source.path), *parts])
    days = "1 day" if source.days == 1 else f"{source.days} days"
    return f"synthetic, {source.guests} guests, {days}, seed {source.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """A policy that is tried.

    Attributes:
        label: What people call it.
        name: Its name.
        settings: Its settings, as far as they were given.
        policy: What decides: `consolidate`, None for nobody, or a scheme of CloudSim.
    """

    label: str
    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    policy: Consolidate | CloudSimScheme | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationEnvironment:
    """All that a run needs but the policy.

    Attributes:
        model: What is taken to happen.
        source: Where the load comes from.
        pools: The hosts.
        guests: What is said of guests besides their load.
        behavior: What switching hosts and moving guests takes.
    """

    model: SimulationModel
    source: WorkloadSource
    pools: tuple[HostPool, ...] = DEFAULT_HOSTS
    guests: GuestOptions = field(default_factory=GuestOptions)
    behavior: SimulationBehavior = field(default_factory=SimulationBehavior)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationScenario:
    """A stage, and who is tried on it.

    Attributes:
        title: What the operator calls it; empty when it has no name.
        environment: The stage.
        policy_runs: The policies; no two have one label.
    """

    title: str = ""
    environment: SimulationEnvironment
    policy_runs: tuple[PolicyRun, ...]
