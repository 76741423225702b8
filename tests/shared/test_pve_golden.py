"""Answers of the real front end of Proxmox VE that the double gives as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.https_server import Request
from support.pve_cluster import PveGuest, PveNode
from support.pve_double import LOGIN, PREFIX, PveDouble, small_cluster
from support.pve_schema import SHARED

pytestmark = pytest.mark.shared

GOLDEN = SHARED / "data" / "pve-api" / "golden-responses.json"
# Canned data of the recording, which a cluster with state does not have.
CANNED = {
    "/nodes": "no nodes",
    "/nodes/pve1/tasks/notaupid/status": "an empty object for any task",
}


def pairs() -> Iterator[Any]:
    if not GOLDEN.exists():
        reason = f"no {GOLDEN}; set OPENDRS_SHARED"
        yield pytest.param({}, marks=pytest.mark.skip(reason=reason))
        return
    for index, pair in enumerate(json.loads(GOLDEN.read_text())):
        yield pytest.param(pair, id=f"{index}-{pair['method']}-{pair['status']}")


def login_headers(double: PveDouble, pair: dict[str, Any]) -> dict[str, str]:
    if pair["auth"] == "none":
        return {}
    if pair["auth"] == "ticket":
        double.access.tickets.add("ticket")
        headers = {"cookie": "PVEAuthCookie=ticket"}
        return headers | (
            {} if pair["status"] == 401 else {"csrfpreventiontoken": "csrf"}
        )
    wrong = "x" if pair["status"] == 401 else ""
    return {"authorization": f"PVEAPIToken={LOGIN}{wrong}"}


@pytest.mark.parametrize("pair", list(pairs()))
def test_double_gives_golden_answer(pair: dict[str, Any]) -> None:
    cluster = small_cluster()
    cluster.add(
        PveNode("pve1"),
        PveNode("pve2"),
        PveGuest(100, "web100", "pve1", status="stopped"),
    )
    double = PveDouble(cluster)
    for privilege in ("Sys.Modify", "Sys.Console", "User.Modify"):
        double.access.roles["Balancer"].add(privilege)
    sent = tuple((name, str(value)) for name, value in pair["params"].items())
    body = "&".join(f"{name}={value}" for name, value in sent).encode()
    is_read = pair["method"] == "GET"

    answer = double.respond(
        Request(
            pair["method"],
            PREFIX + pair["path"],
            sent if is_read else (),
            login_headers(double, pair),
            b"" if is_read else body.replace(b",", b"%2C"),
        )
    )

    if pair["path"] in CANNED and pair["status"] == 200:
        return
    assert (answer.status, answer.reason) == (pair["status"], pair["reason"])
    data: Any = json.loads(answer.body) if answer.body else ""
    if pair["status"] == 200:
        assert type(data["data"]) is type(pair["body"]["data"])
    else:
        assert data == pair["body"]
