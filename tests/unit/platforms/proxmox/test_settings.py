"""Settings of a Proxmox VE cluster: accepted values and all errors at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opendrs.config.diagnostics import DiagnosticCode
from opendrs.errors import InvalidSettingError
from opendrs.platforms.proxmox.settings import ProxmoxSettings, is_token, split_host
from opendrs.platforms.proxmox.setup import check_settings

DIGITS = "ab" * 32
GOOD: dict[str, Any] = {"hosts": ("pve1",), "token_file": Path("token")}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("pve1", ("pve1", 8006)),
        ("pve1.example.com:443", ("pve1.example.com", 443)),
        ("[fd00::1]:8006", ("fd00::1", 8006)),
        ("10.0.0.1", ("10.0.0.1", 8006)),
    ],
)
def test_host_has_name_and_port(host: str, expected: tuple[str, int]) -> None:
    assert split_host(host) == expected


def test_fingerprints_are_accepted_with_and_without_colons() -> None:
    colons = ":".join(DIGITS[i : i + 2] for i in range(0, 64, 2))

    settings = ProxmoxSettings(**GOOD, fingerprints=(colons, DIGITS.upper()))

    assert settings.fingerprints == (DIGITS.upper(), DIGITS.upper())


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"hosts": ()}, ["hosts"]),
        ({"hosts": ("https://pve1",)}, ["hosts"]),
        ({"hosts": ("pve1:99999",)}, ["hosts"]),
        ({"token_file": None}, ["token_file"]),
        ({"token_env": "X"}, ["token_env"]),
        ({"user": "drs@pve"}, ["token_file"]),
        ({"user": "drs", "token_file": None, "password_env": "X"}, ["user"]),
        ({"fingerprints": ("ab:cd",)}, ["fingerprints"]),
        ({"fingerprints": (DIGITS,), "ca": Path("ca.pem")}, ["fingerprints"]),
        ({"timeout": 0.0, "node_timeout": float("nan")}, ["timeout", "node_timeout"]),
        ({"load_window": 7200.0, "max_requests": 5}, ["load_window", "max_requests"]),
        (
            {"bandwidth": 10, "network_capacity": 10.0},
            ["bandwidth", "network_capacity"],
        ),
    ],
)
def test_invalid_settings_are_reported_together(
    changes: dict[str, Any], keys: list[str]
) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        ProxmoxSettings(**(GOOD | changes))

    assert [message.partition(":")[0] for message in caught.value.messages] == keys


def test_unreadable_secret_and_authority_are_diagnosed(tmp_path: Path) -> None:
    settings = ProxmoxSettings(
        hosts=("pve1",),
        token_file=tmp_path / "absent",
        ca=tmp_path / "absent.pem",
        bandwidth=2000,
    )

    found = list(check_settings(("platform", "lab"), settings))

    assert [each.code for each in found] == [
        DiagnosticCode.IMPLAUSIBLE,
        DiagnosticCode.UNUSABLE_FILE,
        DiagnosticCode.UNUSABLE_FILE,
    ]
    assert found[0].path == ("platform", "lab", "bandwidth")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("drs@pve!opendrs=11111111-2222-3333-4444-555555555555", True),
        ("drs@my-realm!t1=secret", True),
        ("drs@pve=secret", False),
        ("secret", False),
        ("drs@pve!t1", False),
        ("PVEAPIToken=drs@pve!t1=secret", False),
        ("drs@pve!opendrs=s\u00e9cret", False),
        ("drs@pve!opendrs=s\x01cret", False),
    ],
)
def test_token_has_user_id_and_secret(text: str, *, expected: bool) -> None:
    assert is_token(text) is expected
