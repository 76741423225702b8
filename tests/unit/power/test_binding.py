"""The table `power` of a platform becomes settings, or all complaints come at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.cli.configuration import load_settings
from opendrs.cli.platforms import connect_platform, power_settings
from opendrs.errors import ConfigurationError
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.power import (
    NoPowerSettings,
    PowerCommandSettings,
    PoweredPlatform,
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
on_command = ["wakeonlan", "{mac}"]
off_command = ["ssh", "root@{node}", "systemctl", "suspend"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "opendrs.toml"


def power(config: Path, text: str) -> PowerSettings | None:
    config.write_text(LAB + text)
    return power_settings(load_settings(config).connection("lab"))


def diagnostics(config: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        power(config, text)
    return [line.partition("opendrs.toml: ")[2] for line in raised.value.messages]


def test_a_platform_without_the_table_has_no_power(config: Path) -> None:
    assert power(config, "") is None
    assert isinstance(
        connect_platform(load_settings(config).connection("lab")), LibvirtPlatform
    )


def test_common_settings_apply_with_node_variables(
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

    of_h1 = PowerCommandSettings(
        on_command=("wakeonlan", "{mac}"),
        off_command=("ssh", "root@{node}", "systemctl", "suspend"),
        variables={"port": "9", "mac": "52:54:00:00:00:01"},
    )
    of_h2 = replace(
        of_h1, variables={"port": "9", "mac": "52:54:00:00:00:02"}, timeout=5.0
    )
    assert found == PowerSettings(nodes={"h1": of_h1, "h2": of_h2})


def test_other_driver_of_node_inherits_nothing(config: Path) -> None:
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
            "h2": NoPowerSettings(),
        }
    )


def test_only_the_nodes_that_are_named_may_have_power(config: Path) -> None:
    found = power(
        config,
        "[platform.lab.power.nodes.h2]\n"
        'driver = "command"\non_command = ["wake"]\noff_command = ["sleep"]\n',
    )

    assert found is not None
    assert set(found.nodes) == {"h2"}


def test_a_platform_with_power_is_wrapped(config: Path) -> None:
    power(config, COMMAND + 'variables = {mac = "x"}\n')

    platform = connect_platform(load_settings(config).connection("lab"))

    assert isinstance(platform, PoweredPlatform)
    assert platform.name == "lab"


def test_unreadable_password_file_is_configuration_error(config: Path) -> None:
    power(
        config,
        '[platform.lab.power]\ndriver = "redfish"\nuser = "x"\nurl = "https://bmc"\n'
        'password_file = "missing"\n',
    )

    with pytest.raises(ConfigurationError, match="power of h1: password_file"):
        connect_platform(load_settings(config).connection("lab"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "power = 3",
            ["platform.lab.power: expected a table, got a number"],
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
                f"platform.lab.power.nodes.{node}.on_command: unknown variable: mac; "
                "expected one of node; write {{ for a brace"
                for node in ("h1", "h2")
            ],
        ),
        (
            '[platform.lab.power.nodes.h3]\ndriver = "none"\n',
            ["platform.lab.power.nodes.h3: unknown node (known: h1, h2)"],
        ),
        (
            '[platform.lab.power.nodes]\nh1 = "command"\n',
            ["platform.lab.power.nodes.h1: expected a table, got a text"],
        ),
        (
            (
                '[platform.lab.power.nodes.h1]\ndriver = "command"\n'
                'on_command = "wake me"\noff_comand =[]\ntimeout = 0\n'
            ),
            [
                (
                    "platform.lab.power.nodes.h1.off_comand: unknown setting; did you "
                    "mean off_command? (known: detached, off_command, "
                    "off_confirm_time, on_command, state_command, timeout, "
                    "transition_timeout, variables)"
                ),
                "platform.lab.power.nodes.h1.off_command: is missing",
                "platform.lab.power.nodes.h1.on_command: expected a list, got a text",
                (
                    "platform.lab.power.nodes.h1.timeout: expected more than 0 and "
                    "at most 3600 s, got 0.0"
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
                    "platform.lab.power.nodes.h1.password: expected one of "
                    "password_file, password_env, password_keyring, got password_env "
                    "and password"
                )
            ],
        ),
    ],
)
def test_diagnostics_name_path_and_expected_value(
    config: Path, text: str, expected: list[str]
) -> None:
    assert diagnostics(config, text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "variables = {password = 12345678}",
            ".variables.password: expected a text, got a number",
        ),
        (
            "variables = {x = [1, 2]}",
            ".variables.x: expected a text, got a list",
        ),
        (
            "variables = 'hunter2'",
            ".variables: expected a table of named values, got a text",
        ),
        (
            "state_command = 'ipmi -P hunter2'",
            ".state_command: expected a list, got a text",
        ),
        ("detached = 12345678", ".detached: expected true or false, got a number"),
        ("timeout = true", ".timeout: expected a number, got true or false"),
        (
            "timeout = 2026-01-01",
            (
                ".timeout: expected a number of seconds, or a text such as "
                '"10 min" (units: ms, s, min, h, d), got a text'
            ),
        ),
        (
            "state_command = {P = 'hunter2'}",
            ".state_command: expected a list, got a table",
        ),
    ],
)
def test_diagnostics_do_not_show_values(config: Path, line: str, expected: str) -> None:
    nodes = "[platform.lab.power.nodes.h1]\n"
    text = (
        f'driver = "command"\non_command = ["wake"]\noff_command = ["sleep"]\n{line}\n'
    )

    assert diagnostics(config, nodes + text) == [
        f"platform.lab.power.nodes.h1{expected}"
    ]


def test_misspelled_driver_has_suggestion(config: Path) -> None:
    for word, guess in (("comand", "; did you mean command?"), ("-P hunter2", "")):
        (found,) = diagnostics(
            config, f"[platform.lab.power.nodes]\nh1 = {{driver = '{word}'}}"
        )

        assert found.endswith(f'"redfish", "none", got a text{guess}')


def test_a_snapshot_in_a_file_has_no_power(config: Path) -> None:
    found = diagnostics(
        config,
        '[platform.saved]\nkind = "file"\npath = "x"\n'
        '[platform.saved.power]\ndriver = "none"\n',
    )

    (only,) = found
    assert only.startswith("platform.saved.power: unknown setting")
