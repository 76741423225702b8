"""Real Nova and Placement in one process of their own, with simulated hypervisors.

Tests take the fixture `nova` (migrations take less than a second) or `slow_nova`
(5 s, and they can be aborted or forced to complete): three enabled hosts, no servers.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from integration.libvirt_lab import SHARED, eventually
from opendrs.model import (
    Action,
    Guest,
    GuestId,
    LiveMigration,
    Node,
    NodeId,
    Pin,
    Rule,
    Snapshot,
)
from opendrs.platforms.openstack.platform import OpenStackPlatform
from opendrs.platforms.openstack.settings import OpenStackSettings
from opendrs.ports import Platform, TaskId, TaskStatus
from support.network import free_port

PROGRAM = SHARED / "labs" / "openstack" / "novalab.py"
VENV = Path(os.environ.get("OPENSTACK_VENV") or "/var/cache/openstack-lab/venv")
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"  # known to the image fixture of Nova
HOSTS = ("host1", "host2", "host3")
QUICK_DRIVER, SLOW_DRIVER = "fake.MediumFakeDriver", "fake.FakeLiveMigrateDriver"
START = 90  # seconds
CLOUD = "novalab"


class NovaLab:
    """Three hosts of Nova, and an administrator's access to them.

    Attributes:
        clouds_file: The file clouds.yaml; the administrator's cloud is `CLOUD`.
        url: URL of Nova.

    Args:
        directory: Directory for its files.
        driver: Driver of the hypervisors.
    """

    def __init__(self, directory: Path, driver: str) -> None:
        self._directory = directory
        self._driver = driver
        self._ports = free_port(), free_port()
        self.clouds_file = directory / "clouds.yaml"
        self.url, placement = (f"http://127.0.0.1:{port}" for port in self._ports)
        self.clouds_file.write_text(f"""\
clouds:
  {CLOUD}:
    auth_type: admin_token
    auth: {{endpoint: '{self.url}/v2.1', token: admin}}
    region_name: RegionOne
    compute_endpoint_override: {self.url}/v2.1
    placement_endpoint_override: {placement}
    compute_default_microversion: '2.96'
""")

    def up(self) -> None:
        """Start the hosts."""
        log = self._directory / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - the lab's program
                [
                    str(VENV / "bin" / "python"),
                    str(PROGRAM),
                    str(len(HOSTS)),
                    *map(str, self._ports),
                ],
                env={
                    **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                    "DRIVER": self._driver,
                    "TMPDIR": str(self._directory),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        until = monotonic() + START
        while "READY" not in (said := log.read_text(errors="replace")):
            if self.process.poll() is not None or monotonic() > until:
                pytest.fail(f"no Nova: {said[-2000:]}")
            Event().wait(0.2)
        self.log_in()

    def log_in(self) -> None:
        """Connect as the administrator."""
        from openstack.config import OpenStackConfig  # noqa: PLC0415 - optional
        from openstack.connection import Connection  # noqa: PLC0415 - optional

        config = OpenStackConfig(config_files=[str(self.clouds_file)])
        self.cloud = Connection(config=config.get_one(cloud=CLOUD))
        self.compute = self.cloud.compute

    def down(self) -> None:
        """End the hosts."""
        self.process.kill()
        self.process.wait()

    def reset(self) -> None:
        """Delete servers, groups and aggregates, and enable all hosts."""
        eventually(self._delete_servers, 60, "no server is left")
        for group in self.compute.server_groups(all_projects=True):
            self.compute.delete_server_group(group.id)
        for aggregate in self.compute.aggregates():
            for host in aggregate.hosts:
                self.compute.remove_host_from_aggregate(aggregate, host)
            self.compute.delete_aggregate(aggregate.id)
        for service in self.compute.services(binary="nova-compute"):
            self.compute.enable_service(service, service.host, "nova-compute")
            if service.is_forced_down:
                self.force_down(service.host, down=False)

    def _delete_servers(self) -> bool:
        from openstack.exceptions import HttpException  # noqa: PLC0415 - optional

        left = list(self.compute.servers(all_projects=True, details=False))
        for server in left:
            with suppress(HttpException):  # 409 while it is migrating
                self.compute.delete_server(server.id, ignore_missing=True)
        return not left

    def boot(  # noqa: PLR0913 - what a server has
        self,
        name: str,
        host: str = HOSTS[0],
        *,
        group: str | None = None,
        vcpus: int = 1,
        disk: int = 1,
        extra_specs: Mapping[str, str] | None = None,
        **body: Any,  # noqa: ANN401 - of the request
    ) -> GuestId:
        """Start a server on *host* and return the id of the guest."""
        flavor = self.compute.create_flavor(
            name=f"flavor {name} {monotonic()}", ram=512 * vcpus, vcpus=vcpus, disk=disk
        )
        if extra_specs:
            self.compute.create_flavor_extra_specs(flavor, dict(extra_specs))
        hints = {"scheduler_hints": {"group": group}} if group else {}
        server = self.compute.create_server(
            name=name,
            flavor_id=flavor.id,
            image_id=IMAGE,
            networks="none",
            host=host,
            **hints,
            **body,
        )

        def active() -> bool:
            status = self.compute.get_server(server.id).status
            assert status != "ERROR", f"Nova cannot start {name} on {host}"
            return bool(status == "ACTIVE")

        eventually(active, 60, f"{name} is active")
        return GuestId(f"{name}/{server.id[:8]}")

    def uuid(self, guest: GuestId) -> str:
        """Return the UUID of the server of a guest."""
        name, _, digits = guest.rpartition("/")
        found = [
            each.id
            for each in self.compute.servers(all_projects=True, details=False)
            if each.name == name and each.id.startswith(digits)
        ]
        (uuid,) = found
        return str(uuid)

    def host_of(self, guest: GuestId) -> str:
        """Return the host of a guest."""
        return str(self.compute.get_server(self.uuid(guest)).compute_host)

    def group(self, policy: str, name: str = "group", **rules: int) -> str:
        """Create a server group and return its id."""
        more = {"rules": rules} if rules else {}
        created = self.compute.create_server_group(name=name, policy=policy, **more)
        return str(created.id)

    def disable(self, host: str) -> None:
        """Disable the service of *host*, for maintenance."""
        for service in self.compute.services(binary="nova-compute", host=host):
            self.compute.disable_service(
                service, host, "nova-compute", disabled_reason="maintenance"
            )

    def add_trait(self, host: str, trait: str) -> None:
        """Add a custom trait to the resource provider of *host*."""
        placement, version = self.cloud.placement, {"microversion": "1.6"}
        placement.put(f"/traits/{trait}", **version)
        (provider,) = placement.resource_providers(name=host)
        path = f"/resource_providers/{provider.id}/traits"
        body = placement.get(path, **version).json()
        body["traits"] = sorted({*body["traits"], trait})
        assert placement.put(path, json=body, **version).status_code == 200

    def force_down(self, host: str, *, down: bool = True) -> None:
        """Declare the service of *host* down, as after fencing."""
        for service in self.compute.services(binary="nova-compute", host=host):
            path = f"/os-services/{service.id}"
            self.compute.put(path, json={"forced_down": down}, microversion="2.96")

    def migrations(self, guest: GuestId) -> list[dict[str, Any]]:
        """Return the records of the migrations of a guest, the newest first."""
        path = f"/os-migrations?instance_uuid={self.uuid(guest)}"
        response = self.compute.get(path, microversion="2.96").json()
        found: list[dict[str, Any]] = response["migrations"]
        return found

    def force_complete(self, guest: GuestId) -> None:
        """Let the migration in progress end at once."""
        path = f"/servers/{self.uuid(guest)}/migrations"

        def forced() -> bool:
            running = self.compute.get(path, microversion="2.96").json()["migrations"]
            for each in running:
                answer = self.compute.post(
                    f"{path}/{each['id']}/action",
                    json={"force_complete": None},
                    microversion="2.96",
                )
                return bool(answer.status_code == 202)
            return not running and self.compute.get_server(guest_uuid).task_state != (
                "migrating"
            )

        guest_uuid = self.uuid(guest)
        eventually(forced, 10, f"{guest} completes")

    def settings(self, **changes: Any) -> OpenStackSettings:  # noqa: ANN401
        """Return the settings of the lab."""
        settings = OpenStackSettings(cloud=CLOUD, clouds_file=self.clouds_file)
        return replace(settings, **changes)

    def platform(
        self,
        rules: Iterable[Rule] = (),
        **changes: Any,  # noqa: ANN401
    ) -> OpenStackPlatform:
        """Return the lab as a platform that has not connected yet."""
        return OpenStackPlatform("nova", self.settings(**changes), rules)


class RenamedPlatform:
    """Platform whose nodes and guests have other names, with pins alone as rules.

    Args:
        platform: The platform.
        names: New names by those of the platform.
    """

    def __init__(self, platform: Platform, names: Mapping[str, str]) -> None:
        self.name = platform.name
        self._platform = platform
        self._names = names
        self._originals = {new: old for old, new in names.items()}

    def observe(self) -> Snapshot:
        snapshot = self._platform.observe()
        nodes = map(self._node, snapshot.nodes.values())
        guests = map(self._guest, snapshot.guests.values())
        rules = [
            replace(each, guests=frozenset(GuestId(self._new(g)) for g in each.guests))
            for each in snapshot.rules
            if isinstance(each, Pin)
        ]
        return replace(
            snapshot,
            nodes={each.id: each for each in nodes},
            guests={each.id: each for each in guests},
            rules=tuple(rules),
        )

    def start(self, action: Action) -> TaskId:
        return self._platform.start(self._action(action))

    def find(self, action: Action) -> TaskId:
        return self._platform.find(self._action(action))

    def status(self, task: TaskId) -> TaskStatus:
        return self._platform.status(task)

    def abort(self, task: TaskId) -> None:
        self._platform.abort(task)

    def _new(self, name: str) -> str:
        return self._names.get(name, name)

    def _node(self, node: Node) -> Node:
        return replace(node, id=NodeId(self._new(node.id)))

    def _guest(self, guest: Guest) -> Guest:
        target = guest.migrating_to
        return replace(
            guest,
            id=GuestId(self._new(guest.id)),
            node=NodeId(self._new(guest.node)),
            migrating_to=None if target is None else NodeId(self._new(target)),
        )

    def _action(self, action: Action) -> Action:
        assert isinstance(action, LiveMigration)
        guest, source, target = (
            self._originals.get(name, name)
            for name in (action.guest, action.source, action.target)
        )
        return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def missing_requirements() -> Iterator[str]:
    """Yield all reasons why no lab can run here."""
    if "OPENDRS_NOVA_LAB" not in os.environ:
        yield "run make test-clusters"
    if not PROGRAM.exists():
        yield f"there is no {PROGRAM}; set OPENDRS_SHARED"
    if not (VENV / ".done").exists():
        yield f"Nova is not installed in {VENV}: {PROGRAM.with_name('full.sh')} venv"
    if importlib.util.find_spec("openstack") is None:
        yield "openstacksdk is not installed"


def require_none(missing: Iterable[str]) -> None:
    """Skip the test if something is *missing*; fail where the labs are required."""
    if reason := "; ".join(missing):
        if os.environ.get("OPENDRS_NOVA_LAB") == "required":
            pytest.fail(f"no Nova: {reason}")
        pytest.skip(f"no Nova: {reason}")


@contextmanager
def running_lab(driver: str) -> Iterator[NovaLab]:
    """Yield hosts with *driver*, or skip the test."""
    require_none(missing_requirements())
    with tempfile.TemporaryDirectory(prefix="opendrs-nova-") as directory:
        lab = NovaLab(Path(directory), driver)
        try:
            lab.up()
            yield lab
        finally:
            lab.down()


# Between modules the processes end: those of a lab that was used compute all the time.
@pytest.fixture(scope="module")
def nova_hosts() -> Iterator[NovaLab]:
    with running_lab(QUICK_DRIVER) as lab:
        yield lab


@pytest.fixture(scope="module")
def slow_nova_hosts() -> Iterator[NovaLab]:
    with running_lab(SLOW_DRIVER) as lab:
        yield lab


@pytest.fixture
def nova(nova_hosts: NovaLab) -> NovaLab:
    """Return hosts without servers."""
    nova_hosts.reset()
    return nova_hosts


@pytest.fixture
def slow_nova(slow_nova_hosts: NovaLab) -> NovaLab:
    """Return hosts without servers, whose migrations take 5 s."""
    slow_nova_hosts.reset()
    return slow_nova_hosts
