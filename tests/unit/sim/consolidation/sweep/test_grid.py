"""What a run depends on tells it from others, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from opendrs.policies import Consolidate
from opendrs.sim.consolidation.sweep.grid import (
    Trial,
    canonical,
    identity_of,
    parameters_of,
)
from sweeps import grid


def trial(**tables: Any) -> Trial:  # noqa: ANN401 - a document
    return grid(**tables).trials[0]


def identity(of: Trial, digest: str = "digest") -> str:
    return identity_of(parameters_of(of, digest))


USUAL = identity(trial())


@pytest.mark.parametrize(
    "tables",
    [
        {"seed": 2},
        {"hosts": [{"count": 7}]},
        {"hosts": [{"count": 6, "memory": 4096}]},
        {"guests": {"apart": 2}},
        {"behaviour": {"wake": 60}},
        {"limits": {"cooldown": 60}},
        {"policies": [{"name": "none"}]},
        {"policies": [{"name": "lr-mmt"}]},
        {"policies": [{"name": "consolidate", "settings": {"target": 0.5}}]},
    ],
)
def test_whatever_counts_tells_runs_apart(tables: dict[str, Any]) -> None:
    assert identity(trial(**tables)) != USUAL


def test_another_load_or_model_is_another_run() -> None:
    planetlab = {"kind": "planetlab", "path": "day"}
    both = grid(
        model=["opendrs", "cloudsim-3.0.3"],
        workload=planetlab,
        policies=[{"name": "lr-mmt"}],
    )

    assert identity(trial(), "other") != USUAL
    ours, theirs = both.trials
    assert identity(ours) != identity(theirs)


def test_another_version_does_not_answer_for_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opendrs.sim.consolidation.sweep.grid.__version__", "0.0.0")

    assert identity(trial()) != USUAL


def test_names_and_what_is_as_usual_do_not_count() -> None:
    called = [{"name": "consolidate", "label": "ours", "settings": {"seed": 1}}]

    assert identity(trial(title="a", policies=called, limits={})) == USUAL
    assert identity(replace(trial(), chosen={"a": 1})) == USUAL


def test_parameters_are_read_back() -> None:
    found = json.loads(canonical(parameters_of(trial(), "digest")))

    assert found["load"] == "digest"
    assert found["hosts"][0]["count"] == 6
    assert found["policy"]["target"] == Consolidate().target
