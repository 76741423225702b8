"""Users, tokens, roles and access control lists of the double of Proxmox VE."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SECRET = "aaaaaaaa-0000-4000-8000-000000000001"  # noqa: S105 - of the double
PASSWORD = "the-password"  # noqa: S105 - as above
USER, TOKEN_ID = "drs@pve", "opendrs"
TOKEN = f"{USER}!{TOKEN_ID}"
BALANCER = frozenset({"Sys.Audit", "VM.Audit", "VM.Migrate"})


@dataclass
class Access:
    """Access control of a cluster; at first the user has the role Balancer on `/`.

    Attributes:
        roles: Privileges of each role.
        acl: Role by path and by user or token.
        separated: Whether the token has privileges of its own.
        enabled: Whether the user is enabled.
        tickets: Tickets that were given out.
        pools: Pool of each guest by its number.
    """

    roles: dict[str, set[str]] = field(
        default_factory=lambda: {"Balancer": set(BALANCER)}
    )
    acl: dict[tuple[str, str], set[str]] = field(
        default_factory=lambda: {("/", USER): {"Balancer"}}
    )
    separated: bool = False
    enabled: bool = True
    tickets: set[str] = field(default_factory=set)
    pools: dict[str, str] = field(default_factory=dict)

    def authenticate(self, headers: Mapping[str, str], method: str) -> str | None:
        """Return the reason of a 401; None if the login is accepted."""
        if cookie := headers.get("cookie"):
            if cookie.removeprefix("PVEAuthCookie=") not in self.tickets:
                return "Authentication failed!"
            if method != "GET" and headers.get("csrfpreventiontoken") != "csrf":
                return "Permission denied - invalid csrf token"
            return None
        header = headers.get("authorization", "")
        if not header.startswith("PVEAPIToken="):
            return "No ticket"
        accepted = header == f"PVEAPIToken={TOKEN}={SECRET}" and self.enabled
        return None if accepted else "Authentication failed!"

    def log_in(self, form: Mapping[str, str]) -> dict[str, str] | None:
        """Return a ticket; None if user or password are wrong."""
        if (form.get("username"), form.get("password")) != (USER, PASSWORD):
            return None
        ticket = f"PVE:{USER}:{len(self.tickets):08X}"
        self.tickets.add(ticket)
        return {"ticket": ticket, "CSRFPreventionToken": "csrf", "username": USER}

    def privileges(self, path: str, *, by_ticket: bool = False) -> set[str]:
        """Return the privileges of the login on *path*."""
        granted = self._with_pool(USER, path)
        if self.separated and not by_ticket:
            return granted & self._with_pool(TOKEN, path)
        return granted

    def _with_pool(self, name: str, path: str) -> set[str]:
        pool = self.pools.get(path.removeprefix("/vms/"))
        of_pool = set() if pool is None else self._of(name, f"/pool/{pool}")
        return self._of(name, path) | of_pool

    def _of(self, name: str, path: str) -> set[str]:
        for candidate in _with_parents(path):
            if roles := self.acl.get((candidate, name)):
                return {each for role in roles for each in self.roles.get(role, ())}
        return set()

    def permissions(self) -> dict[str, dict[str, int]]:
        """Return the answer of `GET /access/permissions`."""
        fixed = ("/", "/vms", "/nodes", "/storage", "/access", "/pool")
        paths = {*fixed, *(path for path, _ in self.acl)}
        return {
            path: dict.fromkeys(sorted(granted), 1)
            for path in sorted(paths)
            if (granted := self.privileges(path))
        }

    def denied(self, check: Any, values: Mapping[str, str]) -> str | None:  # noqa: ANN401
        """Return the missing privilege of a check in the schema; None if granted."""
        if not isinstance(check, list) or check[0] != "perm":
            return None
        path = check[1].format(**values)
        missing = [each for each in check[2] if each not in self.privileges(path)]
        if not missing or ("any" in check and len(missing) < len(check[2])):
            return None
        return f"Permission check failed ({path}, {'|'.join(missing)})"

    def pveum(self, command: str) -> None:
        """Carry out a command of the operator."""
        words = shlex.split(command)
        assert words[0] == "pveum"
        if words[1:] == ["user", "add", USER]:
            return
        if words[1:6] == ["user", "token", "add", USER, TOKEN_ID]:
            self.separated = words[6:] != ["--privsep", "0"]
            return
        options = dict(zip(words[4::2], words[5::2], strict=True))
        if words[1:3] == ["role", "add"]:
            assert words[3] not in self.roles
            self.roles[words[3]] = set(options["--privs"].split(","))
        elif words[1:3] == ["role", "modify"]:
            assert options["--append"] == "1"
            self.roles[words[3]] |= set(options["--privs"].split(","))
        elif words[1:3] == ["acl", "modify"]:
            for key in ("--users", "--tokens"):
                if key in options:
                    entry = self.acl.setdefault((words[3], options[key]), set())
                    entry.add(options["--roles"])
        else:
            raise AssertionError(command)


def _with_parents(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"
    yield "/"
