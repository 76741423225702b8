"""Access control of the hosts of the lab: groups, polkit and SASL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import AF_UNIX, socket

from integration.libvirt_lab import LibvirtLab, eventually
from opendrs.platforms.libvirt.client import load_library

POLKITD = Path("/usr/lib/polkit-1/polkitd")
NSENTER = shutil.which("nsenter") or "nsenter"
NAMESPACES = ("--mount", "--net", "--uts", "--cgroup", "--target")
UNSHARE = shutil.which("unshare") or "unshare"
# The control groups of the host, all of whose processes end with the lab.
JOIN = """for group in cpu cpuacct unified; do
    echo $$ > /sys/fs/cgroup/$group/cgroup.procs
done
"""


class AccessControlledHost:
    """One host of the lab, whose files below /etc are its own.

    Args:
        lab: The lab.
        host: The number of the host.
    """

    def __init__(self, lab: LibvirtLab, host: int) -> None:
        self._files = lab.directory / f"h{host}"
        self._etc = self._files / "etc-copy"
        shutil.copytree("/etc", self._etc, symlinks=True)
        self._etc.chmod(0o700)

    def restart(self, *settings: str, prepare: str = "") -> None:
        """Restart libvirtd with other *settings*, once the commands *prepare* ran."""
        file = self._files / "etc" / "libvirtd.conf"
        keys = {setting.split()[0] for setting in settings}
        kept = [
            line
            for line in file.read_text().splitlines()
            if line.split()[0] not in keys
        ]
        file.write_text("\n".join([*kept, *settings, ""]))
        pid, pid_file = self._pid(), self._files / "libvirtd.pid"
        self.run(
            f"{prepare}\nkill {pid}\nwhile [ -d /proc/{pid} ]; do sleep 0.1; done\n"
            "exec setsid libvirtd --daemon --listen -f /etc/libvirt/libvirtd.conf "
            f"-p {pid_file}"
        )
        eventually(self._responds, 10, "libvirtd has restarted")

    def use_polkit(self) -> None:
        """Let polkit decide on each call, and members of the group libvirt connect."""
        rules = self._files / "rules.d"
        rules.mkdir()
        log = self._files / "log" / "polkitd"
        self.restart(
            'access_drivers = [ "polkit" ]',
            'unix_sock_group = "libvirt"',
            'unix_sock_rw_perms = "0770"',
            prepare=(
                f"mount --bind {self._etc}/passwd /etc/passwd\n"
                "mkdir -p /run/dbus; mount -t tmpfs dbus /run/dbus\n"
                f"mount --bind {rules} /etc/polkit-1/rules.d\n"
                "dbus-daemon --system --fork --nopidfile\n"
                f"setsid {POLKITD} --no-debug > {log} 2>&1 < /dev/null &\n"
            ),
        )

    def use_groups(self) -> None:
        """Let members of the group libvirt connect."""
        self.restart('unix_sock_group = "libvirt"', 'unix_sock_rw_perms = "0770"')

    def use_sasl(self) -> None:
        """Demand a password on the socket."""
        mechanisms = self._files / "etc" / "sasl.conf"
        mechanisms.write_text(
            "mech_list: scram-sha-256\nsasldb_path: /etc/libvirt/passwd.db\n"
        )
        mount = f"mount --bind {mechanisms} /etc/sasl2/libvirt.conf"
        self.restart('auth_unix_rw = "sasl"', prepare=mount)

    def run(self, command: str) -> None:
        """Run *command* as root on the host; what it starts ends with the lab."""
        process = str(self._pid())
        subprocess.run(  # noqa: S603 -- the words are the tests' own
            [NSENTER, *NAMESPACES, process, "sh", "-e", "-c", f"{JOIN}{command}"],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def run_on_users(self, command: str) -> None:
        """Run *command* as root with the users and groups of the host in /etc."""
        script = f"mount --bind {self._etc} /etc; {command}"
        subprocess.run(  # noqa: S603 -- the words are the tests' own
            [UNSHARE, "--mount", "sh", "-e", "-c", script], check=True
        )

    @contextmanager
    def as_user(self, *groups: str, user: str = "nobody") -> Iterator[None]:
        """Become *user*, with its groups on the host, in the `with` statement.

        Args:
            groups: Further groups.
            user: An account of the host.
        """
        load_library()  # which a process that has changed its user cannot load
        before = os.getgroups()
        os.setgroups(list(self._group_ids(user, groups)))
        os.seteuid(self._user_id(user))
        try:
            yield
        finally:
            os.seteuid(0)
            os.setgroups(before)

    def _user_id(self, user: str) -> int:
        rows = (self._etc / "passwd").read_text().splitlines()
        return next(
            int(row.split(":")[2]) for row in rows if row.startswith(f"{user}:")
        )

    def _group_ids(self, user: str, groups: tuple[str, ...]) -> Iterator[int]:
        for line in (self._etc / "group").read_text().splitlines():
            name, _, number, members = line.split(":")
            if user in members.split(",") or name in groups:
                yield int(number)

    def _responds(self) -> bool:
        with socket(AF_UNIX) as client, suppress(OSError):
            client.connect(str(self._files / "run" / "libvirt-sock"))
            return True
        return False

    def _pid(self) -> int:
        return int((self._files / "libvirtd.pid").read_text())
