"""Each command of the how-to for OpenStack, on a cloud with all services."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import metadata
from pathlib import Path

import pytest

from integration.full_nova_lab import KEYSTONE, PASSWORD, FullNovaLab
from integration.libvirt_lab import eventually
from integration.nova_exporters import monitored
from integration.nova_lab import CLOUD, HOSTS
from integration.openstack_command import run_openstack
from opendrs.model import AntiAffinity, GuestId
from support.howto_pages import HowToPage

pytestmark = [pytest.mark.shared, pytest.mark.lab]

OPENDRS = Path(sys.executable).with_name("opendrs")
PROD, PROJECT, USER = "prod", "service", "opendrs"
PAGE = HowToPage("openstack.md")


@dataclass
class HowToReader:
    """An operator in a directory with clouds.yaml, who follows the page.

    The cloud `prod` is that of the administrator at first, then that of a user of
    OpenDRS, once the page has described its role.

    Attributes:
        lab: The cloud.
        home: The directory.
        prometheus: URL of the Prometheus that measures the cloud.
        shown: Output of the commands, by the command.
    """

    lab: FullNovaLab
    home: Path
    prometheus: str
    shown: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (USER, PROJECT):
            self.lab.add_user(name)
        self.log_in("admin", "lab", "admin")

    def log_in(self, user: str, password: str, project: str) -> None:
        """Let the cloud `prod` be that of a user."""
        login = (
            f"auth_url: '{KEYSTONE}', username: {user}, password: {password}, "
            f"project_name: {project}, user_domain_id: default, "
            "project_domain_id: default"
        )
        path = self.home / "clouds.yaml"
        path.write_text(
            f"clouds:\n  {PROD}: {{auth: {{{login}}}, region_name: RegionOne}}\n"
        )
        path.chmod(0o600)

    def run(self, command: str, answers: str = "", status: int = 0) -> None:
        """Run `opendrs ...` at a terminal with *answers*."""
        program, *words = shlex.split(command)
        assert program == "opendrs", command
        controller, terminal = os.openpty()
        os.write(controller, answers.encode())
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                [str(OPENDRS), *words],
                cwd=self.home,
                stdin=terminal,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "COLUMNS": "200"},
            )
        finally:
            os.close(controller)
            os.close(terminal)
        self.shown[command] = done.stdout + done.stderr
        assert done.returncode == status, self.shown[command]

    def install(self, command: str) -> None:
        assert command == "pip install '.[openstack]'"
        assert "openstack" in (metadata("opendrs").get_all("Provides-Extra") or ())

    def openstack(self, command: str) -> None:
        path = self.home / "clouds.yaml" if "--os-cloud" in command else None
        shown = run_openstack(command, CLOUD, path or self.lab.clouds_file)
        self.shown[command] = shown

    def connect(self, command: str) -> None:
        """Answer with the cloud and the defaults, and add the load of the page."""
        self.run(command, f"{PROD}\n\n\ny\n")
        (block,) = PAGE.blocks("toml")
        table = tomllib.loads(block)["platform"][PROD]
        path = self.home / "opendrs.toml"
        written = tomllib.loads(path.read_text())["platform"][PROD]
        assert {**table, "load": None} == {**written, "load": None}
        load = block.partition(f"[platform.{PROD}.load]")[2]
        load = load.replace(table["load"]["url"], self.prometheus)
        path.write_text(
            f"{path.read_text()}\n[platform.{PROD}.load]{load}\n"
            f"[limits]\nmin_uptime = 0\n"
        )

    def keep_running(self, command: str) -> None:
        """Run the controller until its first decision."""
        log = self.home / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [str(OPENDRS), *shlex.split(command)[1:], "--level", "debug"],
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            eventually(lambda: "balance: " in log.read_text(), 60, "it has decided")
        finally:
            process.send_signal(signal.SIGTERM)  # running steps are finished
            status = process.wait(120)
        assert status == 0, log.read_text()

    def grant(self, command: str) -> None:
        """Grant a role as the administrator, and check that it suffices."""
        run_openstack(command, CLOUD, self.lab.clouds_file)
        own = command.endswith(" opendrs")
        if own:
            remove = command.replace("role add", "role remove")
            admin = remove.removesuffix("opendrs") + "admin"
            run_openstack(admin, CLOUD, self.lab.clouds_file)
            self.lab.set_policy("\n".join(PAGE.blocks("yaml")))
        self.log_in(USER, PASSWORD, PROJECT)
        self.run("opendrs check opendrs.toml --online")
        assert "FAILED" not in self.shown["opendrs check opendrs.toml --online"]


def test_each_command_of_the_howto_works(
    full_nova: FullNovaLab, tmp_path: Path
) -> None:
    cloud = full_nova
    anti_affinity = {"opendrs.anti-affinity": "web"}
    web = [cloud.boot("web1", vcpus=2), cloud.boot("web2", metadata=anti_affinity)]
    load: dict[GuestId, float] = {web[0]: 1.6, web[1]: 0.8}
    with monitored(cloud, load, tmp_path) as url:
        reader = HowToReader(cloud, tmp_path, url)
        PAGE.run(
            {
                "pip": reader.install,
                "openstack": reader.openstack,
                "openstack role add": reader.grant,
                "opendrs connect": reader.connect,
                "opendrs": reader.run,
                "opendrs apply": lambda command: reader.run(command, "y\n"),
                "opendrs run": reader.keep_running,
            }
        )

    shown = reader.shown
    assert all(
        host in shown["openstack --os-cloud prod hypervisor list"] for host in HOSTS
    )
    assert all(guest in shown["opendrs show prod"] for guest in web)
    assert "1 migration" in shown["opendrs plan prod"]
    assert "1 done" in shown["opendrs apply prod"]
    (rule,) = cloud.platform().observe().rules
    assert isinstance(rule, AntiAffinity)
    assert rule.guests == frozenset(web)
