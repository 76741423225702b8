"""What a sweep runs: each trial is a stage, who is tried on it, and a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from opendrs import __version__
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Recorded,
    Source,
    Stage,
)
from opendrs.sim.consolidation.schemes import Migrating
from opendrs.sim.consolidation.synthetic import Synthetic


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a sweep.

    Attributes:
        stage: All that it needs but the policy.
        contender: The policy.
        seed: Of what is drawn by chance.
        chosen: What else was chosen for it where there was a choice, by name.
    """

    stage: Stage
    contender: Contender
    seed: int
    chosen: Mapping[str, object] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What people call the policy and what else was chosen."""
        return joined(self.contender.label, self.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All runs of a sweep.

    Attributes:
        title: What the operator calls it; empty when it has no name.
        trials: The runs; no two are the same.
    """

    title: str = ""
    trials: tuple[Trial, ...]

    def inputs(self) -> Iterator[Path]:
        """Yield the files that it reads."""
        for source in {trial.stage.source: None for trial in self.trials}:
            if isinstance(source, Recorded):
                yield source.path


def seeded(source: Source, seed: int) -> Source:
    """Return *source* with that seed, if anything of it is drawn."""
    return replace(source, seed=seed) if isinstance(source, Synthetic) else source


def sown(contender: Contender, seed: int) -> Contender:
    """Return *contender* with that seed, unless its settings say another."""
    policy = contender.policy
    if isinstance(policy, Consolidate | Migrating) and "seed" not in contender.settings:
        return replace(contender, policy=replace(policy, seed=seed))
    return contender


def parameters_of(trial: Trial, digest: str) -> dict[str, object]:
    """Return all that the result of *trial* depends on, as plain values.

    Args:
        trial: The run.
        digest: That of its load; see `digest_of`.
    """
    stage, policy = trial.stage, trial.contender.policy
    decides = asdict(policy) if isinstance(policy, Consolidate) else str(policy)
    return {
        "opendrs": __version__,
        "model": stage.model.value,
        "load": digest,
        "hosts": [asdict(pool) for pool in stage.pools],
        "guests": asdict(stage.guests),
        "behaviour": asdict(stage.behaviour),
        "policy": decides,
        "seed": trial.seed,
    }


def canonical(parameters: Mapping[str, object]) -> str:
    """Return *parameters* as JSON, the same for the same values."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"))


def identity_of(parameters: Mapping[str, object]) -> str:
    """Return what tells a run with *parameters* from any other."""
    return hashlib.sha256(canonical(parameters).encode()).hexdigest()[:32]


def joined(label: str, chosen: Mapping[str, object]) -> str:
    """Return *label* with what was chosen."""
    return " ".join([label, *(f"{name}={_word(chosen[name])}" for name in chosen)])


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
