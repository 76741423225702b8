"""Scenario files are parsed completely, or all errors are reported."""

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
    scenario_and_diagnostics,
)
from opendrs.simulation.workload import SyntheticSettings

SMALL = {"kind": "synthetic", "guests": 10}


def read(**tables: Any) -> SimulationScenario:  # noqa: ANN401 - a document
    document = {"format": SCENARIO_FORMAT, "workload": SMALL, **tables}
    return parse_scenario(document, "x.toml", Path("folder"))


def error_lines(**tables: Any) -> tuple[str, ...]:  # noqa: ANN401 - a document
    with pytest.raises(InvalidFileError) as caught:
        read(**tables)
    return caught.value.messages


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
    ("tables", "code", "field"),
    [
        ({"format": "opendrs-x/1"}, DiagnosticCode.UNKNOWN_VALUE, "format"),
        ({"worklod": {}}, DiagnosticCode.UNKNOWN_KEY, "worklod"),
        ({"title": 3}, DiagnosticCode.WRONG_TYPE, "title"),
        ({"model": "x"}, DiagnosticCode.UNKNOWN_VALUE, "model"),
        ({"seed": -1}, DiagnosticCode.OUT_OF_RANGE, "seed"),
        ({"seed": True}, DiagnosticCode.WRONG_TYPE, "seed"),
        ({"workload": 3}, DiagnosticCode.WRONG_TYPE, "workload"),
        ({"workload": {}}, DiagnosticCode.MISSING_KEY, "workload.kind"),
        (
            {"workload": {"kind": "tarot"}},
            DiagnosticCode.UNKNOWN_VALUE,
            "workload.kind",
        ),
        ({"workload": {"kind": "csv"}}, DiagnosticCode.MISSING_KEY, "workload.path"),
        (
            {"workload": {"kind": "csv", "path": 3}},
            DiagnosticCode.WRONG_TYPE,
            "workload.path",
        ),
        (
            {"workload": {"kind": "csv", "path": "x", "guests": 3}},
            DiagnosticCode.UNKNOWN_KEY,
            "workload.guests",
        ),
        (
            {"workload": {"kind": "csv", "path": "x", "length": -3.0}},
            DiagnosticCode.OUT_OF_RANGE,
            "workload.length",
        ),
        (
            {
                "model": "cloudsim-3.0.3",
                "workload": {"kind": "planetlab", "path": "x", "max_guests": 3},
            },
            DiagnosticCode.INCONSISTENT,
            "workload",
        ),
        (
            {"workload": {**SMALL, "days": 0.5}},
            DiagnosticCode.WRONG_TYPE,
            "workload.days",
        ),
        (
            {"workload": {**SMALL, "days": 10**9}},
            DiagnosticCode.OUT_OF_RANGE,
            "workload.days",
        ),
        (
            {"workload": {**SMALL, "load": 7.0}},
            DiagnosticCode.OUT_OF_RANGE,
            "workload.load",
        ),
        (
            {"workload": {**SMALL, "seed": 7}},
            DiagnosticCode.UNKNOWN_KEY,
            "workload.seed",
        ),
        ({"hosts": []}, DiagnosticCode.OUT_OF_RANGE, "hosts"),
        ({"hosts": [3]}, DiagnosticCode.WRONG_TYPE, "hosts[0]"),
        ({"hosts": [{}]}, DiagnosticCode.MISSING_KEY, "hosts[0].count"),
        (
            {"hosts": [{"count": 0}]},
            DiagnosticCode.OUT_OF_RANGE,
            "hosts[0].count",
        ),
        (
            {"hosts": [{"count": 1, "power": "x"}]},
            DiagnosticCode.INVALID_VALUE,
            "hosts[0].power",
        ),
        (
            {"hosts": [{"count": 1, "mips": 9}]},
            DiagnosticCode.INVALID_VALUE,
            "hosts[0].cores",
        ),
        (
            {"hosts": [{"count": 1, "watts": [1, 2]}]},
            DiagnosticCode.INVALID_VALUE,
            "hosts[0].watts",
        ),
        (
            {"hosts": [{"count": 1, "memory": 0}]},
            DiagnosticCode.OUT_OF_RANGE,
            "hosts[0].memory",
        ),
        (
            {"guests": {"anti_affinity_groups": -1}},
            DiagnosticCode.OUT_OF_RANGE,
            "guests.anti_affinity_groups",
        ),
        (
            {"guests": {"anti_affinity_groups": [["a"]]}},
            DiagnosticCode.WRONG_TYPE,
            "guests.anti_affinity_groups",
        ),
        (
            {"guests": {"anti_affinity_groups": [["a", "b"], ["b", "c"]]}},
            DiagnosticCode.DUPLICATE_NAME,
            "guests.anti_affinity_groups",
        ),
        ({"guests": {"kind": 3}}, DiagnosticCode.UNKNOWN_KEY, "guests.kind"),
        (
            {"guests": {"kinds": [{"mips": 3}]}},
            DiagnosticCode.MISSING_KEY,
            "guests.kinds[0].memory",
        ),
        (
            {"guests": {"kinds": [{"mips": -3, "memory": 9}]}},
            DiagnosticCode.OUT_OF_RANGE,
            "guests.kinds[0].mips",
        ),
        (
            {"behavior": {"power_on_time": -1.0}},
            DiagnosticCode.OUT_OF_RANGE,
            "behavior.power_on_time",
        ),
        (
            {"behavior": {"power_on": 1.0}},
            DiagnosticCode.UNKNOWN_KEY,
            "behavior.power_on",
        ),
        (
            {"limits": {"cooldown": "x"}},
            DiagnosticCode.INVALID_VALUE,
            "limits.cooldown",
        ),
        (
            {"limits": {"memory_headroom": 2}},
            DiagnosticCode.OUT_OF_RANGE,
            "limits.memory_headroom",
        ),
        ({"policies": []}, DiagnosticCode.OUT_OF_RANGE, "policies"),
        ({"policies": ["none"]}, DiagnosticCode.WRONG_TYPE, "policies[0]"),
        ({"policies": [{}]}, DiagnosticCode.MISSING_KEY, "policies[0].name"),
        (
            {"policies": [{"name": "x"}]},
            DiagnosticCode.UNKNOWN_NAME,
            "policies[0].name",
        ),
        (
            {"policies": [{"name": "npa"}]},
            DiagnosticCode.INVALID_VALUE,
            "policies[0].name",
        ),
        (
            {"policies": [{"name": "lr-x"}]},
            DiagnosticCode.UNKNOWN_NAME,
            "policies[0].name",
        ),
        (
            {"policies": [{"name": "none", "x": 1}]},
            DiagnosticCode.UNKNOWN_KEY,
            "policies[0].x",
        ),
        (
            {"policies": [{"name": "none", "limits": {"cooldown": 1}}]},
            DiagnosticCode.INCONSISTENT,
            "policies[0]",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": {"fill_targt": 1}}]},
            DiagnosticCode.UNKNOWN_KEY,
            "policies[0].settings.fill_targt",
        ),
        (
            {"policies": [{"name": "consolidate", "settings": 3}]},
            DiagnosticCode.WRONG_TYPE,
            "policies[0].settings",
        ),
        (
            {"policies": [{"name": "none"}, {"name": "none"}]},
            DiagnosticCode.DUPLICATE_NAME,
            "policies[1].label",
        ),
        (
            {"model": "cloudsim-3.0.3"},
            DiagnosticCode.INCONSISTENT,
            "workload.kind",
        ),
        (
            {"model": "cloudsim-3.0.3", "hosts": [{"count": 3, "memory": 9}]},
            DiagnosticCode.INCONSISTENT,
            "hosts",
        ),
        (
            {"model": "cloudsim-3.0.3", "behavior": {"power_on_time": 9}},
            DiagnosticCode.INCONSISTENT,
            "behavior",
        ),
        (
            {
                "model": "cloudsim-3.0.3",
                "policies": [{"name": "lr-mmt", "settings": {"fill_target": 1}}],
            },
            DiagnosticCode.INCONSISTENT,
            "policies[0]",
        ),
    ],
)
def test_error_is_reported_with_its_path(
    tables: dict[str, object], code: DiagnosticCode, field: str
) -> None:
    document = {"format": SCENARIO_FORMAT, "workload": SMALL, **tables}

    _, diagnostics = scenario_and_diagnostics(document, Path("folder"))

    found = [(each.code, path_text(each.path + each.subpath)) for each in diagnostics]
    assert (code, field) in found


def test_all_errors_are_reported_at_once() -> None:
    lines = error_lines(
        title=3,
        seed="x",
        workload={"kind": "tarot"},
        hosts=[{"count": 0}],
        behavior={"power_on_time": -1.0},
        policies=[{"name": "consolidate", "settings": {"fill_target": 2.0}}],
    )

    assert [line.split(":")[1].strip() for line in lines] == [
        *("title", "seed", "workload.kind", "hosts[0].count"),
        *("behavior.power_on_time", "policies[0].settings.fill_target"),
    ]


def test_message_has_file_field_and_suggestion() -> None:
    (line,) = error_lines(worklod={})

    assert line.startswith("x.toml: worklod: unknown field; did you mean workload?")


def test_other_format_is_rejected() -> None:
    with pytest.raises(InvalidFileError, match="drill"):
        read(format="opendrs-drill/1")


def test_document_without_table_is_reported() -> None:
    scenario, diagnostics = scenario_and_diagnostics([], Path())

    assert scenario is None
    first = diagnostics[0]
    assert (first.code, first.path) == (DiagnosticCode.WRONG_TYPE, ())
