"""Sweep files are parsed completely, or all errors are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim import parse_scheme
from opendrs.simulation.scenario.definition import RecordedWorkload, SimulationModel
from opendrs.simulation.scenario.hosts import HostPool
from opendrs.simulation.sweep.parsing import parse_sweep, read_sweep
from opendrs.simulation.workload import SyntheticSettings
from support.sweeps import SMALL_SWEEP, sweep_grid


def diagnostics(**tables: Any) -> list[str]:  # noqa: ANN401 - a document
    with pytest.raises(InvalidFileError) as caught:
        sweep_grid(**tables)
    return [line.removeprefix("x.toml: ") for line in caught.value.messages]


def test_a_scenario_without_lists_is_a_sweep_of_one_run() -> None:
    (trial,) = sweep_grid().trials

    assert trial.environment.source == SyntheticSettings(guests=8, seed=1)
    assert trial.environment.pools == (HostPool(count=6),)
    assert trial.policy_run.policy == Consolidate(seed=1)
    assert (trial.label, trial.seed) == ("consolidate", 1)


def test_policies_loads_and_seeds_are_combined() -> None:
    found = sweep_grid(
        seed=[1, 2],
        workload={"kind": "synthetic", "guests": [8, 9]},
        policies=[{"name": ["none", "lr-mmt"]}, {"name": "consolidate"}],
    )

    runs = {
        (trial.environment.source, trial.label, trial.seed)
        for trial in found.trials
        if isinstance(trial.environment.source, SyntheticSettings)
    }
    assert runs == {
        (SyntheticSettings(guests=guests, seed=seed), label, seed)
        for guests in (8, 9)
        for label in ("none", "lr-mmt", "consolidate")
        for seed in (1, 2)
    }
    assert len(found.trials) == 12


def test_a_seed_is_that_of_the_load_and_of_the_policy() -> None:
    (trial,) = sweep_grid(seed=[7]).trials

    assert isinstance(trial.policy_run.policy, Consolidate)
    assert trial.policy_run.policy.seed == 7
    assert isinstance(trial.environment.source, SyntheticSettings)
    assert trial.environment.source.seed == 7


def test_a_policy_with_a_seed_of_its_own_keeps_it() -> None:
    policies = [{"name": "consolidate", "settings": {"seed": 3}}]

    found = [
        trial.policy_run.policy
        for trial in sweep_grid(seed=[1, 2], policies=policies).trials
    ]

    assert found == [Consolidate(seed=3)] * 2


def test_every_value_of_a_setting_has_its_label() -> None:
    settings = {"fill_target": [0.5, 0.6], "max_overload_fraction": 0.9}
    policies = [
        {"name": "consolidate", "settings": settings},
        {
            "name": "consolidate",
            "label": "ours",
            "settings": {"fill_target": [0.7, 0.8]},
        },
        {"name": "lr-mmt", "limits": {"cooldown": [0, 60]}},
    ]

    assert [trial.label for trial in sweep_grid(policies=policies).trials] == [
        "consolidate fill_target=0.5 max_overload_fraction=0.9",
        "consolidate fill_target=0.6 max_overload_fraction=0.9",
        "ours fill_target=0.7",
        "ours fill_target=0.8",
        "lr-mmt limits.cooldown=0",
        "lr-mmt limits.cooldown=60",
    ]


def test_label_has_all_chosen_values() -> None:
    found = sweep_grid(
        hosts=[{"count": [5, 6]}],
        guests={"anti_affinity_groups": [0, 2]},
        behavior={"power_on_time": [60, 120]},
        limits={"cooldown": [0, 60]},
    )

    assert len(found.trials) == 16
    assert found.trials[0].label == (
        "consolidate hosts.count=5 guests.anti_affinity_groups=0 "
        "behavior.power_on_time=60 limits.cooldown=0"
    )
    last = found.trials[-1]
    assert last.environment.pools == (HostPool(count=6),)
    assert last.environment.guests.anti_affinity_groups == 2
    assert last.environment.behavior.power_on_time == 120
    assert isinstance(last.policy_run.policy, Consolidate)
    assert last.policy_run.policy.limits == Limits(cooldown=60)


def test_of_several_pools_each_has_its_choices() -> None:
    found = sweep_grid(hosts=[{"count": 5}, {"count": [1, 2], "power": "hp-ml110-g5"}])

    assert [trial.label for trial in found.trials] == [
        "consolidate hosts[1].count=1",
        "consolidate hosts[1].count=2",
    ]


def test_loads_can_be_of_several_kinds() -> None:
    workload = [
        {"kind": "planetlab", "path": ["a.tar", "b.tar"]},
        {"kind": "synthetic", "guests": 9},
    ]

    sources = [
        trial.environment.source for trial in sweep_grid(workload=workload).trials
    ]

    assert sources == [
        RecordedWorkload(kind="planetlab", path=Path("folder/a.tar")),
        RecordedWorkload(kind="planetlab", path=Path("folder/b.tar")),
        SyntheticSettings(guests=9, seed=1),
    ]


def test_both_models_can_be_swept() -> None:
    found = sweep_grid(
        model=["opendrs", "cloudsim-3.0.3"],
        workload={"kind": "planetlab", "path": "day"},
        policies=[{"name": ["thr-rs", "lr-mmt"]}],
        seed=5,
    )

    assert [trial.environment.model for trial in found.trials] == [
        *[SimulationModel.OPENDRS] * 2,
        *[SimulationModel.CLOUDSIM] * 2,
    ]
    assert found.trials[2].policy_run.policy == parse_scheme("thr-rs", 5)
    assert found.trials[2].label == "thr-rs-0.8 model=cloudsim-3.0.3"


def test_a_file_is_read_and_paths_begin_from_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    workload = {"kind": "planetlab", "path": "day.tar"}
    file.write_text(
        tomli_w.dumps({**SMALL_SWEEP, "title": "days", "workload": workload})
    )

    found = read_sweep(file)

    assert found.title == "days"
    assert list(found.inputs()) == [tmp_path / "day.tar"]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"format": "opendrs-x/1"}, 'format: expected "opendrs-sweep/1", found'),
        ({"format": "opendrs-scenario/1"}, "expected a sweep, found a scenario"),
        ({"title": 3}, "title: expected a text, found 3"),
        ({"tarot": 3}, "tarot: unknown field"),
        ({"model": "x"}, 'model: expected "opendrs" or "cloudsim-3.0.3", found "x"'),
        ({"model": ["opendrs", 3]}, "model[1]: expected"),
        ({"seed": [1, -1]}, "seed[1]: expected a whole number from 0 to"),
        ({"seed": []}, "seed: expected a whole number from 0 to"),
        (
            {"seed": [1, 1]},
            "on synthetic, 8 guests, 1 day, seed 1 in opendrs, seed 1: ",
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
        (
            {"guests": {"anti_affinity_groups": [1, -1]}},
            "guests.anti_affinity_groups[1]: expected a whole number",
        ),
        (
            {"behavior": {"power_on_time": [1, "x"]}},
            "behavior.power_on_time[1]: expected",
        ),
        ({"limits": {"cooldown": [1, "x"]}}, "limits.cooldown[1]: expected"),
        ({"policies": {"name": "none"}}, "policies: expected a list of tables"),
        ({"policies": [{"name": ["none", "x"]}]}, "policies[0].name[1]: expected cons"),
        ({"policies": [{"name": []}]}, "policies[0].name: expected a text, found []"),
        (
            {
                "policies": [
                    {"name": "consolidate", "settings": {"fill_target": [0.5, 9]}}
                ]
            },
            "policies[0].settings",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": {"tarot": [1, 2]}}]},
            "policies[0].settings.tarot",
        ),
        ({"policies": [{"name": "none"}] * 2}, '"none" on synthetic, 8 guests'),
        (
            {"model": "cloudsim-3.0.3"},
            'workload.kind: cloudsim-3.0.3: only "planetlab"',
        ),
        (
            {"seed": list(range(50_001)), "workload": [{"kind": "synthetic"}] * 2},
            "too many runs: 100002; at most 100000",
        ),
    ],
)
def test_error_is_reported_with_its_path(tables: dict[str, Any], expected: str) -> None:
    assert expected in diagnostics(**tables)[0]


def test_missing_workload_is_reported() -> None:
    document = {key: value for key, value in SMALL_SWEEP.items() if key != "workload"}

    with pytest.raises(InvalidFileError, match="workload: is missing"):
        parse_sweep(document, "x.toml", Path())


def test_all_errors_are_reported_once() -> None:
    found = diagnostics(
        seed=["x", 2],
        behavior={"power_on_time": ["y", 1], "power_off_time": [1, 2]},
        policies=[{"name": "z"}],
    )

    assert [line.partition(":")[0] for line in found] == [
        "seed[0]",
        "behavior.power_on_time[0]",
        "policies[0].name",
    ]
