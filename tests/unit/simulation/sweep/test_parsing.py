"""Sweep files are parsed completely, or all errors are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.config import DiagnosticCode, path_text
from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim import parse_scheme
from opendrs.simulation.scenario.definition import RecordedWorkload, SimulationModel
from opendrs.simulation.scenario.hosts import HostPool
from opendrs.simulation.sweep.parsing import read_sweep, sweep_and_diagnostics
from opendrs.simulation.workload import SyntheticSettings
from support.sweeps import SMALL_SWEEP, sweep_grid


def found(**tables: Any) -> list[tuple[DiagnosticCode, str]]:  # noqa: ANN401 - a document
    _, diagnostics = sweep_and_diagnostics({**SMALL_SWEEP, **tables}, Path())
    return [(each.code, path_text(each.path + each.subpath)) for each in diagnostics]


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
    ("tables", "code", "field"),
    [
        ({"format": "opendrs-x/1"}, DiagnosticCode.UNKNOWN_VALUE, "format"),
        ({"title": 3}, DiagnosticCode.WRONG_TYPE, "title"),
        ({"tarot": 3}, DiagnosticCode.UNKNOWN_KEY, "tarot"),
        ({"model": "x"}, DiagnosticCode.UNKNOWN_VALUE, "model"),
        ({"model": ["opendrs", 3]}, DiagnosticCode.UNKNOWN_VALUE, "model[1]"),
        ({"seed": [1, -1]}, DiagnosticCode.OUT_OF_RANGE, "seed[1]"),
        ({"seed": []}, DiagnosticCode.WRONG_TYPE, "seed"),
        (
            {"seed": [1, 1]},
            DiagnosticCode.DUPLICATE_NAME,
            "",
        ),
        ({"workload": 3}, DiagnosticCode.WRONG_TYPE, "workload"),
        ({"workload": []}, DiagnosticCode.OUT_OF_RANGE, "workload"),
        ({"workload": [3]}, DiagnosticCode.WRONG_TYPE, "workload[0]"),
        (
            {"workload": {"kind": "synthetic", "guests": [8, "x"]}},
            DiagnosticCode.WRONG_TYPE,
            "workload.guests[1]",
        ),
        ({"workload": {"kind": "csv"}}, DiagnosticCode.MISSING_KEY, "workload.path"),
        ({"hosts": []}, DiagnosticCode.OUT_OF_RANGE, "hosts"),
        (
            {"hosts": [{"count": [1, 0]}]},
            DiagnosticCode.OUT_OF_RANGE,
            "hosts[0].count[1]",
        ),
        (
            {"guests": {"anti_affinity_groups": [1, -1]}},
            DiagnosticCode.OUT_OF_RANGE,
            "guests.anti_affinity_groups[1]",
        ),
        (
            {"behavior": {"power_on_time": [1, "x"]}},
            DiagnosticCode.INVALID_VALUE,
            "behavior.power_on_time[1]",
        ),
        (
            {"limits": {"cooldown": [1, "x"]}},
            DiagnosticCode.INVALID_VALUE,
            "limits.cooldown[1]",
        ),
        ({"policies": {"name": "none"}}, DiagnosticCode.WRONG_TYPE, "policies"),
        (
            {"policies": [{"name": ["none", "x"]}]},
            DiagnosticCode.UNKNOWN_NAME,
            "policies[0].name[1]",
        ),
        ({"policies": [{"name": []}]}, DiagnosticCode.WRONG_TYPE, "policies[0].name"),
        (
            {
                "policies": [
                    {"name": "consolidate", "settings": {"fill_target": [0.5, 9]}}
                ]
            },
            DiagnosticCode.OUT_OF_RANGE,
            "policies[0].settings.fill_target[1]",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": {"tarot": [1, 2]}}]},
            DiagnosticCode.UNKNOWN_KEY,
            "policies[0].settings.tarot[0]",
        ),
        ({"policies": [{"name": "none"}] * 2}, DiagnosticCode.DUPLICATE_NAME, ""),
        (
            {"model": "cloudsim-3.0.3"},
            DiagnosticCode.INCONSISTENT,
            "workload.kind",
        ),
        (
            {"seed": list(range(50_001)), "workload": [{"kind": "synthetic"}] * 2},
            DiagnosticCode.OUT_OF_RANGE,
            "",
        ),
    ],
)
def test_error_is_reported_with_its_path(
    tables: dict[str, Any], code: DiagnosticCode, field: str
) -> None:
    assert found(**tables)[0] == (code, field)


def test_message_has_number_of_runs() -> None:
    seeds, workloads = list(range(50_001)), [{"kind": "synthetic"}] * 2

    with pytest.raises(InvalidFileError, match=r"x\.toml: .*100002"):
        sweep_grid(seed=seeds, workload=workloads)


def test_other_format_is_rejected() -> None:
    with pytest.raises(InvalidFileError, match="scenario"):
        sweep_grid(format="opendrs-scenario/1")


def test_missing_workload_is_reported() -> None:
    document = {key: value for key, value in SMALL_SWEEP.items() if key != "workload"}

    _, diagnostics = sweep_and_diagnostics(document, Path())

    assert [(each.code, each.path) for each in diagnostics] == [
        (DiagnosticCode.MISSING_KEY, ("workload",))
    ]


def test_all_errors_are_reported_once() -> None:
    reported = found(
        seed=["x", 2],
        behavior={"power_on_time": ["y", 1], "power_off_time": [1, 2]},
        policies=[{"name": "z"}],
    )

    assert reported == [
        (DiagnosticCode.WRONG_TYPE, "seed[0]"),
        (DiagnosticCode.INVALID_VALUE, "behavior.power_on_time[0]"),
        (DiagnosticCode.UNKNOWN_NAME, "policies[0].name"),
    ]
