"""Grid of a sweep: trials of an environment, a policy and a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path

from opendrs import __version__
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize
from opendrs.simulation.cloudsim import MigrationScheme
from opendrs.simulation.scenario.candidates import label_with_settings
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    RecordedWorkload,
    SimulationEnvironment,
    WorkloadSource,
)
from opendrs.simulation.workload import SyntheticSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a sweep.

    Attributes:
        environment: Inputs of the run except the policy.
        policy_run: The policy.
        seed: Seed of random choices.
        chosen: Other values chosen from lists, by name.
    """

    environment: SimulationEnvironment
    policy_run: PolicyRun
    seed: int
    chosen: Mapping[str, object] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Label of the policy with the other chosen values."""
        return label_with_settings(self.policy_run.label, self.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepGrid:
    """All runs of a sweep.

    Attributes:
        title: Title given by the operator; empty if there is none.
        trials: The runs; all are distinct.
    """

    title: str = ""
    trials: tuple[Trial, ...]

    def inputs(self) -> Iterator[Path]:
        """Yield the files that the sweep reads."""
        for source in {trial.environment.source: None for trial in self.trials}:
            if isinstance(source, RecordedWorkload):
                yield source.path


def with_source_seed(source: WorkloadSource, seed: int) -> WorkloadSource:
    """Return *source* with that seed, if it is synthetic."""
    return (
        replace(source, seed=seed) if isinstance(source, SyntheticSettings) else source
    )


def with_policy_seed(policy_run: PolicyRun, seed: int) -> PolicyRun:
    """Return *policy_run* with that seed, unless its settings contain one."""
    policy = policy_run.policy
    if (
        isinstance(policy, Consolidate | Optimize | MigrationScheme)
        and "seed" not in policy_run.settings
    ):
        return replace(policy_run, policy=replace(policy, seed=seed))
    return policy_run


def trial_parameters(trial: Trial, digest: str) -> dict[str, object]:
    """Return all values that the result of *trial* depends on, as plain values.

    Args:
        trial: The run.
        digest: Digest of its load; see `load_digest`.
    """
    environment, policy = trial.environment, trial.policy_run.policy
    policy_parameters: object = str(policy)  # a scheme of CloudSim, or None
    if isinstance(policy, Consolidate):
        policy_parameters = asdict(policy)
    elif trial.policy_run.name in BUILT_IN_POLICIES and is_dataclass(policy):
        policy_parameters = {"name": trial.policy_run.name, **asdict(policy)}
    return {
        "opendrs": __version__,
        "model": environment.model.value,
        "load": digest,
        "hosts": [asdict(pool) for pool in environment.pools],
        "guests": asdict(environment.guests),
        "behavior": asdict(environment.behavior),
        "policy": policy_parameters,
        "seed": trial.seed,
    }


def canonical_json(parameters: Mapping[str, object]) -> str:
    """Return *parameters* as JSON that is equal for equal values."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"))


def trial_identity(parameters: Mapping[str, object]) -> str:
    """Return the unique identity of a run with *parameters*."""
    return hashlib.sha256(canonical_json(parameters).encode()).hexdigest()[:32]
