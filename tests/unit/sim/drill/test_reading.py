import json
from pathlib import Path

import pytest

from opendrs.errors import InvalidFileError
from opendrs.ha.documents import ServiceConfig
from opendrs.ha.identifiers import ServiceId
from opendrs.model import NodeId, Usage
from opendrs.sim.drill import read_scenario

HARDWARE = {"node1": {"power": "off", "network": "off"}}
SERVICES = {"vm:101": {"node": "node1"}}


def written(directory: Path, **files: object) -> Path:
    contents = {
        "cmdlist": [["power node1 on"]],
        "hardware_status": HARDWARE,
        "service_config": SERVICES,
    }
    for name, content in (contents | files).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / name).write_text(text)
    return directory


def test_numbers_may_be_strings_and_what_is_missing_is_as_usual(tmp_path: Path) -> None:
    services = {
        "vm:101": {"node": "node1", "max_restart": "2", "failback": "0"},
        "ct:102": {"node": "node1", "state": "enabled"},
    }

    scenario = read_scenario(written(tmp_path, service_config=services))

    assert scenario.services == {
        ServiceId("vm:101"): ServiceConfig(
            node=NodeId("node1"), state="disabled", failback=False, max_restart=2
        ),
        ServiceId("ct:102"): ServiceConfig(node=NodeId("node1"), state="started"),
    }
    assert scenario.limits[ServiceId("vm:101")] == Usage(4.0, 4096 << 20)
    assert scenario.usages[ServiceId("vm:101")] == Usage(2.0, 2048 << 20)


def test_three_nodes_and_six_services_are_usual(tmp_path: Path) -> None:
    (tmp_path / "cmdlist").write_text("[]")

    scenario = read_scenario(tmp_path)

    assert sorted(scenario.hosts) == ["node1", "node2", "node3"]
    assert len(scenario.services) == 6


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"service_config": {"vm:101": {}}}, "service without assigned node"),
        ({"service_config": {"vm:101": {"node": "x"}}}, "vm:101: no such node 'x'"),
        ({"service_config": {"101": {"node": "node1"}}}, "a service is called vm:100"),
        ({"service_config": "[1,"}, "line 1, column 4"),
        ({"service_config": "[]"}, "must be an object"),
        ({"service_config": "[" * 100_000}, "nested too deeply"),
        ({"service_config": f"[{'9' * 5000}]"}, "holds too long a number"),
        ({"hardware_status": {"node1": {"power": "up"}}}, "power: must be on or off"),
        ({"hardware_status": {"node1": {"maxcpu": []}}}, "maxcpu: must be a number"),
        ({"hardware_status": {"node1": {"maxcpu": -1}}}, "0 or more"),
        ({"cmdlist": {"a": 1}}, "must be a list"),
        ({"cmdlist": ["power node1 on"]}, "entry 1: must be a list"),
        ({"cmdlist": [[3, None]]}, "entry 1: entry 2: must be a string"),
        ({"static_service_stats": {"vm:101": {"maxmem": "much"}}}, "maxmem"),
        (
            {"manager_status": {"service_status": {"vm:101": {"state": "odd"}}}},
            "service_status: vm:101: state: must be one of",
        ),
        (
            {"manager_status": {"node_status": {"node1": "odd"}}},
            "node_status: node1: must be one of",
        ),
    ],
)
def test_a_bad_scenario_is_told_with_file_and_place(
    tmp_path: Path, files: dict[str, object], complaint: str
) -> None:
    (name,) = files

    with pytest.raises(InvalidFileError) as caught:
        read_scenario(written(tmp_path, **files))
    assert str(tmp_path / name) in str(caught.value)
    assert complaint in str(caught.value)


def test_a_scenario_without_commands_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="cmdlist: no such file"):
        read_scenario(tmp_path)


def test_a_directory_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="not a directory"):
        read_scenario(tmp_path / "nowhere")
