"""Checks of libvirt hosts on the driver test:///, whose guest cannot migrate."""

from __future__ import annotations

import pytest

from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.platforms.libvirt.checks import check_online

pytest.importorskip("libvirt")


def test_checks_of_hosts_that_respond_and_hosts_that_do_not() -> None:
    nodes = {"h1": "test:///default", "h2": "qemu:///system?socket=/nowhere"}

    settings = LibvirtSettings(nodes=nodes, sample=0.1, shared_storage=("/guest",))
    found = list(check_online("lab", settings))

    assert [(check.subject, check.ok) for check in found] == [
        ("connection to h1", True),
        ("connection to h2", False),
        ("migration from h1", True),
        ("live migration", True),
    ]
    assert "h2: unreachable" in found[1].detail


def test_local_disks_need_shared_storage() -> None:
    settings = LibvirtSettings(nodes={"h1": "test:///default"}, sample=0.1)

    found = list(check_online("lab", settings))[-1]

    assert (found.subject, found.ok) == ("live migration", False)
    assert found.remedy.startswith("set shared_storage")


def test_only_unreachable_hosts_leave_no_more_to_check() -> None:
    nodes = {"h2": "qemu:///system?socket=/nowhere"}

    (found,) = check_online("lab", LibvirtSettings(nodes=nodes))

    assert not found.ok
