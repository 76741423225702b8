"""A sweep file is understood whole, or everything wrong with it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.scenario.hosts import Pool
from opendrs.sim.consolidation.scenario.scenario import Model, Recorded
from opendrs.sim.consolidation.schemes import scheme
from opendrs.sim.consolidation.sweep.form import read_sweep, sweep_from
from opendrs.sim.consolidation.synthetic import Synthetic
from sweeps import SMALL, grid


def complaints(**tables: Any) -> list[str]:  # noqa: ANN401 - a document
    with pytest.raises(InvalidFileError) as told:
        grid(**tables)
    return [line.removeprefix("x.toml: ") for line in told.value.complaints]


def test_a_scenario_without_lists_is_a_sweep_of_one_run() -> None:
    (trial,) = grid().trials

    assert trial.stage.source == Synthetic(guests=8, seed=1)
    assert trial.stage.pools == (Pool(count=6),)
    assert trial.contender.policy == Consolidate(seed=1)
    assert (trial.label, trial.seed) == ("consolidate", 1)


def test_policies_loads_and_seeds_are_combined() -> None:
    found = grid(
        seed=[1, 2],
        workload={"kind": "synthetic", "guests": [8, 9]},
        policies=[{"name": ["none", "lr-mmt"]}, {"name": "consolidate"}],
    )

    runs = {
        (trial.stage.source, trial.label, trial.seed)
        for trial in found.trials
        if isinstance(trial.stage.source, Synthetic)
    }
    assert runs == {
        (Synthetic(guests=guests, seed=seed), label, seed)
        for guests in (8, 9)
        for label in ("none", "lr-mmt", "consolidate")
        for seed in (1, 2)
    }
    assert len(found.trials) == 12


def test_a_seed_is_that_of_the_load_and_of_the_policy() -> None:
    (trial,) = grid(seed=[7]).trials

    assert isinstance(trial.contender.policy, Consolidate)
    assert trial.contender.policy.seed == 7
    assert isinstance(trial.stage.source, Synthetic)
    assert trial.stage.source.seed == 7


def test_a_policy_with_a_seed_of_its_own_keeps_it() -> None:
    policies = [{"name": "consolidate", "settings": {"seed": 3}}]

    found = [
        trial.contender.policy for trial in grid(seed=[1, 2], policies=policies).trials
    ]

    assert found == [Consolidate(seed=3)] * 2


def test_every_value_of_a_setting_has_its_label() -> None:
    settings = {"target": [0.5, 0.6], "bound": 0.9}
    policies = [
        {"name": "consolidate", "settings": settings},
        {"name": "consolidate", "label": "ours", "settings": {"target": [0.7, 0.8]}},
        {"name": "lr-mmt", "limits": {"cooldown": [0, 60]}},
    ]

    assert [trial.label for trial in grid(policies=policies).trials] == [
        "consolidate target=0.5 bound=0.9",
        "consolidate target=0.6 bound=0.9",
        "ours target=0.7",
        "ours target=0.8",
        "lr-mmt limits.cooldown=0",
        "lr-mmt limits.cooldown=60",
    ]


def test_whatever_else_was_chosen_is_in_the_label() -> None:
    found = grid(
        hosts=[{"count": [5, 6]}],
        guests={"apart": [0, 2]},
        behaviour={"wake": [60, 120]},
        limits={"cooldown": [0, 60]},
    )

    assert len(found.trials) == 16
    assert found.trials[0].label == (
        "consolidate hosts.count=5 guests.apart=0 behaviour.wake=60 limits.cooldown=0"
    )
    last = found.trials[-1]
    assert last.stage.pools == (Pool(count=6),)
    assert last.stage.guests.apart == 2
    assert last.stage.behaviour.wake == 120
    assert isinstance(last.contender.policy, Consolidate)
    assert last.contender.policy.limits == Limits(cooldown=60)


def test_of_several_pools_each_has_its_choices() -> None:
    found = grid(hosts=[{"count": 5}, {"count": [1, 2], "power": "hp-ml110-g5"}])

    assert [trial.label for trial in found.trials] == [
        "consolidate hosts[1].count=1",
        "consolidate hosts[1].count=2",
    ]


def test_loads_can_be_of_several_kinds() -> None:
    workload = [
        {"kind": "planetlab", "path": ["a.tar", "b.tar"]},
        {"kind": "synthetic", "guests": 9},
    ]

    sources = [trial.stage.source for trial in grid(workload=workload).trials]

    assert sources == [
        Recorded(kind="planetlab", path=Path("folder/a.tar")),
        Recorded(kind="planetlab", path=Path("folder/b.tar")),
        Synthetic(guests=9, seed=1),
    ]


def test_both_models_can_be_swept() -> None:
    found = grid(
        model=["opendrs", "cloudsim-3.0.3"],
        workload={"kind": "planetlab", "path": "day"},
        policies=[{"name": ["thr-rs", "lr-mmt"]}],
        seed=5,
    )

    assert [trial.stage.model for trial in found.trials] == [
        *[Model.OPENDRS] * 2,
        *[Model.CLOUDSIM] * 2,
    ]
    assert found.trials[2].contender.policy == scheme("thr-rs", 5)
    assert found.trials[2].label == "thr-rs-0.8 model=cloudsim-3.0.3"


def test_a_file_is_read_and_paths_begin_from_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    workload = {"kind": "planetlab", "path": "day.tar"}
    file.write_text(tomli_w.dumps({**SMALL, "title": "days", "workload": workload}))

    found = read_sweep(file)

    assert found.title == "days"
    assert list(found.inputs()) == [tmp_path / "day.tar"]


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"format": "opendrs-x/1"}, 'format: expected "opendrs-sweep/1", found'),
        ({"format": "opendrs-scenario/1"}, "is a scenario, not a sweep"),
        ({"title": 3}, "title: expected a text, found 3"),
        ({"tarot": 3}, "tarot: no such field"),
        ({"model": "x"}, 'model: expected "opendrs" or "cloudsim-3.0.3", found "x"'),
        ({"model": ["opendrs", 3]}, "model[1]: expected"),
        ({"seed": [1, -1]}, "seed[1]: expected a whole number from 0 to"),
        ({"seed": []}, "seed: expected a whole number from 0 to"),
        (
            {"seed": [1, 1]},
            "on synthetic, 8 guests, 1 day, seed 1 in opendrs, seed 1, ",
        ),
        ({"workload": 3}, "workload: expected a table of named values, found 3"),
        ({"workload": []}, "workload: expected a list of tables, found []"),
        ({"workload": [3]}, "workload[0]: expected a table of named values, found 3"),
        (
            {"workload": {"kind": "synthetic", "guests": [8, "x"]}},
            "workload.guests[1]: expected",
        ),
        ({"workload": {"kind": "csv"}}, "workload.path: expected a file or directory"),
        ({"hosts": []}, "hosts: expected a list of tables, found []"),
        ({"hosts": [{"count": [1, 0]}]}, "hosts[0]"),
        ({"guests": {"apart": [1, -1]}}, "guests.apart[1]: expected a whole number"),
        ({"behaviour": {"wake": [1, "x"]}}, "behaviour.wake[1]: expected"),
        ({"limits": {"cooldown": [1, "x"]}}, "limits.cooldown[1]: expected"),
        ({"policies": {"name": "none"}}, "policies: expected a list of tables"),
        ({"policies": [{"name": ["none", "x"]}]}, "policies[0].name[1]: expected cons"),
        ({"policies": [{"name": []}]}, "policies[0].name: expected a text, found []"),
        (
            {"policies": [{"name": "consolidate", "settings": {"target": [0.5, 9]}}]},
            "policies[0].settings",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": {"tarot": [1, 2]}}]},
            "policies[0].settings.tarot",
        ),
        ({"policies": [{"name": "none"}] * 2}, '"none" on synthetic, 8 guests'),
        ({"model": "cloudsim-3.0.3"}, 'workload.kind: cloudsim-3.0.3 runs "planetlab"'),
        (
            {"seed": list(range(50_001)), "workload": [{"kind": "synthetic"}] * 2},
            "100002 runs are too many: at most 100000 can be",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tables: dict[str, Any], why: str) -> None:
    assert why in complaints(**tables)[0]


def test_a_missing_load_is_told() -> None:
    document = {key: value for key, value in SMALL.items() if key != "workload"}

    with pytest.raises(InvalidFileError, match="workload: is missing"):
        sweep_from(document, "x.toml", Path())


def test_all_that_is_wrong_is_told_at_once_and_only_once() -> None:
    found = complaints(
        seed=["x", 2],
        behaviour={"wake": ["y", 1], "shutdown": [1, 2]},
        policies=[{"name": "z"}],
    )

    assert [line.partition(":")[0] for line in found] == [
        "seed[0]",
        "behaviour.wake[0]",
        "policies[0].name",
    ]
