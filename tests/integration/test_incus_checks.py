"""check --online on a real Incus cluster: the printed command corrects the finding."""

from __future__ import annotations

import pytest

from integration.incus_lab import SUITE, IncusLab
from integration.incus_operator import IncusOperator

pytestmark = [pytest.mark.shared, pytest.mark.lab]


def assert_remedy_corrects(operator: IncusOperator, subject: str) -> None:
    """Assert that only *subject* has a remedy, and that nothing fails after it."""
    remedies = {key: text for key, text in operator.failed_checks().items() if text}
    assert list(remedies) == [subject]
    # The machines of the lab have no system that could shut down.
    command = remedies[subject].replace("incus stop", "incus stop --force")
    done = operator.lab.shell(command, operator.home)
    assert done.returncode == 0, (remedies, done.stdout, done.stderr)
    assert operator.failed_checks() == {}


def test_certificate_that_is_not_trusted(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1"
    files = "-nodes -subj /CN=new -keyout new.key -out new.crt"
    assert incus_lab.shell(f"{request} {files}", operator.home).returncode == 0
    certificate = operator.home / "new.crt"
    incus_lab.copy_to_members(certificate, str(certificate))
    operator.configure(certificate="new.crt", key="new.key")

    assert_remedy_corrects(operator, "trust")


def test_project_that_the_certificate_does_not_see(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    with incus_lab.project("web"):
        operator.configure(projects=["default", "web"])

        assert_remedy_corrects(operator, "projects")


def test_project_that_blocks_targets(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    with incus_lab.project("web", blocked=True) as (certificate, key):
        operator.configure(projects=["web"], certificate=certificate, key=key)

        assert_remedy_corrects(operator, "moves in web")


def test_machine_without_stateful_migration(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    # Under emulation, 7.0 starts such a machine only without memory hotplug.
    hotplug = () if SUITE == "bookworm" else ("-c", "limits.memory.hotplug=false")
    incus_lab.vm("v1", "n1", "-c", "migration.stateful=false", *hotplug)

    assert_remedy_corrects(operator, "live migration")


def test_rebalancer_that_is_on(incus_lab: IncusLab, operator: IncusOperator) -> None:
    incus_lab.incus("config", "set", "cluster.rebalance.interval=60")
    operator.use_socket()

    assert_remedy_corrects(operator, "rebalancer of Incus")
