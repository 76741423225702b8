"""Validation of power settings before any action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.power import PowerCommandSettings, RedfishSettings


def command_settings(**changes: Any) -> PowerCommandSettings:  # noqa: ANN401
    plain: dict[str, Any] = {"on_command": ("wake",), "off_command": ("sleep",)}
    return PowerCommandSettings(**{**plain, **changes})


def redfish_settings(**changes: Any) -> RedfishSettings:  # noqa: ANN401
    plain: dict[str, Any] = {
        "url": "https://bmc-h1",
        "user": "opendrs",
        "password_file": Path("/etc/opendrs/bmc"),
    }
    return RedfishSettings(**{**plain, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"on_command": ()},
            "on_command: expected a list of a program and its arguments",
        ),
        (
            {"off_command": ("",)},
            "off_command: expected a list of a program and its arguments",
        ),
        (
            {"state_command": ()},
            "state_command: expected a list of a program and its arguments",
        ),
        (
            {"on_command": ("wake", "{mac}")},
            (
                "on_command: unknown variable: mac; expected one of node; write {{ "
                "for a brace"
            ),
        ),
        (
            {"variables": {"a b": "x"}},
            (
                "variables.a b: invalid name; expected letters, digits and "
                "underscores, and not node"
            ),
        ),
        (
            {"variables": {"node": "x"}},
            (
                "variables.node: invalid name; expected letters, digits and "
                "underscores, and not node"
            ),
        ),
        (
            {"timeout": 0.0},
            "timeout: expected more than 0 and at most 3600 s, got 0.0",
        ),
        (
            {"off_confirm_time": float("nan")},
            "off_confirm_time: expected more than 0 and at most 3600 s, got nan",
        ),
        (
            {"transition_timeout": 4000.0},
            "transition_timeout: expected more than 0 and at most 3600 s, got 4000.0",
        ),
        (
            {"transition_timeout": 60.0},
            (
                "transition_timeout: expected more than off_confirm_time (60 s), got "
                "60 s; otherwise no power-off is confirmed"
            ),
        ),
    ],
)
def test_invalid_command_settings_are_rejected(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        command_settings(**changes)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "http://bmc"}, "url: expected a URL such as https://bmc-h1"),
        ({"url": "bmc"}, "url: expected a URL such as https://bmc-h1"),
        ({"url": "https://"}, "url: expected a URL such as https://bmc-h1"),
        *(
            ({"url": f"https://{place}"}, "url: expected a URL such as https://bmc-h1")
            for place in (
                "bmc:abc",
                "bmc:99999",
                "bmc:0",
                "b..c",
                ".",
                "b c",
                "b\nc",
                "-bmc",
                "256.1.1.1",
                "[::zz]",
                "[::1",
                f"{'b' * 64}.c",
            )
        ),
        *(
            ({"system": name}, "system: expected the id of a system, such as 1")
            for name in ("", ".", "..", "a\nb", "\ud800", "a" * 201)
        ),
        (
            {"url": "https://u:s3cr3t@bmc"},
            "url: contains a user or password; use user and password_file",
        ),
        (
            {"password_file": None},
            (
                "password_file: expected one of password_file, password_env, "
                "password_keyring, got none"
            ),
        ),
        (
            {"password_env": "BMC"},
            (
                "password_env: expected one of password_file, password_env, "
                "password_keyring, got password_file and password_env"
            ),
        ),
        ({"user": ""}, "user: expected a user name, got an empty value"),
        (
            {"timeout": -1.0},
            "timeout: expected more than 0 and at most 3600 s, got -1.0",
        ),
    ],
)
def test_invalid_redfish_settings_are_rejected(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        redfish_settings(**changes)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    "place",
    ["bmc", "bmc_1.lab.", "bmc:8443", "10.0.9.10", "[fd00::1]:8443", "bmc/below"],
)
def test_redfish_url_may_have_any_host(place: str) -> None:
    assert redfish_settings(url=f"https://{place}").url == f"https://{place}"


def test_a_system_may_have_any_name() -> None:
    for name in ("1", "System.Embedded.1", "...", "a b", "a/../b"):
        assert redfish_settings(system=name).system == name


def test_off_confirm_time_is_free_with_state_command() -> None:
    assert (
        command_settings(
            transition_timeout=60.0, state_command=("ask",)
        ).transition_timeout
        == 60.0
    )


def test_all_invalid_settings_are_reported() -> None:
    with pytest.raises(InvalidSettingError) as raised:
        command_settings(on_command=(), off_command=("{x}", "{y}"), timeout=0.0)

    assert len(raised.value.messages) == 4


def test_a_variable_may_stand_anywhere_and_more_than_once() -> None:
    found = command_settings(on_command=("{a}{a}", "x{a}"), variables={"a": "1"})

    assert found.variables == {"a": "1"}
