"""Double of the API of Proxmox VE: an HTTPS server over the state of a cluster.

Routes, parameters and permissions are those of the API description; what that does not
allow is refused as the real server does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from opendrs.platforms.proxmox import ProxmoxSettings
from support.https_server import Answer, Certificate, HttpsServer, Request, https_server
from support.pve_access import SECRET, TOKEN, TOKEN_ID, USER, Access
from support.pve_cluster import (
    CAPACITY,
    GIB,
    USED,
    ApiFailure,
    PveCluster,
    PveGuest,
    PveNode,
    PveTask,
    as_json,
)
from support.pve_schema import Route, find_route, parameter_errors

PREFIX = "/api2/json"
TOKEN_VARIABLE = "PVE_DOUBLE_TOKEN"  # noqa: S105 - a name
LOGIN = f"{TOKEN}={SECRET}"
SLOW_MACHINE = {"timeout": 60.0, "node_timeout": 60.0}  # seconds for an answer
_UPID = re.compile(
    r"UPID:[^:]+:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:]+:[^:]*:[^:]+:"
)


@dataclass
class PveDouble:
    """The API of one cluster.

    Attributes:
        cluster: The state.
        access: Users and permissions.
        fault: Answer instead of the ordinary one; None for the ordinary one.
        requests: Method and path of each request that was let in.
    """

    cluster: PveCluster = field(default_factory=PveCluster)
    access: Access = field(default_factory=Access)
    fault: Callable[[Request], Answer | None] = lambda _: None
    requests: list[str] = field(default_factory=list)

    def respond(self, request: Request) -> Answer:
        fault = self.fault(request)
        if fault is not None:
            return fault
        with self.cluster.lock:
            return self._respond(request)

    def _respond(self, request: Request) -> Answer:
        path = unquote(request.path).removeprefix(PREFIX)
        sent = request.query + (request.form if request.body else ())
        if path != "/access/ticket" or request.method == "GET":
            reason = self.access.authenticate(request.headers, request.method)
            if reason is not None:
                return Answer(401, reason)
        self.requests.append(f"{request.method} {path}")
        found = find_route(request.method, path, self.cluster.major)
        if found is None:
            return _failure(501, f"Method '{request.method} {path}' not implemented")
        route, in_path = found
        permissions = route.description.get("permissions", {})
        check = None if permissions.get("user") == "all" else permissions.get("check")
        denied = self.access.denied(check, in_path)
        if denied is not None:
            return _failure(403, denied)
        values, errors = parameter_errors(route, in_path, sent)
        if errors:
            return _failure(400, "Parameter verification failed.", errors)
        unreachable = self._unreachable(route, values)
        if unreachable is not None:
            return unreachable
        return self._carry_out(route, values)

    def _unreachable(self, route: Route, values: Mapping[str, str]) -> Answer | None:
        if route.description.get("proxyto") != "node":
            return None
        node = self.cluster.nodes.get(values["node"])
        if node is None:
            return _failure(500, f"hostname lookup '{values['node']}' failed")
        if not node.online:
            return Answer(595, "No route to host")
        if node.failure:
            return Answer(node.failure, "Connection timed out", delay=node.delay)
        return None

    def _carry_out(self, route: Route, values: Mapping[str, str]) -> Answer:
        handler = _HANDLERS.get(f"{route.method} {route.template}")
        if handler is None:
            return _failure(500, f"not part of the double: {route.template}")
        try:
            return Answer(200, "OK", as_json(handler(self, values)))
        except ApiFailure as failure:
            return _failure(failure.status, failure.message, failure.errors)

    def granted(self, path: str, privilege: str) -> bool:
        return privilege in self.access.privileges(path)


def _failure(
    status: int, message: str, errors: Mapping[str, str] | None = None
) -> Answer:
    body: dict[str, object] = {"data": None, "message": f"{message}\n"}
    if status == 501:
        body["message"] = message
    if errors:
        body["errors"] = dict(errors)
    return Answer(status, message, json.dumps(body).encode())


def _version(double: PveDouble, _: Mapping[str, str]) -> object:
    version = double.cluster.version
    return {"version": version, "release": version[:3], "repoid": "0" * 8}


def _cluster_status(double: PveDouble, _: Mapping[str, str]) -> object:
    nodes = double.cluster.nodes.values()
    return [
        {
            "type": "cluster",
            "id": "cluster",
            "name": "double",
            "nodes": len(nodes),
            "quorate": int(double.cluster.quorate),
        },
        *(
            {
                "type": "node",
                "id": f"node/{node.name}",
                "name": node.name,
                "online": int(node.online),
            }
            for node in nodes
        ),
    ]


def _resources(double: PveDouble, values: Mapping[str, str]) -> object:
    cluster = double.cluster
    rows = [
        _guest_row(cluster, guest) | _pool(double, guest)
        for guest in cluster.guests.values()
    ]
    visible = [row for row in rows if double.granted(f"/vms/{row['vmid']}", "VM.Audit")]
    nodes = [_node_row(double, node) for node in cluster.nodes.values()]
    found = {"vm": visible, "node": nodes, "storage": _storage_rows(double)}
    wanted = values.get("type")
    return [
        row for kind, each in found.items() if wanted in (None, kind) for row in each
    ]


def _storage_rows(double: PveDouble) -> list[dict[str, Any]]:
    return [
        {
            "type": "storage",
            "id": f"storage/{node}/{name}",
            "node": node,
            "storage": name,
            "status": "available",
            "shared": int(shared),
            "disk": double.cluster.used.get(name, USED),
            "maxdisk": CAPACITY,
        }
        for name, shared in double.cluster.storages.items()
        if double.granted(f"/storage/{name}", "Datastore.Audit")
        for node in double.cluster.nodes
        if (node, name) not in double.cluster.absent
    ]


def _node_row(double: PveDouble, node: PveNode) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "node", "id": f"node/{node.name}", "node": node.name}
    row["status"] = "online" if node.online else "offline"
    if node.online and double.granted("/", "Sys.Audit"):
        row |= {"cpu": node.cpu, "maxcpu": node.maxcpu, "mem": node.mem}
        row |= {"maxmem": node.maxmem, "uptime": 86_400}
    if double.cluster.services:
        row["hastate"] = "maintenance" if node.maintenance else "online"
    return row


def _guest_row(cluster: PveCluster, guest: PveGuest) -> dict[str, Any]:
    running = guest.status == "running"
    row = {
        "type": guest.kind,
        "id": f"{guest.kind}/{guest.vmid}",
        "vmid": guest.vmid,
        "node": guest.node,
        "name": guest.name,
        "status": guest.status,
        "maxcpu": guest.maxcpu,
        "maxmem": guest.maxmem,
        "cpu": guest.cpu if running else 0,
        "mem": guest.mem if running else 0,
        "uptime": 10_000 if running else 0,
        "tags": guest.tags,
        "template": int(guest.template),
    }
    if guest.lock:
        row["lock"] = guest.lock
    if guest.sid in cluster.services:
        row["hastate"] = cluster.services[guest.sid]["state"]
    return row


def _pool(double: PveDouble, guest: PveGuest) -> dict[str, str]:
    pool = double.access.pools.get(str(guest.vmid))
    if pool is None or not double.granted(f"/pool/{pool}", "Pool.Audit"):
        return {}  # as recorded: resources-filters
    return {"pool": pool}


def _cluster_tasks(double: PveDouble, _: Mapping[str, str]) -> object:
    return [_task_row(task) for task in reversed(double.cluster.tasks[-200:])]


def _node_tasks(double: PveDouble, values: Mapping[str, str]) -> object:
    tasks = [
        task
        for task in double.cluster.tasks
        if task.node == values["node"]
        and (task.end is not None or values.get("source", "archive") != "archive")
        and values.get("vmid") in (None, str(task.vmid))
    ]
    return [_task_row(task) for task in reversed(tasks)][: int(values.get("limit", 50))]


def _task_row(task: PveTask) -> dict[str, Any]:
    row: dict[str, Any] = {
        "upid": task.upid,
        "node": task.node,
        "type": task.type,
        "id": str(task.vmid),
        "user": task.user,
        "starttime": int(task.start),
    }
    if task.tokenid is not None:
        row["tokenid"] = task.tokenid
    if task.end is not None:
        row |= {"endtime": int(task.end), "status": task.status}
    return row


def _find_task(double: PveDouble, values: Mapping[str, str]) -> PveTask:
    if not _UPID.fullmatch(values["upid"]):
        error = "unable to parse worker upid"
        raise ApiFailure(400, "Parameter verification failed.", upid=error)
    for task in double.cluster.tasks:
        if task.upid == values["upid"] and task.node == values["node"]:
            return task
    raise ApiFailure(400, "Parameter verification failed.", upid="no such task")


def _task_status(double: PveDouble, values: Mapping[str, str]) -> object:
    task = _find_task(double, values)
    row = _task_row(task) | {"pid": 1, "pstart": 1}
    if task.end is not None:
        row["exitstatus"] = task.status
    row["status"] = "running" if task.end is None else "stopped"
    return row


def _task_log(double: PveDouble, values: Mapping[str, str]) -> object:
    try:
        log = _find_task(double, values).log
    except ApiFailure as failure:
        if failure.errors["upid"] != "no such task":
            raise
        log = ["unable to open file - No such file or directory"]
    limit = int(values.get("limit", 50))
    lines = log if limit == 0 else log[:limit]
    return [{"n": number, "t": text} for number, text in enumerate(lines, 1)]


def _stop_task(double: PveDouble, values: Mapping[str, str]) -> object:
    task = _find_task(double, values)
    if task.user != USER and not double.granted(f"/nodes/{task.node}", "Sys.Modify"):
        denied = f"Permission check failed (/nodes/{task.node}, Sys.Modify)"
        raise ApiFailure(403, denied)
    double.cluster.stop(task)
    return None


def _options(double: PveDouble, _: Mapping[str, str]) -> object:
    if not double.granted("/", "Sys.Audit"):
        return {"allowed-tags": []}
    crs = {"crs": double.cluster.crs} if double.cluster.crs else {}
    return {"description": "", "mac_prefix": "BC:24:11", **crs}


def _ha_resources(double: PveDouble, _: Mapping[str, str]) -> object:
    rows = []
    for guest in double.cluster.guests.values():
        if guest.ha is None:
            continue
        row: dict[str, Any] = {"sid": guest.sid, "state": guest.ha, "type": "vm"}
        if guest.group is not None:
            row["group"] = guest.group
        if guest.auto_rebalance is not None:
            row["auto-rebalance"] = guest.auto_rebalance
        rows.append(row)
    return rows


def _ha_groups(double: PveDouble, _: Mapping[str, str]) -> object:
    if double.cluster.major >= 9:
        message = "cannot index groups: ha groups have been migrated to rules"
        raise ApiFailure(500, message)
    return double.cluster.groups


def _manager_status(double: PveDouble, _: Mapping[str, str]) -> object:
    cluster = double.cluster
    nodes = cluster.nodes.values()
    quorum = {"node": "pve1", "quorate": str(int(cluster.quorate))}
    if not cluster.services:  # there is no master yet
        return {"manager_status": {"node_status": {}}, "quorum": quorum}
    manager: dict[str, Any] = {
        "node_status": {
            n.name: "maintenance" if n.maintenance else "online" for n in nodes
        },
        "service_status": cluster.services,
        "timestamp": int(cluster.now),
        "master_node": next(iter(cluster.nodes), None),
    }
    if cluster.disarm is not None:
        manager["disarm"] = {"mode": cluster.disarm, "state": "disarmed"}
    return {
        "manager_status": manager,
        "lrm_status": {n.name: {"timestamp": int(cluster.now)} for n in nodes},
        "quorum": quorum,
    }


def _permissions(double: PveDouble, _: Mapping[str, str]) -> object:
    return double.access.permissions()


def _token(double: PveDouble, _: Mapping[str, str]) -> object:
    return {"privsep": int(double.access.separated), "expire": 0}


def _roles(double: PveDouble, _: Mapping[str, str]) -> object:
    return [
        {"roleid": name, "privs": ",".join(sorted(privileges))}
        for name, privileges in double.access.roles.items()
    ]


def _ticket(double: PveDouble, values: Mapping[str, str]) -> object:
    ticket = double.access.log_in(values)
    if ticket is None:
        raise ApiFailure(401, "authentication failure")
    return ticket


def _node_status(double: PveDouble, values: Mapping[str, str]) -> object:
    del double, values
    return {
        "cpuinfo": {"model": "Double CPU", "cpus": 16},
        "ksm": {"shared": 0},
        "current-kernel": {"machine": "x86_64"},
    }


def _history(double: PveDouble, values: Mapping[str, str]) -> object:
    node = double.cluster.nodes.get(values["node"])
    if node is None:
        database = f"/var/lib/rrdcached/db/pve-node-9.0/{values['node']}"
        message = (
            "RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed"
        )
        cause = f"opening '{database}': No such file or directory"
        raise ApiFailure(500, f"{message}: {cause}")
    end = int(double.cluster.now) // 60 * 60
    figures = {"cpu": node.cpu, "maxcpu": node.maxcpu, "memused": node.mem}
    if double.cluster.major >= 9:
        figures |= {"pressurecpusome": 5.0, "pressurememorysome": 0.0}
    rows = [{"time": end - 60 * age, **figures} for age in range(69, -1, -1)]
    return rows if node.online else [{"time": row["time"]} for row in rows]


def _guests_of(kind: str) -> Callable[[PveDouble, Mapping[str, str]], object]:
    def rows(double: PveDouble, values: Mapping[str, str]) -> object:
        found = []
        for guest in double.cluster.guests.values():
            if (guest.node, guest.kind) == (values["node"], kind):
                row = {"vmid": guest.vmid, "status": guest.status, "name": guest.name}
                if double.cluster.major >= 9 and guest.status == "running":
                    row |= {"pressurecpusome": 1.0, "pressurecpufull": 0.0}
                found.append(row)
        return found

    return rows


def _config(kind: str) -> Callable[[PveDouble, Mapping[str, str]], object]:
    def config(double: PveDouble, values: Mapping[str, str]) -> object:
        guest = double.cluster.require(kind, values["node"], int(values["vmid"]))
        document: dict[str, Any] = {"cores": guest.maxcpu, "digest": guest.digest}
        if guest.lock:
            document["lock"] = guest.lock
        if guest.snapshot:
            document["parent"] = guest.snapshot
        if guest.protected:
            document["protection"] = 1
        size = f"size={guest.disk_size // GIB}G"
        document |= {key: f"{each},{size}" for key, each in guest.volumes.items()}
        return document | {f"unused{n}": v for n, v in enumerate(guest.unused)}

    return config


def _preconditions(kind: str) -> Callable[[PveDouble, Mapping[str, str]], object]:
    def preconditions(double: PveDouble, values: Mapping[str, str]) -> object:
        cluster = double.cluster
        guest = cluster.require(kind, values["node"], int(values["vmid"]))
        cluster.require_unlocked(guest)
        others = [name for name in cluster.nodes if name != guest.node]
        allowed = [name for name in others if name not in guest.lacking]
        running = int(guest.status == "running")
        if kind == "lxc":
            return {
                "allowed-nodes": allowed,
                "not-allowed-nodes": {},
                "running": running,
            }
        answer: dict[str, Any] = {
            "running": running,
            "local_disks": [
                {"volid": v, "cdrom": 0} for v in cluster.local_disks(guest)
            ],
            "local_resources": list(guest.devices),
            "mapped-resources": [],
        }
        if cluster.major >= 9:
            answer["allowed_nodes"] = allowed
            answer["not_allowed_nodes"] = {
                name: {"unavailable_storages": [guest.lacking[name]]}
                if name in guest.lacking
                else {}
                for name in others
            }
            answer["has-dbus-vmstate"] = 1
        return answer

    return preconditions


def _migrate(kind: str) -> Callable[[PveDouble, Mapping[str, str]], object]:
    def migrate(double: PveDouble, values: Mapping[str, str]) -> object:
        for name in ("force", "migration_type", "migration_network"):
            if name in values:
                errors = {name: "Only root may use this option."}
                raise ApiFailure(400, "Parameter verification failed.", **errors)
        storage = values.get("targetstorage", values.get("target-storage", "1"))
        path = f"/vms/{values['vmid']}"
        if storage != "1" and not double.granted(path, "VM.Config.Disk"):
            raise ApiFailure(403, f"Permission check failed ({path}, VM.Config.Disk)")
        return double.cluster.migrate(kind, values, USER, TOKEN_ID)

    return migrate


def _move_disk(kind: str) -> Callable[[PveDouble, Mapping[str, str]], object]:
    def move_disk(double: PveDouble, values: Mapping[str, str]) -> object:
        path = f"/storage/{values['storage']}"
        if not double.granted(path, "Datastore.AllocateSpace"):
            denied = f"Permission check failed ({path}, Datastore.AllocateSpace)"
            raise ApiFailure(403, denied)
        return double.cluster.move_disk(kind, values, USER, TOKEN_ID)

    return move_disk


_HANDLERS: Mapping[str, Callable[[PveDouble, Mapping[str, str]], object]] = {
    "GET /version": _version,
    "GET /cluster/status": _cluster_status,
    "GET /cluster/resources": _resources,
    "GET /cluster/tasks": _cluster_tasks,
    "GET /cluster/options": _options,
    "PUT /cluster/options": lambda *_: None,
    "GET /cluster/replication": lambda double, _: [
        {"id": f"{vmid}-0", "guest": vmid, "target": "h2", "type": "local"}
        for vmid, guest in double.cluster.guests.items()
        if guest.replicated
    ],
    "GET /cluster/ha/resources": _ha_resources,
    "GET /cluster/ha/rules": lambda double, _: double.cluster.rules,
    "POST /cluster/ha/rules": lambda *_: None,
    "GET /cluster/ha/groups": _ha_groups,
    "GET /cluster/ha/status/manager_status": _manager_status,
    "GET /access/permissions": _permissions,
    "GET /access/users/{userid}/token/{tokenid}": _token,
    "POST /access/users/{userid}/token/{tokenid}": lambda *_: {},
    "GET /access/roles": _roles,
    "POST /access/ticket": _ticket,
    "GET /nodes": lambda double, _: [
        _node_row(double, node) for node in double.cluster.nodes.values()
    ],
    "GET /nodes/{node}/status": _node_status,
    "GET /nodes/{node}/rrddata": _history,
    "GET /nodes/{node}/qemu": _guests_of("qemu"),
    "GET /nodes/{node}/lxc": _guests_of("lxc"),
    "GET /nodes/{node}/qemu/{vmid}/config": _config("qemu"),
    "GET /nodes/{node}/lxc/{vmid}/config": _config("lxc"),
    "GET /nodes/{node}/qemu/{vmid}/migrate": _preconditions("qemu"),
    "GET /nodes/{node}/lxc/{vmid}/migrate": _preconditions("lxc"),
    "POST /nodes/{node}/qemu/{vmid}/migrate": _migrate("qemu"),
    "POST /nodes/{node}/lxc/{vmid}/migrate": _migrate("lxc"),
    "POST /nodes/{node}/qemu/{vmid}/move_disk": _move_disk("qemu"),
    "POST /nodes/{node}/lxc/{vmid}/move_volume": _move_disk("lxc"),
    "GET /nodes/{node}/tasks": _node_tasks,
    "GET /nodes/{node}/tasks/{upid}/status": _task_status,
    "GET /nodes/{node}/tasks/{upid}/log": _task_log,
    "DELETE /nodes/{node}/tasks/{upid}": _stop_task,
}


@dataclass(frozen=True)
class RunningDouble:
    """A double that is served by one or more hosts."""

    double: PveDouble
    servers: tuple[HttpsServer, ...]
    certificate: Certificate

    @property
    def cluster(self) -> PveCluster:
        return self.double.cluster

    def settings(self, **changes: Any) -> ProxmoxSettings:  # noqa: ANN401
        """Return settings that pin the certificate and read the token of the double.

        The token is in the environment variable `TOKEN_VARIABLE`.
        """
        values: dict[str, Any] = {
            "hosts": tuple(server.host for server in self.servers),
            "token_env": TOKEN_VARIABLE,
            "fingerprints": (self.certificate.fingerprint,),
            **SLOW_MACHINE,
        }
        return ProxmoxSettings(**(values | changes))


@contextmanager
def run_double(
    cluster: PveCluster, certificate: Certificate, hosts: int = 1
) -> Iterator[RunningDouble]:
    """Serve *cluster* on loopback."""
    double = PveDouble(cluster)
    with ExitStack() as stack:
        servers = tuple(
            stack.enter_context(https_server(double.respond, certificate))
            for _ in range(hosts)
        )
        yield RunningDouble(double, servers, certificate)


def small_cluster(version: str = "9.2.11", nodes: int = 3) -> PveCluster:
    """Return a cluster of *nodes* nodes h1, h2, ... without guests."""
    cluster = PveCluster(version)
    cluster.add(*(PveNode(f"h{number}") for number in range(1, nodes + 1)))
    return cluster
