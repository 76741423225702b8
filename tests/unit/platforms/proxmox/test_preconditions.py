"""Migration preconditions of virtual machines and containers."""

from __future__ import annotations

import pytest

from opendrs.errors import UnexpectedResponseError
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox.preconditions import parse_preconditions

STRICT = ProxmoxSettings(hosts=("h",), token_env="T")  # noqa: S106 - a name
LENIENT = ProxmoxSettings(
    hosts=("h",),
    token_env="T",  # noqa: S106 - a name
    target_storage="fast",
)


def test_empty_entries_of_other_nodes_allow_them() -> None:
    known = parse_preconditions(
        {"allowed_nodes": ["b"], "not_allowed_nodes": {"b": {}, "c": {}}}, "test"
    )

    assert known.target_blocker("b", STRICT) is None
    assert known.target_blocker("c", STRICT) is not None


def test_entry_with_content_excludes_its_node() -> None:
    known = parse_preconditions(
        {
            "not_allowed_nodes": {
                "b": {"unavailable_storages": ["ssd"]},
                "c": {"blocking-ha-resources": [{"sid": "vm:7", "cause": "x"}]},
                "d": {"unavailable-resources": ["gpu"]},
            }
        },
        "test",
    )

    assert "ssd" in str(known.target_blocker("b", STRICT))
    assert known.target_blocker("b", LENIENT) is None
    assert "vm:7" in str(known.target_blocker("c", STRICT))
    assert "gpu" in str(known.target_blocker("d", STRICT))
    assert known.target_blocker("e", STRICT) is None


def test_local_media_and_devices_are_blockers_and_disks_are_not() -> None:
    known = parse_preconditions(
        {
            "local_disks": [
                {"volid": "local:disk", "cdrom": 0, "size": 5},
                {"volid": "local:iso", "cdrom": 1},
            ],
            "local_resources": ["hostpci0"],
            "mapped-resources": ["gpu", "nic"],
            "mapped-resource-info": {"nic": {"live-migration": 1}},
        },
        "test",
    )

    assert known.local_devices == ("hostpci0", "gpu")
    assert known.local_disks == {"local:disk": 5}
    assert len(known.blockers) == 3


def test_containers_spell_keys_with_dashes() -> None:
    known = parse_preconditions(
        {"allowed-nodes": ["b"], "not-allowed-nodes": {}, "running": 1}, "test"
    )

    assert known.allowed_nodes == frozenset({"b"})
    assert [known.excludes(node, STRICT) for node in ("b", "c")] == [False, True]
    assert not known.excludes("c", LENIENT)


def test_entry_of_another_reason_does_not_exclude_its_node_for_storages() -> None:
    known = parse_preconditions(
        {
            "allowed_nodes": ["b"],
            "not_allowed_nodes": {
                "b": {},
                "c": {"blocking-ha-resources": [{"sid": "vm:7"}]},
                "d": {"unavailable_storages": ["ssd"]},
            },
        },
        "test",
    )

    excluded = [known.excludes(node, STRICT) for node in ("b", "c", "d")]
    assert excluded == [False, False, True]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [(1, True), ("1", True), (True, True), (0, False), ("0", False), (None, False)],
)
def test_connection_state_is_a_flag(flag: object, *, expected: bool) -> None:
    known = parse_preconditions({"has-dbus-vmstate": flag}, "test")

    assert known.has_connection_state is expected


@pytest.mark.parametrize("data", [None, [], {"local_disks": {"a": 1}}])
def test_another_form_is_an_error(data: object) -> None:
    with pytest.raises(UnexpectedResponseError):
        parse_preconditions(data, "test")
