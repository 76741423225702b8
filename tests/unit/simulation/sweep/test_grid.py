"""Identity of a run depends on all its inputs and on nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.sweep.grid import (
    Trial,
    canonical_json,
    trial_identity,
    trial_parameters,
)
from support.sweeps import sweep_grid


def trial(**tables: Any) -> Trial:  # noqa: ANN401 - a document
    return sweep_grid(**tables).trials[0]


def identity(of: Trial, digest: str = "digest") -> str:
    return trial_identity(trial_parameters(of, digest))


DEFAULT_IDENTITY = identity(trial())


@pytest.mark.parametrize(
    "tables",
    [
        {"seed": 2},
        {"hosts": [{"count": 7}]},
        {"hosts": [{"count": 6, "memory": 4096}]},
        {"guests": {"anti_affinity_groups": 2}},
        {"behavior": {"power_on_time": 60}},
        {"limits": {"cooldown": 60}},
        {"policies": [{"name": "none"}]},
        {"policies": [{"name": "lr-mmt"}]},
        {"policies": [{"name": "consolidate", "settings": {"fill_target": 0.5}}]},
    ],
)
def test_identity_depends_on_every_parameter(tables: dict[str, Any]) -> None:
    assert identity(trial(**tables)) != DEFAULT_IDENTITY


def test_identity_depends_on_load_and_model() -> None:
    planetlab = {"kind": "planetlab", "path": "day"}
    both = sweep_grid(
        model=["opendrs", "cloudsim-3.0.3"],
        workload=planetlab,
        policies=[{"name": "lr-mmt"}],
    )

    assert identity(trial(), "other") != DEFAULT_IDENTITY
    ours, theirs = both.trials
    assert identity(ours) != identity(theirs)


def test_identity_depends_on_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opendrs.simulation.sweep.grid.__version__", "0.0.0")

    assert identity(trial()) != DEFAULT_IDENTITY


def test_identity_is_independent_of_names_and_defaults() -> None:
    called = [{"name": "consolidate", "label": "ours", "settings": {"seed": 1}}]

    assert identity(trial(title="a", policies=called, limits={})) == DEFAULT_IDENTITY
    assert identity(replace(trial(), chosen={"a": 1})) == DEFAULT_IDENTITY


def test_parameters_are_read_back() -> None:
    found = json.loads(canonical_json(trial_parameters(trial(), "digest")))

    assert found["load"] == "digest"
    assert found["hosts"][0]["count"] == 6
    assert found["policy"]["fill_target"] == Consolidate().fill_target
