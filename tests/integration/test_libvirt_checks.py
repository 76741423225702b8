"""Checks of libvirt hosts: what is missing, and the command that grants it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tomli_w

from integration.libvirt_access import POLKITD, AccessControlledHost
from integration.libvirt_lab import HOSTS, MIB, LibvirtLab, eventually
from opendrs.config.platform_kinds import OnlineCheck
from opendrs.errors import PermissionDeniedError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.checks import check_online
from opendrs.ports import TaskState
from support.terminal import OPENDRS

pytestmark = [pytest.mark.shared, pytest.mark.lab]

ALL_SUBJECTS = [
    *(f"connection to h{host}" for host in HOSTS),
    *(f"migration from h{host}" for host in HOSTS),
    "live migration",
]
VM = GuestId("vm")


def checks(settings: LibvirtSettings) -> list[OnlineCheck]:
    return list(check_online("lab", settings))


def failed(found: list[OnlineCheck]) -> dict[str, str]:
    """Return the remedies of the failed checks by their subjects."""
    return {check.subject: check.remedy for check in found if not check.ok}


def test_check_is_content_and_disturbs_no_guest(lab: LibvirtLab) -> None:
    for host in HOSTS:
        lab.vm(host, f"vm{host}", dirty=10)
    eventually(lambda: len(lab.heartbeats("vm1")) > 2, 20, "vm1 has started")

    found = checks(lab.settings())

    assert [check.subject for check in found] == ALL_SUBJECTS
    assert failed(found) == {}
    assert found[0].detail.startswith("libvirt ")
    assert found[3].detail == "allowed; reaches h2, h3"
    assert [lab.running(f"vm{host}") for host in HOSTS] == [(1,), (2,), (3,)]
    for host in HOSTS:
        lab.require_alive(f"vm{host}")
    assert lab.arrivals("vm1") == 0


@pytest.mark.parametrize("guests", [0, 1])
def test_read_only_socket_is_named_with_the_uri_that_corrects_it(
    lab: LibvirtLab, guests: int
) -> None:
    for number in range(guests):
        lab.vm(1, f"vm{number}")
    nodes = dict(lab.settings().nodes)
    read_only = {**nodes, "h1": f"{lab.uri(1)}-ro"}

    found = failed(checks(lab.settings(nodes=read_only)))

    assert found == {"migration from h1": f'set nodes.h1 = "{lab.uri(1)}"'}
    assert failed(checks(lab.settings(nodes=nodes))) == {}


def test_user_outside_the_group_gets_the_command_that_adds_it(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    nodes = {"h1": lab.uri(1)}
    host = AccessControlledHost(lab, 1)
    host.use_groups()

    with host.as_user():
        before = failed(checks(LibvirtSettings(nodes=nodes)))
    host.run_on_users(before["connection to h1"])
    with host.as_user():
        after = failed(checks(LibvirtSettings(nodes=nodes)))

    assert before == {"connection to h1": "usermod --append --groups libvirt nobody"}
    assert after == {}


@pytest.mark.skipif(not POLKITD.exists(), reason=f"there is no {POLKITD}")
def test_user_that_may_only_read_gets_the_rule_that_lets_it_migrate(
    lab: LibvirtLab,
) -> None:
    lab.slow_vm(1, "vm")
    host = AccessControlledHost(lab, 1)
    host.use_polkit()
    nodes = {"h1": lab.uri(1), "h2": lab.uri(2)}
    uris = {"h2": lab.peer_uri(2)}
    settings = LibvirtSettings(nodes=nodes, migration_uris=uris, bandwidth=MIB)
    Path(lab.directory / "h2" / "run" / "libvirt-sock").chmod(0o777)

    before: dict[str, str] = {}

    def has_failed() -> bool:  # for the reason in question: polkit takes a while
        before.clear()
        before.update(failed(checks(settings)))
        return "migration from h1" in before

    with host.as_user("libvirt"):
        eventually(has_failed, 60, "polkit answers")
    host.run(before["migration from h1"])
    with host.as_user("libvirt"):
        eventually(lambda: not failed(checks(settings)), 60, "polkit has the rule")
        notes = [check.subject for check in checks(settings)]

        assert_can_migrate_but_not_abort(lab, settings)

    assert list(before) == ["migration from h1"]
    assert "abort on h1" in notes


def assert_can_migrate_but_not_abort(
    lab: LibvirtLab, settings: LibvirtSettings
) -> None:
    platform = LibvirtPlatform("lab", settings)
    task = platform.start(LiveMigration(VM, NodeId("h1"), NodeId("h2")))
    eventually(
        lambda: platform.observe().guests[VM].migrating_to is not None, 20, "it begins"
    )
    with pytest.raises(PermissionDeniedError):
        platform.abort(task)
    lab.fill_memory_faster(1, "vm")
    eventually(lambda: platform.status(task).state is TaskState.DONE, 20, "it ends")


@pytest.mark.skipif(shutil.which("saslpasswd2") is None, reason="no saslpasswd2")
def test_password_is_demanded_created_and_read_from_the_file_of_libvirt(
    lab: LibvirtLab, tmp_path: Path
) -> None:
    host = AccessControlledHost(lab, 1)
    host.use_sasl()
    nodes = {"h1": lab.uri(1)}

    before = failed_in_process(nodes, home=tmp_path)["connection to h1"]
    command, _, file = before.partition(", then write the password to ")
    host.run(f"echo secret | {command.replace('-c', '-p -c')}")
    auth = Path(file.replace("~", str(tmp_path)))
    auth.parent.mkdir(parents=True)
    auth.write_text(
        "[credentials-lab]\nauthname=root\npassword=secret\n"
        "[auth-libvirt-default]\ncredentials=lab\n"
    )

    assert command == "saslpasswd2 -a libvirt -c root"
    assert failed_in_process(nodes, home=tmp_path) == {}


def failed_in_process(nodes: dict[str, str], home: Path) -> dict[str, str]:
    """Return the failed checks of another process, since libvirt reads HOME once."""
    configuration = home / "opendrs.toml"
    table = {"kind": "libvirt", "nodes": nodes}
    configuration.write_text(tomli_w.dumps({"platform": {"lab": table}}))
    environment = {key: os.environ[key] for key in os.environ if key[:4] != "XDG_"}
    done = subprocess.run(  # noqa: S603 - our own command
        [OPENDRS, "check", str(configuration), "--online", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HOME": str(home)},
    )
    found = json.loads(done.stdout)["online"]
    return failed([OnlineCheck(**each) for each in found if each.pop("platform")])


def test_path_between_hosts_that_does_not_work_is_named(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    peers = {"h2": f"qemu+tcp://{lab.subnet}.77/system", "h3": lab.peer_uri(3)}

    found = checks(lab.settings(migration_uris=peers))
    details = {check.subject: check.detail for check in found}

    assert list(failed(found)) == ["migration from h1 to h2"]
    assert details["migration from h1 to h2"].startswith("h2 is unreachable from h1")


def test_local_uri_of_a_target_needs_a_migration_uri(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    peers = {"h3": lab.peer_uri(3)}

    found = failed(checks(lab.settings(migration_uris=peers)))

    assert found == {
        "migration from h1 to h2": "set migration_uris.h2 to a URI with a host name"
    }


def test_dead_host_does_not_prevent_the_checks_of_others(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.kill_host(2)

    found = checks(lab.settings())
    subjects = [check.subject for check in found]

    assert list(failed(found)) == ["connection to h2"]
    assert [each for each in ALL_SUBJECTS if each not in subjects] == [
        "migration from h2"
    ]


def test_invalid_metadata_is_named_with_the_command_that_removes_it(
    lab: LibvirtLab,
) -> None:
    lab.vm(1, "vm")
    lab.vm(2, "other")
    lab.set_metadata(1, "vm", '<guest antiaffinity="web"/>')

    (remedy,) = failed(checks(lab.settings())).values()
    prefix, _, words = remedy.partition(" metadata ")
    lab.virsh(1, "metadata", *words.split())

    assert prefix == f"virsh -c '{lab.uri(1)}'"
    assert failed(checks(lab.settings())) == {}
