"""Power over Redfish, on a real server with TLS and a password."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import trustme

from integration.libvirt_lab import eventually
from integration.redfish_emulator import (
    ALPHA,
    BETA,
    PASSWORD,
    ManagementController,
    running,
    system,
)
from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import NodeId
from opendrs.power import PowerState
from opendrs.power.redfish import RedfishDriver
from support.network import free_port

H1 = NodeId("h1")


def driver(bmc: ManagementController, **changes: object) -> RedfishDriver:
    return RedfishDriver(H1, bmc.settings(**changes))


@pytest.fixture
def alpha_driver(bmc: ManagementController) -> Iterator[RedfishDriver]:
    """Yield the driver of a system that is on, and leave it on."""
    found = driver(bmc)
    power_on(found)
    yield found
    power_on(found)


def power_on(found: RedfishDriver) -> None:
    found.on()
    eventually(lambda: found.state() is PowerState.ON, 10, "it is on")


def test_system_is_powered_off_and_on(alpha_driver: RedfishDriver) -> None:
    alpha_driver.off()
    eventually(lambda: alpha_driver.state() is PowerState.OFF, 10, "it is off")
    alpha_driver.on()
    eventually(lambda: alpha_driver.state() is PowerState.ON, 10, "it is on")


def test_repeated_request_is_harmless(alpha_driver: RedfishDriver) -> None:
    alpha_driver.off()
    alpha_driver.off()
    eventually(lambda: alpha_driver.state() is PowerState.OFF, 10, "it is off")
    alpha_driver.off()
    Event().wait(1.5)

    assert alpha_driver.state() is PowerState.OFF


def test_other_system_is_unchanged(
    alpha_driver: RedfishDriver, bmc: ManagementController
) -> None:
    alpha_driver.off()
    eventually(lambda: alpha_driver.state() is PowerState.OFF, 10, "it is off")

    assert driver(bmc, system=BETA).state() is PowerState.ON


def test_the_only_system_needs_no_name(tmp_path: Path) -> None:
    for url in running(tmp_path, [system(ALPHA, "alpha")]):
        only = ManagementController(
            url=url, ca=tmp_path / "ca.pem", password_file=tmp_path / "password"
        )

        assert driver(only, system=None).state() is PowerState.ON


def test_of_several_systems_one_must_be_named(bmc: ManagementController) -> None:
    with pytest.raises(PlatformError) as raised:
        driver(bmc, system=None).state()

    assert str(raised.value).startswith("h1: management controller: expected one")
    assert ALPHA in str(raised.value)
    assert "setting system" in str(raised.value)


def test_the_password_may_be_in_the_environment(
    bmc: ManagementController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BMC", PASSWORD)

    found = driver(bmc, password_file=None, password_env="BMC")  # noqa: S106 -- a name

    assert found.state() is PowerState.ON


def test_password_that_is_not_text_is_reported(
    bmc: ManagementController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"BMC", b"s3cr3t\xff")

    with pytest.raises(ConfigurationError, match="variable BMC is not text") as raised:
        driver(bmc, password_file=None, password_env="BMC")  # noqa: S106 -- a name

    assert_nothing_is_shown(raised.value, "s3cr3t")


@pytest.mark.parametrize("wrong", ["user", "password"])
def test_wrong_login_is_rejected_and_not_shown(
    bmc: ManagementController, tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "secret").write_text("s3cr3t\n")
    changes: dict[str, dict[str, object]] = {
        "user": {"user": "nobody"},
        "password": {"password_file": tmp_path / "secret"},
    }
    found = driver(bmc, **changes[wrong])

    for act in (found.on, found.off, found.state):
        with pytest.raises(PermissionDeniedError, match="status 401") as raised:
            act()

        assert_nothing_is_shown(raised.value, "s3cr3t", PASSWORD)


def assert_nothing_is_shown(error: BaseException, *secrets: str) -> None:
    """Check that no secret is in the error, nor in what it was raised from."""
    reported: BaseException | None = error
    while reported is not None:
        assert not any(secret in f"{reported!r} {reported}" for secret in secrets)
        reported = reported.__cause__


def test_missing_system_is_reported(bmc: ManagementController) -> None:
    with pytest.raises(PlatformError, match=r"not found: /redfish/v1/Systems/wrong "):
        driver(bmc, system="wrong").state()


def test_the_name_of_a_system_stays_one_part_of_the_path(
    bmc: ManagementController,
) -> None:
    with pytest.raises(PlatformError, match="status 404"):
        driver(bmc, system=f"../Systems/{ALPHA}").state()


def test_closed_port_is_unavailable(bmc: ManagementController) -> None:
    unreachable = driver(bmc, url=f"https://localhost:{free_port()}")

    with pytest.raises(PlatformUnavailableError, match="unreachable"):
        unreachable.state()


def test_certificate_of_another_authority_is_not_trusted(
    bmc: ManagementController, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")

    for ca in (tmp_path / "other.pem", None):
        with pytest.raises(PlatformError, match=r"not trusted: .*set ca") as raised:
            driver(bmc, ca=ca).on()

        assert not isinstance(raised.value, PlatformUnavailableError)


def test_a_certificate_for_another_name_is_not_trusted(
    bmc: ManagementController,
) -> None:
    elsewhere = driver(bmc, url=bmc.url.replace("localhost", "127.0.0.1"))

    with pytest.raises(PlatformError, match=r"not trusted: .*127\.0\.0\.1"):
        elsewhere.state()


def test_unsupported_reset_type_is_reported(
    bmc: ManagementController,
) -> None:
    with pytest.raises(UnsupportedError, match="reset method not supported: Suspend"):
        driver(bmc, off_method="Suspend").off()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"password_file": "missing"}, "password_file: .*missing: No such file"),
        ({"password_file": "empty"}, "password_file: .*empty is empty"),
        (
            {"password_file": None, "password_env": "NOT_THERE"},
            "password_env: the environment variable NOT_THERE is not set",
        ),
        ({"ca": "missing"}, "ca: .*missing: No such file"),
        ({"ca": "empty"}, "ca: .*empty: no certificates"),
    ],
)
def test_unreadable_files_are_reported_first(
    bmc: ManagementController,
    tmp_path: Path,
    changes: dict[str, str | None],
    message: str,
) -> None:
    (tmp_path / "empty").write_text("")
    paths = ("password_file", "ca")
    placed = {
        name: tmp_path / value if name in paths and value else value
        for name, value in changes.items()
    }

    with pytest.raises(ConfigurationError, match=f"power of h1: {message}"):
        driver(bmc, **placed)
