"""The command `openstack` of python-openstackclient, as an operator uses it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from integration.nova_lab import require_none

CLIENT = Path("/var/cache/opendrs-openstackclient/bin/openstack")


def openstack_program() -> str:
    """Return the path of the program, or skip the test."""
    found = shutil.which("openstack") or (str(CLIENT) if CLIENT.exists() else "")
    require_none([] if found else [f"there is no openstack command in {CLIENT.parent}"])
    return found


def run_openstack(command: str, cloud: str, clouds_file: Path) -> str:
    """Run `openstack ...` on *cloud*, which the command may override.

    Returns:
        Its standard output.
    """
    program, *words = shlex.split(command)
    assert program == "openstack", command
    done = subprocess.run(  # noqa: S603 - the operator's command
        [openstack_program(), *words],
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "OS_CLOUD": cloud,
            "OS_CLIENT_CONFIG_FILE": str(clouds_file),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
