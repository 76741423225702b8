"""Permissions and refusals of an OpenStack with Keystone and all services of Nova."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.full_nova_lab import ROLE, USER, FullNovaLab
from integration.libvirt_lab import eventually
from integration.nova_lab import CLOUD, HOSTS
from integration.openstack_command import run_openstack
from opendrs.model import LiveMigration, NodeId
from opendrs.ports import TaskState, TaskStatus

pytestmark = [pytest.mark.shared, pytest.mark.lab]

OPENDRS = Path(sys.executable).with_name("opendrs")
H1, H2 = NodeId(HOSTS[0]), NodeId(HOSTS[1])


@dataclass(frozen=True)
class User:
    """The user `USER`, with the role reader in a project of the same name."""

    lab: FullNovaLab
    place: Path

    def checks(self) -> list[dict[str, Any]]:
        """Return the results of `opendrs check --online`."""
        path = self.place / "opendrs.toml"
        table = {
            "kind": "openstack",
            "cloud": USER,
            "clouds_file": str(self.lab.clouds_file),
            "force_complete_after": 60.0,
        }
        path.write_text(tomli_w.dumps({"platform": {"prod": table}}))
        words = ["check", str(path), "--online", "--format", "json"]
        done = subprocess.run(  # noqa: S603 - our own command
            [str(OPENDRS), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        checks: list[dict[str, Any]] = json.loads(done.stdout)["online"]
        failed = [each for each in checks if not each["ok"]]
        assert done.returncode == (1 if failed else 0), done.stderr
        return checks

    def failed(self) -> list[dict[str, Any]]:
        return [each for each in self.checks() if not each["ok"]]

    def as_administrator(self, command: str) -> None:
        run_openstack(command, CLOUD, self.lab.clouds_file)


@pytest.fixture
def user(full_nova: FullNovaLab, tmp_path: Path) -> User:
    user = User(full_nova, tmp_path)
    full_nova.add_user(USER)
    user.as_administrator(f"openstack role add --user {USER} --project {USER} reader")
    full_nova.boot("web")  # in the project of the administrator
    return user


def test_missing_role_is_named_and_its_command_suffices(user: User) -> None:
    failed = user.failed()
    remedies = [each["remedy"] for each in failed if each["remedy"]]
    (command,) = {each.partition("; or,")[0] for each in remedies}

    user.as_administrator(command)

    assert "permission to list hypervisors" in {each["subject"] for each in failed}
    details = [each["detail"] for each in failed[:-1]]
    assert [each for each in details if "rejected by the policy" not in each] == []
    assert user.failed() == []
    assert user.checks()[-1]["detail"] == "3 nodes, 1 guest"


def test_role_of_its_own_is_completed_by_policy_of_placement(user: User) -> None:
    user.as_administrator(f"openstack role create {ROLE}")
    user.as_administrator(f"openstack role add --user {USER} --project {USER} {ROLE}")
    policy = f'"context_is_admin": "role:admin or role:{ROLE}"'
    user.lab.set_policy(policy)
    failed = user.failed()
    remedies = [each["remedy"] for each in failed if each["remedy"]]
    placement = [
        each.rpartition("/etc/placement/policy.yaml: ")[2] for each in remedies
    ]

    user.lab.set_policy("\n".join([policy, *placement]))

    assert {each["subject"] for each in failed if each["remedy"]} == {
        f"permission to read {part} of hypervisors"
        for part in ("inventories", "usages", "traits")
    }
    assert user.failed() == []


def test_rejection_after_acceptance_has_the_reason(full_nova: FullNovaLab) -> None:
    guest = full_nova.boot("web")
    full_nova.disable(H2)

    rejected = followed(full_nova, LiveMigration(guest, H1, H2))

    assert rejected.state is TaskState.FAILED
    assert "No valid host" in rejected.detail
    assert full_nova.host_of(guest) == H1


def followed(lab: FullNovaLab, action: LiveMigration) -> TaskStatus:
    platform = lab.platform()
    task = platform.start(action)
    eventually(
        lambda: platform.status(task).state is not TaskState.RUNNING, 60, "it ends"
    )
    return platform.status(task)
