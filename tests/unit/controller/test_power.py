"""The table `power` of a platform becomes settings, or all complaints come at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.controller.settings import read_settings
from opendrs.errors import ConfigurationError
from opendrs.platforms.connect import connect
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.platforms.power import (
    CommandSettings,
    NoneSettings,
    Powered,
    PowerSettings,
    RedfishSettings,
)

LAB = """
[platform.lab]
kind = "libvirt"
nodes = {h1 = "qemu+tls://h1/system", h2 = "qemu+tls://h2/system"}
"""
COMMAND = """
[platform.lab.power]
driver = "command"
on = ["wakeonlan", "{mac}"]
off = ["ssh", "root@{node}", "systemctl", "suspend"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "opendrs.toml"


def power(config: Path, text: str) -> PowerSettings | None:
    config.write_text(LAB + text)
    return read_settings(config).connection("lab").power


def complaints(config: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        power(config, text)
    return [line.partition("opendrs.toml: ")[2] for line in raised.value.complaints]


def test_a_platform_without_the_table_has_no_power(config: Path) -> None:
    assert power(config, "") is None
    assert isinstance(connect(read_settings(config).connection("lab")), LibvirtPlatform)


def test_what_is_said_for_all_holds_for_each_with_its_own_variables(
    config: Path,
) -> None:
    found = power(
        config,
        COMMAND
        + "variables = {port = '9', mac = 'none'}\n"
        + "[platform.lab.power.nodes]\n"
        + "h1 = {variables = {mac = '52:54:00:00:00:01'}}\n"
        + "h2 = {variables = {mac = '52:54:00:00:00:02'}, timeout = 5}\n",
    )

    of_h1 = CommandSettings(
        on=("wakeonlan", "{mac}"),
        off=("ssh", "root@{node}", "systemctl", "suspend"),
        variables={"port": "9", "mac": "52:54:00:00:00:01"},
    )
    of_h2 = replace(
        of_h1, variables={"port": "9", "mac": "52:54:00:00:00:02"}, timeout=5.0
    )
    assert found == PowerSettings(nodes={"h1": of_h1, "h2": of_h2})


def test_a_node_may_have_another_driver_which_shares_nothing(config: Path) -> None:
    found = power(
        config,
        '[platform.lab.power]\ndriver = "redfish"\nuser = "opendrs"\n'
        'password_file = "secrets/bmc"\nca = "/etc/ssl/bmc.pem"\n'
        '[platform.lab.power.nodes]\nh1 = {url = "https://bmc-h1"}\n'
        'h2 = {driver = "none"}\n',
    )

    assert found == PowerSettings(
        nodes={
            "h1": RedfishSettings(
                url="https://bmc-h1",
                user="opendrs",
                password_file=config.parent / "secrets/bmc",
                ca=Path("/etc/ssl/bmc.pem"),
            ),
            "h2": NoneSettings(),
        }
    )


def test_only_the_nodes_that_are_named_may_have_power(config: Path) -> None:
    found = power(
        config,
        "[platform.lab.power.nodes.h2]\n"
        'driver = "command"\non = ["wake"]\noff = ["sleep"]\n',
    )

    assert found is not None
    assert set(found.nodes) == {"h2"}


def test_a_platform_with_power_is_wrapped(config: Path) -> None:
    power(config, COMMAND + 'variables = {mac = "x"}\n')

    platform = connect(read_settings(config).connection("lab"))

    assert isinstance(platform, Powered)
    assert platform.name == "lab"


def test_a_password_that_cannot_be_read_is_told_before_anything(config: Path) -> None:
    power(
        config,
        '[platform.lab.power]\ndriver = "redfish"\nuser = "x"\nurl = "https://bmc"\n'
        'password_file = "missing"\n',
    )

    with pytest.raises(ConfigurationError, match="power of h1: password_file"):
        connect(read_settings(config).connection("lab"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "power = 3",
            ["platform.lab.power: expected a table, found a number"],
        ),
        (
            "[platform.lab.power]\ntimeout = 3\n",
            [
                f"platform.lab.power.nodes.{node}.driver: expected one of "
                '"command", "redfish", "none", which is missing'
                for node in ("h1", "h2")
            ],
        ),
        (
            COMMAND,
            [
                f"platform.lab.power.nodes.{node}: on: there is no variable mac "
                "(there is: node); a brace is written as two"
                for node in ("h1", "h2")
            ],
        ),
        (
            '[platform.lab.power.nodes.h3]\ndriver = "none"\n',
            ["platform.lab.power.nodes.h3: no such node (there is: h1, h2)"],
        ),
        (
            '[platform.lab.power.nodes]\nh1 = "command"\n',
            ["platform.lab.power.nodes.h1: expected a table, found a text"],
        ),
        (
            (
                '[platform.lab.power.nodes.h1]\ndriver = "command"\n'
                'on = "wake me"\nofff = []\ntimeout = 0\n'
            ),
            [
                (
                    "platform.lab.power.nodes.h1.offf: no such setting; did you mean "
                    "off? (there is: detached, off, on, patience, silence, state, "
                    "timeout, variables)"
                ),
                "platform.lab.power.nodes.h1.off: is missing",
                "platform.lab.power.nodes.h1.on: expected a list, found a text",
                (
                    "platform.lab.power.nodes.h1: timeout: must be more than 0 "
                    "seconds and at most 3600, not 0.0"
                ),
            ],
        ),
        (
            (
                '[platform.lab.power.nodes.h1]\ndriver = "redfish"\n'
                'password = "s3cr3t"\nurl = "https://bmc"\nuser = "x"\n'
                'password_env = "X"\n'
            ),
            [
                (
                    "platform.lab.power.nodes.h1.password: no such setting; did you "
                    "mean password_env? (there is: ca, off, password_env, "
                    "password_file, patience, system, timeout, url, user)"
                )
            ],
        ),
    ],
)
def test_says_where_what_was_found_and_what_was_expected(
    config: Path, text: str, expected: list[str]
) -> None:
    assert complaints(config, text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "variables = {password = 12345678}",
            ".variables.password: expected a text, found a number",
        ),
        (
            "variables = {x = [1, 2]}",
            ".variables.x: expected a text, found a list",
        ),
        (
            "variables = 'hunter2'",
            ".variables: expected a table of named values, found a text",
        ),
        ("state = 'ipmi -P hunter2'", ".state: expected a list, found a text"),
        ("detached = 12345678", ".detached: expected true or false, found a number"),
        ("timeout = true", ".timeout: expected a number, found true or false"),
        (
            "timeout = 2026-01-01",
            (
                ".timeout: expected a number of seconds, or a text such as "
                '"10 min" (units: ms, s, min, h, d), found a text'
            ),
        ),
        ("state = {P = 'hunter2'}", ".state: expected a list, found a table"),
    ],
)
def test_what_was_found_is_not_shown_as_it_may_be_a_secret(
    config: Path, line: str, expected: str
) -> None:
    nodes = "[platform.lab.power.nodes.h1]\n"
    text = f'driver = "command"\non = ["wake"]\noff = ["sleep"]\n{line}\n'

    assert complaints(config, nodes + text) == [
        f"platform.lab.power.nodes.h1{expected}"
    ]


def test_a_driver_that_is_misspelt_is_guessed_at(config: Path) -> None:
    for word, guess in (("comand", "; did you mean command?"), ("-P hunter2", "")):
        (found,) = complaints(
            config, f"[platform.lab.power.nodes]\nh1 = {{driver = '{word}'}}"
        )

        assert found.endswith(f'"redfish", "none", found a text{guess}')


def test_a_snapshot_in_a_file_has_no_power(config: Path) -> None:
    found = complaints(
        config,
        '[platform.saved]\nkind = "file"\npath = "x"\n'
        '[platform.saved.power]\ndriver = "none"\n',
    )

    (only,) = found
    assert only.startswith("platform.saved.power: no such setting")
