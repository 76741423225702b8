"""Files that other users can read or change: which they are, and the cure."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.cli.configuration import load_settings
from opendrs.cli.file_permissions import Exposure, find_exposures, inline_passwords
from opendrs.config import KeyPath
from opendrs.errors import ConfigurationError

SERVICE = 1000  # a user that is not root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory of a user that is not root, where that can be had."""
    return owned(tmp_path, 0o700)


def owned(path: Path, mode: int, *, by_root: bool = False) -> Path:
    if os.geteuid() == 0:
        os.chown(path, 0 if by_root else SERVICE, SERVICE)
    path.chmod(mode)
    return path


def file(place: Path, name: str, mode: int = 0o600, *, by_root: bool = False) -> Path:
    (place / name).touch()
    return owned(place / name, mode, by_root=by_root)


def found(place: Path, **document: Any) -> tuple[Exposure, ...]:  # noqa: ANN401
    document.setdefault("store", {"path": "record.sqlite"})
    config = place / "opendrs.toml"
    if not config.exists():
        config.write_text(tomli_w.dumps(document))
        owned(config, 0o644)
    return find_exposures(config, load_settings(config))


REQUESTS = {"certificate": "cert.pem", "key": "key.pem", "tokens": "tokens.toml"}
CONTROLLER: dict[str, Any] = {
    "api": {**REQUESTS, "listen": "127.0.0.1:0"},
    "policy": {"name": "consolidate"},
    "platform": {"lab": {"kind": "libvirt", "nodes": {"a": "qemu+tls://a/system"}}},
}
WEB = {"web": {"certificate": "cert.pem", "key": "web.pem"}}
OIDC = {
    "web": {
        "oidc": {
            "issuer": "https://login.example.com",
            "client_id": "opendrs",
            "client_secret_file": "secret",
            "address": "https://drs.example.com",
            "viewer": ["staff"],
            "ca": "ca.pem",
        }
    }
}
REDFISH = {
    "driver": "redfish",
    "url": "https://bmc-a",
    "user": "drs",
    "password_file": "bmc",
    "ca": "bmc.pem",
}


def with_power(power: dict[str, Any]) -> dict[str, Any]:
    lab = {**CONTROLLER["platform"]["lab"], "power": {"nodes": {"a": power}}}
    return {**CONTROLLER, "platform": {"lab": lab}}


AGENT = {
    "agent": {
        "node": "a",
        "controller": "https://drs:8443",
        "token_file": "token",
        "ca": "ca.pem",
    }
}


def test_private_files_are_not_exposed(place: Path) -> None:
    for name in ("key.pem", "tokens.toml", "bmc", "record.sqlite"):
        file(place, name)
    for name in ("cert.pem", "bmc.pem"):
        file(place, name, 0o644)

    assert found(place, **with_power(REDFISH)) == ()


def test_files_that_are_absent_are_not_exposed(place: Path) -> None:
    assert found(place, **with_power(REDFISH)) == ()


@pytest.mark.parametrize(
    ("name", "setting", "document"),
    [
        ("key.pem", "api.key", CONTROLLER),
        ("web.pem", "web.key", WEB),
        ("secret", "web.oidc.client_secret_file", OIDC),
        ("tokens.toml", "api.tokens", CONTROLLER),
        ("token", "agent.token_file", AGENT),
        ("bmc", "platform.lab.power.nodes.a.password_file", with_power(REDFISH)),
        ("record.sqlite", "store.path", CONTROLLER),
        ("record.sqlite-wal", "store.path", CONTROLLER),
        ("record.sqlite.lock", "store.path", CONTROLLER),
        ("record.sqlite", "store.path", AGENT),
    ],
)
@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o602, 0o620])
def test_readable_secret_is_exposed_and_fix_works(
    place: Path, name: str, setting: str, document: dict[str, Any], mode: int
) -> None:
    path = file(place, name, mode)

    (only,) = found(place, **document)

    assert str(only).startswith(f"{setting}: ")
    assert f"{path} has mode {mode:04o}; run chmod " in str(only)
    subprocess.run(shlex.split(only.fix.removeprefix("run ")), check=True)  # noqa: S603
    assert found(place, **document) == ()


def test_group_readable_store_and_root_secret_are_allowed(
    place: Path,
) -> None:
    file(place, "record.sqlite", 0o640)
    key = file(place, "key.pem", 0o640)

    assert [each.path for each in found(place, **CONTROLLER)] == [key]
    if os.geteuid() == 0:
        file(place, "key.pem", 0o640, by_root=True)
        assert found(place, **CONTROLLER) == ()


@pytest.mark.parametrize("name", ["cert.pem", "opendrs.toml", "bmc.pem"])
def test_writable_trusted_file_is_exposed(place: Path, name: str) -> None:
    found(place, **with_power(REDFISH))
    path = file(place, name, 0o646)

    (only,) = found(place, **with_power(REDFISH))

    assert only.message == (
        f"others can change it: {path} has mode 0646; run chmod o-w {path}"
    )


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o770])
def test_writable_directory_is_reported_once(place: Path, mode: int) -> None:
    inner = place / "state"
    inner.mkdir()
    owned(inner, mode)
    document = {**CONTROLLER, "store": {"path": "state/record.sqlite"}}

    (only,) = found(place, **document)

    assert only.path == inner
    assert "can replace it" in only.danger
    subprocess.run(shlex.split(only.fix.removeprefix("run ")), check=True)  # noqa: S603
    assert found(place, **document) == ()


def test_writable_parent_directory_is_exposed(place: Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    above = owned(place / "a", 0o777)

    document = {**CONTROLLER, "store": {"path": "a/b/record.sqlite"}}

    assert [each.path for each in found(place, **document)] == [above]


def test_store_in_shared_directory_is_exposed(place: Path) -> None:
    shared = place / "tmp"
    shared.mkdir()
    owned(shared, 0o1777)
    document = {**CONTROLLER, "store": {"path": "tmp/record.sqlite"}}

    (only,) = found(place, **document)

    assert only.path == shared
    assert only.fix == "use a directory that only its owner can write"


def test_target_directory_of_symlink_is_checked(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    file(elsewhere, "key.pem")
    owned(elsewhere, 0o777)
    (place / "key.pem").symlink_to(elsewhere / "key.pem")

    assert [each.path for each in found(place, **CONTROLLER)] == [elsewhere]


@pytest.mark.parametrize(
    ("command", "holds"),
    [
        (
            {
                "on_command": ["wake"],
                "off_command": ["sleep"],
                "variables": {"password": "x"},
            },
            True,
        ),
        (
            {
                "on_command": ["wake"],
                "off_command": ["sleep"],
                "variables": {"bmc_pass": "x"},
            },
            True,
        ),
        ({"on_command": ["wake", "--password=x"], "off_command": ["sleep"]}, True),
        ({"on_command": ["ipmitool", "-P", "x"], "off_command": ["sleep"]}, True),
        ({"on_command": ["/usr/bin/ipmitool", "-Px"], "off_command": ["sleep"]}, True),
        (
            {
                "on_command": ["ipmitool", "-f", "file"],
                "off_command": ["scp", "-P", "22"],
            },
            False,
        ),
        (
            {
                "on_command": ["wake"],
                "off_command": ["s"],
                "variables": {"password_file": "x"},
            },
            False,
        ),
        (
            {
                "on_command": ["wake"],
                "off_command": ["s"],
                "variables": {"bypass": "x"},
            },
            False,
        ),
    ],
)
def test_a_password_in_the_configuration_makes_it_a_secret(
    place: Path,
    command: dict[str, Any],
    holds: bool,  # noqa: FBT001
) -> None:
    document = with_power({"driver": "command", **command})

    exposed = found(place, **document)

    config = place / "opendrs.toml"
    assert [each.path for each in exposed] == ([config] if holds else [])
    at = [("platform", "lab", "power", "nodes", "a")]
    inline = [path for path, _ in inline_passwords(load_settings(config))]
    assert inline == (at if holds else [])
    config.chmod(0o600)
    assert found(place) == ()


def test_token_file_of_load_source_is_a_secret(tmp_path: Path) -> None:
    for name in ("token", "ca.pem"):
        (tmp_path / name).touch(mode=0o644)
        (tmp_path / name).chmod(0o666)
    config = tmp_path / "opendrs.toml"
    config.write_text(
        '[platform.pool]\nkind = "command"\nsnapshot_command = ["x"]\n'
        '[platform.pool.load]\nurl = "https://prometheus"\nexporters = ["pve"]\n'
        'token_file = "token"\nca = "ca.pem"\n'
    )
    config.chmod(0o600)

    exposed = {
        each.at[-1]: each.danger
        for each in find_exposures(config, load_settings(config))
        if each.path.parent == tmp_path
    }

    assert exposed == {
        "token_file": "others can read and change it",
        "ca": "others can change it",
    }


@pytest.mark.parametrize(
    ("platform", "store", "setting"),
    [
        ({"token": "drs@pve!a=b"}, {}, ("platform", "pve", "token")),
        (
            {"user": "drs@pve", "password": "hunter2"},
            {},
            ("platform", "pve", "password"),
        ),
        (
            {"token_env": "TOKEN"},
            {"url": "postgresql://drs@db/drs", "password": "hunter2"},
            ("store", "password"),
        ),
    ],
)
def test_inline_secret_is_accepted_with_a_warning(
    place: Path, platform: dict[str, str], store: dict[str, str], setting: KeyPath
) -> None:
    table = {"kind": "proxmox", "hosts": ["pve1"], **platform}
    document: dict[str, Any] = {"platform": {"pve": table}}
    config = place / "opendrs.toml"
    config.write_text(tomli_w.dumps(document | ({"store": store} if store else {})))

    inline = [path for path, _ in inline_passwords(load_settings(config))]

    assert inline == [setting]


@pytest.mark.parametrize("value", [12345, ["hunter2"]])
def test_secret_of_wrong_type_is_in_no_error(place: Path, value: object) -> None:
    table = {"kind": "proxmox", "hosts": ["pve1"], "token": value}
    config = place / "opendrs.toml"
    config.write_text(tomli_w.dumps({"platform": {"pve": table}}))

    with pytest.raises(ConfigurationError, match="token: expected a text") as raised:
        load_settings(config)

    assert "12345" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_secrets_of_notifications_are_protected(place: Path) -> None:
    file(place, "url", 0o644)
    file(place, "password", 0o644)
    mail = {"server": "h:25", "sender": "a@h", "recipients": ["b@h"], "user": "u"}
    tables = [
        {"kind": "webhook", "url_file": "url", "secret": "inline"},
        {"kind": "email", **mail, "password_file": "password"},
    ]

    exposures = found(place, notifications=tables)
    inline = inline_passwords(load_settings(place / "opendrs.toml"))

    assert {each.at for each in exposures} == {
        ("configuration",),
        ("notifications", 0, "url_file"),
        ("notifications", 1, "password_file"),
    }
    assert [at for at, _ in inline] == [("notifications", 0, "secret")]
