"""Scenario files are parsed completely, or all errors are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim import parse_scheme
from opendrs.simulation.hardware import SimulationBehavior
from opendrs.simulation.scenario.definition import (
    RecordedWorkload,
    SimulationModel,
    SimulationScenario,
)
from opendrs.simulation.scenario.guests import GuestOptions, GuestProfile
from opendrs.simulation.scenario.hosts import HostPool
from opendrs.simulation.scenario.parsing import (
    SCENARIO_FORMAT,
    parse_scenario,
    read_scenario,
)
from opendrs.simulation.workload import SyntheticSettings

SMALL = {"kind": "synthetic", "guests": 10}


def read(**tables: Any) -> SimulationScenario:  # noqa: ANN401 - a document
    document = {"format": SCENARIO_FORMAT, "workload": SMALL, **tables}
    return parse_scenario(document, "x.toml", Path("folder"))


def diagnostics(**tables: Any) -> str:  # noqa: ANN401 - a document
    with pytest.raises(InvalidFileError) as caught:
        read(**tables)
    return str(caught.value)


def test_minimal_scenario_has_defaults() -> None:
    found = read()

    assert found.environment.model is SimulationModel.OPENDRS
    assert found.environment.source == SyntheticSettings(guests=10, seed=1)
    assert found.environment.pools == (HostPool(count=800),)
    assert found.environment.guests == GuestOptions()
    assert found.environment.behavior == SimulationBehavior()
    assert [each.label for each in found.policy_runs] == ["consolidate"]
    assert found.policy_runs[0].policy == Consolidate(seed=1)


def test_complete_scenario_is_read(tmp_path: Path) -> None:
    file = tmp_path / "day.toml"
    document = {
        "format": SCENARIO_FORMAT,
        "title": "a day",
        "model": "opendrs",
        "seed": 7,
        "workload": {"kind": "planetlab", "path": "traces/day.tar.gz"},
        "hosts": [
            {"count": 2, "power": "ibm-x3550-x5675", "memory": 4096},
            {"count": 1, "watts": [9.0] * 11, "cores": 8, "mips": 3000},
        ],
        "guests": {
            "anti_affinity_groups": [["a", "b"], ["c", "d"]],
            "kinds": [{"mips": 500, "memory": 613}, {"mips": 9, "memory": 8}],
        },
        "behavior": {"power_on_time": 60, "powered_off_watts": 5},
        "limits": {"cooldown": 0},
        "policies": [
            {"name": "consolidate", "settings": {"fill_target": 0.5}},
            {"name": "lr-mmt", "label": "theirs", "limits": {"memory_headroom": 0.2}},
            {"name": "none"},
        ],
    }
    file.write_text(tomli_w.dumps(document))

    found = read_scenario(file)

    environment = found.environment
    assert found.title == "a day"
    assert environment.source == RecordedWorkload(
        kind="planetlab", path=tmp_path / "traces/day.tar.gz"
    )
    assert environment.pools[1] == HostPool(
        count=1, watts=(9.0,) * 11, cores=8, mips=3000
    )
    assert environment.guests.anti_affinity_groups == (("a", "b"), ("c", "d"))
    assert environment.guests.kinds[0] == GuestProfile(mips=500, memory=613)
    assert environment.behavior == SimulationBehavior(
        power_on_time=60, powered_off_watts=5
    )
    ours, theirs, without_policy = found.policy_runs
    assert ours.label == "consolidate fill_target=0.5"
    limits = Limits(cooldown=0)
    assert ours.policy == Consolidate(fill_target=0.5, seed=7, limits=limits)
    assert theirs.label == "theirs"
    assert isinstance(theirs.policy, Consolidate)
    assert theirs.policy.limits == Limits(cooldown=0, memory_headroom=0.2)
    assert without_policy.policy is None


def test_changes_override_file(tmp_path: Path) -> None:
    file = tmp_path / "day.json"
    file.write_text('{"format": "opendrs-scenario/1", "workload": {"kind": 3}}')

    found = read_scenario(file, {"workload": SMALL, "seed": 3})

    assert found.environment.source == SyntheticSettings(guests=10, seed=3)


def test_cloudsim_has_its_own_policies() -> None:
    found = read(
        model="cloudsim-3.0.3",
        seed=5,
        workload={"kind": "planetlab", "path": "day"},
        hosts=[{"count": 30}],
        policies=[{"name": "dvfs"}, {"name": "thr-rs"}],
    )

    assert [each.label for each in found.policy_runs] == ["dvfs", "thr-rs-0.8"]
    assert [each.policy for each in found.policy_runs] == [
        parse_scheme("dvfs"),
        parse_scheme("thr-rs", 5),
    ]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"format": "opendrs-x/1"}, 'format: expected "opendrs-scenario/1"'),
        ({"format": "opendrs-drill/1"}, "expected a scenario, found a drill"),
        ({"worklod": {}}, "worklod: unknown field; did you mean workload?"),
        ({"title": 3}, "title: expected a text, found 3"),
        ({"model": "x"}, 'model: expected "opendrs" or "cloudsim-3.0.3", found "x"'),
        ({"seed": -1}, "seed: expected a whole number from 0 to 4294967295, found -1"),
        ({"seed": True}, "seed: expected a whole number"),
        ({"workload": 3}, "workload: expected a table of named values, found 3"),
        ({"workload": {}}, "workload.kind: expected one of planetlab"),
        ({"workload": {"kind": "tarot"}}, 'synthetic, found "tarot"'),
        ({"workload": {"kind": "csv"}}, "workload.path: expected a file or directory"),
        ({"workload": {"kind": "csv", "path": 3}}, "workload.path: expected a file"),
        (
            {"workload": {"kind": "csv", "path": "x", "guests": 3}},
            "workload.guests: unknown setting; did you mean max_guests?",
        ),
        (
            {"workload": {"kind": "csv", "path": "x", "length": -3.0}},
            "workload: length: expected more than 0 s, got -3.0",
        ),
        (
            {
                "model": "cloudsim-3.0.3",
                "workload": {"kind": "planetlab", "path": "x", "max_guests": 3},
            },
            "workload: cloudsim-3.0.3: only a whole day",
        ),
        ({"workload": {**SMALL, "days": 0.5}}, "workload.days: expected a whole num"),
        ({"workload": {**SMALL, "days": 10**9}}, "workload.days: expected at most 366"),
        (
            {"workload": {**SMALL, "load": 7.0}},
            "workload: load: expected a number in (0, 1]",
        ),
        ({"workload": {**SMALL, "seed": 7}}, "workload.seed: unknown setting"),
        ({"hosts": []}, "hosts: expected a list of tables, found []"),
        ({"hosts": [3]}, "hosts[0]: expected a table, found 3"),
        ({"hosts": [{}]}, "hosts[0].count: is missing"),
        (
            {"hosts": [{"count": 0}]},
            "hosts[0]: count: expected a number in [1, 1000000], got 0",
        ),
        (
            {"hosts": [{"count": 1, "power": "x"}]},
            "power: unknown: 'x'; expected one of hp-",
        ),
        (
            {"hosts": [{"count": 1, "mips": 9}]},
            "cores, mips: given without power or watts",
        ),
        (
            {"hosts": [{"count": 1, "watts": [1, 2]}]},
            "watts: given without cores and mips",
        ),
        ({"hosts": [{"count": 1, "watts": [1, 2]}]}, "expected 11 values, found 2"),
        ({"hosts": [{"count": 1, "memory": 0}]}, "memory: expected more than 0, got 0"),
        (
            {"guests": {"anti_affinity_groups": -1}},
            "guests.anti_affinity_groups: expected a whole number of 0",
        ),
        (
            {"guests": {"anti_affinity_groups": [["a"]]}},
            "guests.anti_affinity_groups: expected a whole number of 0",
        ),
        (
            {"guests": {"anti_affinity_groups": [["a", "b"], ["b", "c"]]}},
            '"b": duplicate',
        ),
        ({"guests": {"kind": 3}}, "guests.kind: unknown field"),
        ({"guests": {"kinds": [{"mips": 3}]}}, "guests.kinds[0].memory: is missing"),
        (
            {"guests": {"kinds": [{"mips": -3, "memory": 9}]}},
            "guests.kinds[0]: mips: expected more than 0, got -3",
        ),
        (
            {"behavior": {"power_on_time": -1.0}},
            "behavior: power_on_time: expected at least 0",
        ),
        ({"behavior": {"power_on": 1.0}}, "behavior.power_on: unknown setting"),
        ({"limits": {"cooldown": "x"}}, "limits.cooldown: expected a number"),
        (
            {"limits": {"memory_headroom": 2}},
            "limits: memory_headroom: expected a fraction in [0",
        ),
        ({"policies": []}, "policies: expected a list of tables, found []"),
        ({"policies": ["none"]}, "policies[0]: expected a table of named values"),
        ({"policies": [{}]}, "policies[0].name: expected a text, which is missing"),
        ({"policies": [{"name": "x"}]}, "policies[0].name: expected consolidate, none"),
        (
            {"policies": [{"name": "npa"}]},
            "policies[0].name: npa: only available in model cloudsim-3.0.3",
        ),
        ({"policies": [{"name": "lr-x"}]}, "policies[0].name: policy 'lr-x': unknown"),
        ({"policies": [{"name": "none", "x": 1}]}, "policies[0].x: unknown field"),
        (
            {"policies": [{"name": "none", "limits": {"cooldown": 1}}]},
            "policies[0]: none: expected neither settings nor limits",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": {"fill_targt": 1}}]},
            "policies[0].settings.fill_targt: unknown setting; did you mean fill_t",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": 3}]},
            "policies[0].settings: expected a table of named values, found 3",
        ),
        (
            {"policies": [{"name": "none"}, {"name": "none"}]},
            'policies[1].label: duplicate: "none"',
        ),
        (
            {"model": "cloudsim-3.0.3"},
            'workload.kind: cloudsim-3.0.3: only "planetlab"',
        ),
        (
            {"model": "cloudsim-3.0.3", "hosts": [{"count": 3, "memory": 9}]},
            "hosts: cloudsim-3.0.3: only HP ML110 G4 and G5",
        ),
        (
            {"model": "cloudsim-3.0.3", "behavior": {"power_on_time": 9}},
            "behavior: cloudsim-3.0.3: not supported",
        ),
        (
            {
                "model": "cloudsim-3.0.3",
                "policies": [{"name": "lr-mmt", "settings": {"fill_target": 1}}],
            },
            "policies[0]: cloudsim-3.0.3: expected neither settings nor limits",
        ),
    ],
)
def test_error_is_reported_with_its_path(
    tables: dict[str, object], expected: str
) -> None:
    assert f"x.toml: {expected}" in diagnostics(**tables) or expected in diagnostics(
        **tables
    )


def test_all_errors_are_reported_at_once() -> None:
    messages = diagnostics(
        title=3,
        seed="x",
        workload={"kind": "tarot"},
        hosts=[{"count": 0}],
        behavior={"power_on_time": -1.0},
        policies=[{"name": "consolidate", "settings": {"fill_target": 2.0}}],
    ).splitlines()

    assert [line.split(":")[1].strip() for line in messages] == [
        *("title", "seed", "workload.kind", "hosts[0]", "behavior"),
        "policies[0].settings",
    ]


def test_document_without_table_is_reported() -> None:
    with pytest.raises(InvalidFileError, match="expected a table of named values"):
        parse_scenario([], "x", Path())
