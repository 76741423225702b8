"""check --online on a real Incus cluster: the printed command corrects the finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.incus_lab import SOCKET, IncusLab
from integration.incus_operator import IncusOperator

pytestmark = [pytest.mark.shared, pytest.mark.lab]

BLOCKED = {"restricted": "true", "features.images": "false"}


@pytest.fixture
def web(incus_lab: IncusLab) -> Iterator[str]:
    """Return a project that is deleted at the end."""
    incus_lab.api("/1.0/projects", "POST", {"name": "web", "config": BLOCKED})
    yield "web"
    incus_lab.incus("project", "delete", "web")


def assert_remedy_corrects(operator: IncusOperator, subject: str) -> None:
    """Assert that only *subject* fails, and nothing after its remedy was run."""
    failed = operator.failed_checks()
    assert list(failed) == [subject]
    done = operator.lab.shell(failed[subject], operator.home)
    assert done.returncode == 0, (failed, done.stdout, done.stderr)
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
    incus_lab: IncusLab, operator: IncusOperator, web: str
) -> None:
    operator.configure(projects=["default", web])
    incus_lab.incus("project", "set", web, "restricted=false")

    assert_remedy_corrects(operator, "projects")


def test_project_that_blocks_targets(
    incus_lab: IncusLab, operator: IncusOperator, web: str
) -> None:
    certificate, key = trusted_for(incus_lab, web)
    operator.configure(projects=[web], certificate=certificate, key=key)

    assert_remedy_corrects(operator, f"moves in {web}")


def trusted_for(lab: IncusLab, project: str) -> tuple[str, str]:
    """Return certificate and key that are restricted to a project."""
    words = dict(
        line.split(" ", 1)
        for line in lab.script("trust", project).splitlines()
        if line.startswith(("cert ", "key "))
    )
    assert Path(words["cert"]).exists()
    return words["cert"], words["key"]


def test_machine_without_stateful_migration(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    incus_lab.vm("v1", "n1", "-c", "migration.stateful=false")

    assert_remedy_corrects(operator, "live migration")


def test_rebalancer_that_is_on(incus_lab: IncusLab, operator: IncusOperator) -> None:
    incus_lab.incus("config", "set", "cluster.rebalance.interval=60")
    certificates = dict.fromkeys(("certificate", "key", "server_certificate"))
    operator.configure(socket=str(SOCKET), urls=None, **certificates)

    assert_remedy_corrects(operator, "rebalancer of Incus")
