"""What a scenario is: a stage, and who is tried on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from opendrs.policies import Consolidate
from opendrs.sim.consolidation.machines import Behaviour
from opendrs.sim.consolidation.readers.window import WHOLE, Window
from opendrs.sim.consolidation.scenario.guests import Guests
from opendrs.sim.consolidation.scenario.hosts import USUAL, Pool
from opendrs.sim.consolidation.schemes import Scheme
from opendrs.sim.consolidation.synthetic import Synthetic


class Model(StrEnum):
    """What is taken to happen in a data centre."""

    OPENDRS = "opendrs"
    CLOUDSIM = "cloudsim-3.0.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A workload from a file.

    Attributes:
        kind: Which reader reads it.
        path: The file or directory.
        window: Which part of it.
    """

    kind: str
    path: Path
    window: Window = WHOLE


Source = Recorded | Synthetic


def source_name(source: Source) -> str:
    """Return what people call *source*."""
    if isinstance(source, Recorded):
        said = [
            f"{each.name} {getattr(source.window, each.name):g}"
            for each in fields(Window)
            if getattr(source.window, each.name) != getattr(WHOLE, each.name)
        ]
        return ", ".join([source.path.name or str(source.path), *said])
    days = "1 day" if source.days == 1 else f"{source.days} days"
    return f"synthetic, {source.guests} guests, {days}, seed {source.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
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
    policy: Consolidate | Scheme | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All that a run needs but the policy.

    Attributes:
        model: What is taken to happen.
        source: Where the load comes from.
        pools: The hosts.
        guests: What is said of guests besides their load.
        behaviour: What switching hosts and moving guests takes.
    """

    model: Model
    source: Source
    pools: tuple[Pool, ...] = USUAL
    guests: Guests = field(default_factory=Guests)
    behaviour: Behaviour = field(default_factory=Behaviour)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A stage, and who is tried on it.

    Attributes:
        title: What the operator calls it; empty when it has no name.
        stage: The stage.
        contenders: The policies; no two have one label.
    """

    title: str = ""
    stage: Stage
    contenders: tuple[Contender, ...]
