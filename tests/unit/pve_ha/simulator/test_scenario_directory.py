import json
from pathlib import Path

import pytest

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.model import NodeId, Usage
from opendrs.pve_ha.simulator import read_scenario
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import ServiceConfig
from support.errors import has_code

HARDWARE = {"node1": {"power": "off", "network": "off"}}
SERVICES = {"vm:101": {"node": "node1"}}


def write_files(directory: Path, **files: object) -> Path:
    contents = {
        "cmdlist": [["power node1 on"]],
        "hardware_status": HARDWARE,
        "service_config": SERVICES,
    }
    for name, content in (contents | files).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / name).write_text(text)
    return directory


def test_numbers_may_be_strings_and_missing_values_have_defaults(
    tmp_path: Path,
) -> None:
    services = {
        "vm:101": {"node": "node1", "max_restart": "2", "failback": "0"},
        "ct:102": {"node": "node1", "state": "enabled"},
    }

    scenario = read_scenario(write_files(tmp_path, service_config=services))

    assert scenario.services == {
        ServiceId("vm:101"): ServiceConfig(
            node=NodeId("node1"), state="disabled", failback=False, max_restart=2
        ),
        ServiceId("ct:102"): ServiceConfig(node=NodeId("node1"), state="started"),
    }
    assert scenario.limits[ServiceId("vm:101")] == Usage(4.0, 4096 << 20)
    assert scenario.usages[ServiceId("vm:101")] == Usage(2.0, 2048 << 20)


def test_default_is_three_nodes_and_six_services(tmp_path: Path) -> None:
    (tmp_path / "cmdlist").write_text("[]")

    scenario = read_scenario(tmp_path)

    assert sorted(scenario.hosts) == ["node1", "node2", "node3"]
    assert len(scenario.services) == 6


@pytest.mark.parametrize(
    ("files", "diagnostic", "code"),
    [
        (
            {"service_config": {"vm:101": {}}},
            "service without assigned node",
            DiagnosticCode.MISSING_KEY,
        ),
        (
            {"service_config": {"vm:101": {"node": "x"}}},
            "vm:101: no such node 'x'",
            DiagnosticCode.UNKNOWN_NAME,
        ),
        (
            {"service_config": {"101": {"node": "node1"}}},
            "expected a service",
            DiagnosticCode.INVALID_VALUE,
        ),
        ({"service_config": "[1,"}, "line 1, column 4", DiagnosticCode.UNUSABLE_FILE),
        ({"service_config": "[]"}, "expected an object", DiagnosticCode.WRONG_TYPE),
        (
            {"service_config": "[" * 100_000},
            "nested too deeply",
            DiagnosticCode.UNUSABLE_FILE,
        ),
        (
            {"service_config": f"[{'9' * 5000}]"},
            "number too long",
            DiagnosticCode.UNUSABLE_FILE,
        ),
        (
            {"hardware_status": {"node1": {"power": "up"}}},
            "power: expected on or off",
            DiagnosticCode.UNKNOWN_VALUE,
        ),
        (
            {"hardware_status": {"node1": {"maxcpu": []}}},
            "maxcpu: expected a number",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            {"hardware_status": {"node1": {"maxcpu": -1}}},
            "of at least 0",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        ({"cmdlist": {"a": 1}}, "expected a list", DiagnosticCode.WRONG_TYPE),
        (
            {"cmdlist": ["power node1 on"]},
            "entry 1: expected a list",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            {"cmdlist": [[3, None]]},
            "entry 1: entry 2: expected a string",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            {"static_service_stats": {"vm:101": {"maxmem": "much"}}},
            "maxmem",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            {"manager_status": {"service_status": {"vm:101": {"state": "odd"}}}},
            "service_status: vm:101: state: expected one of",
            DiagnosticCode.UNKNOWN_VALUE,
        ),
        (
            {"manager_status": {"node_status": {"node1": "odd"}}},
            "node_status: node1: expected one of",
            DiagnosticCode.UNKNOWN_VALUE,
        ),
    ],
)
def test_invalid_scenario_is_reported_with_location(
    tmp_path: Path, files: dict[str, object], diagnostic: str, code: DiagnosticCode
) -> None:
    (name,) = files

    with pytest.raises(InvalidFileError, check=has_code(code)) as caught:
        read_scenario(write_files(tmp_path, **files))
    assert str(tmp_path / name) in str(caught.value)
    assert diagnostic in str(caught.value)


def test_scenario_without_commands_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError, match="cmdlist", check=has_code(DiagnosticCode.UNUSABLE_FILE)
    ):
        read_scenario(tmp_path)


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match="not a directory",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_scenario(tmp_path / "nowhere")
