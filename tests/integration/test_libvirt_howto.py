"""The how-to for libvirt: each of its commands, on real hosts."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import tomllib
from functools import partial
from pathlib import Path

import pytest

from integration.libvirt_access import POLKITD, AccessControlledHost
from integration.libvirt_lab import HOSTS, LibvirtLab, eventually
from opendrs.model import NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.checks import check_online
from opendrs.platforms.libvirt.client import load_library, open_connection
from support.terminal import OPENDRS, RunOpendrs, run_opendrs_in_terminal
from unit.cli.conftest import opendrs as opendrs

pytestmark = [pytest.mark.shared, pytest.mark.lab]

HOWTO = Path(__file__).parents[2] / "docs/how-to/libvirt.md"
NAMES = dict(zip(HOSTS, ("alpha", "beta", "gamma"), strict=True))


def code_blocks(kind: str) -> list[str]:
    """Return the code of *kind* in the how-to."""
    pattern = rf"^```{kind}\n(.*?)^```"
    return re.findall(pattern, HOWTO.read_text(), re.MULTILINE | re.DOTALL)


def start_persistent(lab: LibvirtLab, host: int, name: str, duty: int = 0) -> None:
    """Start a guest that libvirt also keeps when it stops."""
    lab.vm(host, name, duty=duty)
    lab.define(host, lab.virsh(host, "dumpxml", name))


def test_howto_leads_to_a_balanced_cluster(
    lab: LibvirtLab, opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"vm{number}" for number in range(4)]
    for name in names:
        lab.vm(1, name, duty=20)
    answers = [
        line
        for host, name in NAMES.items()
        for line in (name, lab.uri(host), lab.peer_uri(host))
    ]
    answers += ["", ""]  # no more nodes, no shared directory
    *reads, apply, run = [
        line.removeprefix("$ opendrs ").split()
        for line in "".join(code_blocks("console")).splitlines()
    ]

    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, ""])))

    for command in reads:
        result = opendrs(*command)
        assert result.status == 0, (command, result)
    before = [lab.running(name) for name in names]
    applied = run_opendrs_in_terminal(*apply, reply=("Execute this plan?", "y\n"))

    assert [each[0] for each in reads] == ["connect", "check", "show", "plan"]
    assert set(before) == {(1,)}
    assert applied.status == 0, applied
    assert len({lab.running(name) for name in names}) > 1
    assert_runs_until_stopped(run)


def assert_runs_until_stopped(words: list[str]) -> None:
    with Path("log").open("wb") as log:
        command = [OPENDRS, *words, "--format", "json"]
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        eventually(lambda: "decision-made" in Path("log").read_text(), 30, "it decides")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(not POLKITD.exists(), reason=f"there is no {POLKITD}")
def test_account_of_the_howto_can_only_read_and_migrate(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    create, *access, restart = code_blocks("sh")[0].splitlines(keepends=True)
    host = AccessControlledHost(lab, 1)
    host.run_on_users(create)
    host.use_polkit()
    host.run("".join(access))
    host.restart()  # as the last command does where systemd runs
    settings = LibvirtSettings(nodes={"h1": lab.uri(1)})

    disk = "<disk type='block'><source dev='/dev/sda'/><target dev='vdb'/></disk>"
    other = lab.description("vm").replace("<name>vm<", "<name>other<")

    with host.as_user(user="drs"):
        connection = open_connection(NodeId("h1"), lab.uri(1))

        def is_content() -> bool:
            return all(check.ok for check in check_online("lab", settings))

        eventually(is_content, 10, "polkit has the rule")
        vm = connection.lookupByName("vm")
        for call in (
            vm.destroy,
            vm.abortJob,
            partial(vm.attachDeviceFlags, disk, load_library().VIR_DOMAIN_AFFECT_LIVE),
            partial(connection.createXML, other, 0),
            partial(connection.defineXML, other),
        ):
            with pytest.raises(load_library().libvirtError, match="access denied"):
                call()

    assert restart == "systemctl restart libvirtd\n"
    assert lab.running("vm") == (1,)


def test_rules_of_the_howto_are_read_with_their_origin(lab: LibvirtLab) -> None:
    for name in ("web1", "web2", "db1", "old1"):
        start_persistent(lab, 1, name)
    *commands, remove = code_blocks("sh")[1].splitlines()
    host = AccessControlledHost(lab, 1)
    settings = lab.settings(
        nodes={name: lab.uri(host) for host, name in NAMES.items()},
        migration_uris={},
        labels={"beta": ("ssd",)},
    )

    host.run("\n".join(commands))
    before = LibvirtPlatform("lab", settings).observe()
    host.run(remove)
    after = LibvirtPlatform("lab", settings).observe()

    origins = [f"metadata opendrs.{key}" for key in ("anti-affinity", "nodes", "pin")]
    assert [rule.origin for rule in before.rules] == origins
    assert [rule.origin for rule in after.rules] == origins[:2]
    for name in ("web1", "web2", "db1"):
        assert "opendrs:guest" in lab.virsh(1, "dumpxml", name, "--inactive")


def test_configuration_of_the_howto_is_valid() -> None:
    text, _ = code_blocks("toml")
    table = tomllib.loads(text)["platform"]["lab"]

    assert table.pop("kind") == "libvirt"
    assert LibvirtSettings(**table)
