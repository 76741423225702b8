"""What an operator says about power is checked before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import InvalidSettingError
from opendrs.platforms.power import CommandSettings, RedfishSettings


def of_command(**changes: Any) -> CommandSettings:  # noqa: ANN401
    plain: dict[str, Any] = {"on": ("wake",), "off": ("sleep",)}
    return CommandSettings(**{**plain, **changes})


def of_redfish(**changes: Any) -> RedfishSettings:  # noqa: ANN401
    plain: dict[str, Any] = {
        "url": "https://bmc-h1",
        "user": "opendrs",
        "password_file": Path("/etc/opendrs/bmc"),
    }
    return RedfishSettings(**{**plain, **changes})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"on": ()}, "on: name a program, and its arguments as further words"),
        ({"off": ("",)}, "off: name a program, and its arguments as further words"),
        ({"state": ()}, "state: name a program, and its arguments as further words"),
        (
            {"on": ("wake", "{mac}")},
            (
                "on: there is no variable mac (there is: node); a brace is written as "
                "two"
            ),
        ),
        (
            {"variables": {"a b": "x"}},
            "variables.a b: a variable cannot be called that",
        ),
        (
            {"variables": {"node": "x"}},
            "variables.node: a variable cannot be called that",
        ),
        (
            {"timeout": 0.0},
            "timeout: must be more than 0 seconds and at most 3600, not 0.0",
        ),
        (
            {"silence": float("nan")},
            "silence: must be more than 0 seconds and at most 3600, not nan",
        ),
        (
            {"patience": 4000.0},
            "patience: must be more than 0 seconds and at most 3600, not 4000.0",
        ),
        (
            {"patience": 60.0},
            (
                "patience: must be more than silence, 60, not 60: nothing could be "
                "confirmed"
            ),
        ),
    ],
)
def test_commands_that_cannot_be_are_told(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        of_command(**changes)

    assert str(raised.value) == complaint


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"url": "http://bmc"}, "url: is not a URL such as https://bmc-h1"),
        ({"url": "bmc"}, "url: is not a URL such as https://bmc-h1"),
        ({"url": "https://"}, "url: is not a URL such as https://bmc-h1"),
        *(
            ({"url": f"https://{place}"}, "url: is not a URL such as https://bmc-h1")
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
            ({"system": name}, "system: is not the id of a system")
            for name in ("", ".", "..", "a\nb", "\ud800", "a" * 201)
        ),
        (
            {"url": "https://u:s3cr3t@bmc"},
            "url: holds a password; give it in a file (password_file)",
        ),
        (
            {"password_file": None},
            "password_file, password_env: give one of the two",
        ),
        (
            {"password_env": "BMC"},
            "password_file, password_env: give one of the two",
        ),
        ({"user": ""}, "user: must not be empty"),
        (
            {"timeout": -1.0},
            "timeout: must be more than 0 seconds and at most 3600, not -1.0",
        ),
    ],
)
def test_a_management_controller_that_cannot_be_is_told(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        of_redfish(**changes)

    assert str(raised.value) == complaint


@pytest.mark.parametrize(
    "place",
    ["bmc", "bmc_1.lab.", "bmc:8443", "10.0.9.10", "[fd00::1]:8443", "bmc/below"],
)
def test_a_management_controller_may_be_anywhere(place: str) -> None:
    assert of_redfish(url=f"https://{place}").url == f"https://{place}"


def test_a_system_may_have_any_name() -> None:
    for name in ("1", "System.Embedded.1", "...", "a b", "a/../b"):
        assert of_redfish(system=name).system == name


def test_where_the_state_tells_silence_may_be_long() -> None:
    assert of_command(patience=60.0, state=("ask",)).patience == 60.0


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(InvalidSettingError) as raised:
        of_command(on=(), off=("{x}", "{y}"), timeout=0.0)

    assert len(raised.value.complaints) == 4


def test_a_variable_may_stand_anywhere_and_more_than_once() -> None:
    found = of_command(on=("{a}{a}", "x{a}"), variables={"a": "1"})

    assert found.variables == {"a": "1"}
