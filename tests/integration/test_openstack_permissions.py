"""Permissions and refusals of an OpenStack with Keystone and all services of Nova."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.libvirt_lab import eventually
from integration.nova_lab import IMAGE, PROGRAM, VENV, missing_requirements
from opendrs.config.platform_kinds import OnlineCheck
from opendrs.model import LiveMigration, NodeId
from opendrs.platforms.openstack import KIND, OpenStackPlatform, OpenStackSettings
from opendrs.ports import TaskState, TaskStatus

pytestmark = [pytest.mark.shared, pytest.mark.lab]

SCRIPT = PROGRAM.with_name("full.sh")
PORTS = (4369, 5000, 5672, 8774, 8778, 9696, 15432, 25672)
KEYSTONE = "http://127.0.0.1:5000/v3"
READER, ROLE = "reader", "opendrs"


@dataclass(frozen=True)
class FullCloud:
    """All services of a cloud, and a user `drs` in the project `drs`."""

    state: Path
    clouds_file: Path

    @property
    def settings(self) -> OpenStackSettings:
        return OpenStackSettings(
            cloud="drs", clouds_file=self.clouds_file, force_complete_after=60.0
        )

    def checks(self) -> list[OnlineCheck]:
        assert KIND.check_online is not None
        return list(KIND.check_online("prod", self.settings))

    def platform(self) -> OpenStackPlatform:
        return OpenStackPlatform("prod", self.settings)


def unavailable() -> Iterator[str]:
    yield from missing_requirements()
    if not Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists():
        yield f"RabbitMQ is not installed: {SCRIPT} deps"
    if not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        yield f"PostgreSQL is not installed: {SCRIPT} deps"
    if os.geteuid() != 0 or shutil.which("setsid") is None:
        yield "the services need root"
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                yield f"port {port} is in use"


@pytest.fixture(scope="module")
def full_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullCloud]:
    if reason := "; ".join(unavailable()):
        pytest.skip(f"no OpenStack: {reason}")
    directory = tmp_path_factory.mktemp("full")
    state = Path("/var/lib") / f"opendrs-openstack-{os.getpid()}"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"D": str(state), "V": str(VENV)}
    try:
        with (directory / "log").open("w") as log:
            subprocess.run(  # noqa: S603 - the lab's script
                [str(SCRIPT), "up", "2"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )
        yield _with_user(FullCloud(state, directory / "clouds.yaml"))
    finally:
        subprocess.run(  # noqa: S603 - the lab's script
            [str(SCRIPT), "down"], env=environment, check=False
        )


def _with_user(cloud: FullCloud) -> FullCloud:
    """Create the user, who may read, and a server of the administrator."""
    cloud.clouds_file.write_text(
        "clouds:\n" + _entry("admin", "lab") + _entry("drs", "secret")
    )
    admin = administrator(cloud)
    identity, compute = admin.identity, admin.compute
    project = identity.create_project(name="drs", domain_id="default")
    user = identity.create_user(name="drs", password="secret", domain_id="default")  # noqa: S106
    role = identity.find_role(READER) or identity.create_role(name=READER)
    identity.assign_project_role_to_user(project, user, role)
    flavor = compute.create_flavor(name="small", ram=512, vcpus=1, disk=1)
    server = compute.create_server(
        name="web", flavor_id=flavor.id, image_id=IMAGE, networks="none"
    )
    compute.wait_for_server(server, interval=0.5, wait=120)
    return cloud


def _entry(user: str, password: str) -> str:
    login = (
        f"auth_url: '{KEYSTONE}', username: {user}, password: {password}, "
        f"project_name: {user}, user_domain_id: default, project_domain_id: default"
    )
    return f"  {user}:\n    auth: {{{login}}}\n    region_name: RegionOne\n"


def administrator(cloud: FullCloud):  # type: ignore[no-untyped-def] # noqa: ANN201
    from openstack.config import OpenStackConfig  # noqa: PLC0415 - optional
    from openstack.connection import Connection  # noqa: PLC0415 - optional

    config = OpenStackConfig(config_files=[str(cloud.clouds_file)])
    return Connection(config=config.get_one(cloud="admin"))


def grant(cloud: FullCloud, name: str) -> None:
    """Grant a role as `openstack role add --user drs --project drs NAME` does."""
    identity = administrator(cloud).identity
    identity.assign_project_role_to_user(
        identity.find_project("drs"),
        identity.find_user("drs"),
        identity.find_role(name) or identity.create_role(name=name),
    )


def followed(cloud: FullCloud, action: LiveMigration) -> TaskStatus:
    platform = cloud.platform()
    task = platform.start(action)
    eventually(
        lambda: platform.status(task).state is not TaskState.RUNNING, 30, "it ends"
    )
    return platform.status(task)


def test_missing_role_is_named_and_sufficient_when_granted(
    full_cloud: FullCloud,
) -> None:
    before = {check.subject: check for check in full_cloud.checks()}
    wrong = [check for check in before.values() if not check.ok]

    # By its own policy, a role may administrate Nova alone.
    (full_cloud.state / "policy.yaml").write_text(
        f'"context_is_admin": "role:admin or role:{ROLE}"\n'
    )
    grant(full_cloud, ROLE)
    partly = [check for check in full_cloud.checks() if not check.ok]
    grant(full_cloud, "admin")
    after = full_cloud.checks()

    assert before["login"].ok
    assert "permission to list hypervisors" in {check.subject for check in wrong}
    assert all("--user drs --project drs admin" in check.remedy for check in wrong)
    assert {check.subject.rpartition(" of ")[0] for check in partly} == {
        "permission to read inventories",
        "permission to read usages",
        "permission to read traits",
    }
    assert all("/etc/placement/policy.yaml" in check.remedy for check in partly)
    assert [check for check in after if not check.ok] == []
    assert after[-1].detail == "2 nodes, 1 guest"


def test_rejection_after_acceptance_has_the_reason(full_cloud: FullCloud) -> None:
    grant(full_cloud, "admin")
    (guest,) = full_cloud.platform().observe().guests.values()
    target = next(NodeId(host) for host in ("host1", "host2") if host != guest.node)
    compute = administrator(full_cloud).compute
    (service,) = compute.services(binary="nova-compute", host=target)
    compute.disable_service(service, target, "nova-compute")

    rejected = followed(full_cloud, LiveMigration(guest.id, guest.node, target))
    compute.enable_service(service, target, "nova-compute")
    done = followed(full_cloud, LiveMigration(guest.id, guest.node, target))

    assert rejected.state is TaskState.FAILED
    assert "No valid host" in rejected.detail
    assert done.state is TaskState.DONE
    assert full_cloud.platform().observe().guests[guest.id].node == target
