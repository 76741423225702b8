"""Each route of the operator API with each role, and with invalid tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from opendrs.api.web_app import create_web_app
from opendrs.api.web_openapi import blank_context
from opendrs.ports import ActionOrigin, Role
from opendrs.store.tables import API_TOKENS, ENTRIES, PLANS, SESSIONS
from support.operator_api import NO_TRUST, TIMEOUT, OperatorApi

ROOT = Path(__file__).parents[3]
REASON = {"because": "a test"}
Operation = tuple[str, str]
PUBLIC = {
    ("GET", "/api/v1/health"),
    ("GET", "/api/v1/sign-in"),
    ("PUT", "/api/v1/session"),
    ("PUT", "/api/v1/session/oidc"),
    ("PUT", "/api/v1/sign-in/oidc"),
}
ADMIN_READS = {("GET", "/api/v1/audit"), ("GET", "/api/v1/tokens")}
READS: Mapping[Operation, Role] = {
    ("GET", f"/api/v1/{path}"): Role.VIEWER
    for path in (
        *("state", "events", "log", "session", "settings", "consolidation"),
        *("plans", "plans/{id}", "mode", "pause", "breaker", "drains"),
        *("nodes/{id}", "guests/{id}", "rules", "reasons", "explanations"),
        *("history/cluster", "history/cycles", "history/cycles/{run}"),
        *("history/moves", "history/series", "jobs"),
    )
} | dict.fromkeys(ADMIN_READS, Role.ADMIN)
JOBS: Mapping[Operation, Any] = {
    ("POST", "/api/v1/jobs"): {"kind": "drain-preview", "node": "a"},
    ("GET", "/api/v1/jobs/{id}"): None,
    ("DELETE", "/api/v1/jobs/{id}"): None,
}
WRITES: Mapping[Operation, tuple[Role, Any]] = {
    ("PUT", "/api/v1/plans/{id}/approval"): (Role.OPERATOR, {}),
    ("PUT", "/api/v1/plans/{id}/rejection"): (Role.OPERATOR, REASON),
    ("PUT", "/api/v1/plans/{id}/cancellation"): (Role.OPERATOR, {}),
    ("PUT", "/api/v1/mode"): (Role.OPERATOR, {"mode": "automatic"}),
    ("PUT", "/api/v1/pause"): (Role.OPERATOR, {"seconds": 60, **REASON}),
    ("DELETE", "/api/v1/pause"): (Role.OPERATOR, None),
    ("DELETE", "/api/v1/breaker"): (Role.OPERATOR, REASON),
    ("PUT", "/api/v1/nodes/{id}/drain"): (Role.OPERATOR, {}),
    ("DELETE", "/api/v1/nodes/{id}/drain"): (Role.OPERATOR, None),
    ("POST", "/api/v1/tokens"): (Role.ADMIN, {"name": "eve"}),
    ("DELETE", "/api/v1/tokens/{id}"): (Role.ADMIN, None),
}
SIGN_OUT = ("DELETE", "/api/v1/session")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def api(
    request: pytest.FixtureRequest, store_place: Callable[[str], Path | str]
) -> Iterator[OperatorApi]:
    with OperatorApi(store_place(request.param)) as running:
        running.propose()
        yield running


def request(
    api: OperatorApi, operation: Operation, token: str | None, body: object = None
) -> httpx2.Response:
    method, path = operation
    plan = api.controller.plans.plans()[-1]
    names = {"nodes": "a", "guests": "one"}
    subject = path.removeprefix("/api/v1/").partition("/")[0]
    path = path.replace("{id}", names.get(subject, plan.id))
    path = path.replace("{run}", plan.run.replace(" ", "%20"))
    if path.endswith("/cluster"):
        path += "?at=2026-11-21T13:00:00Z"
    headers = {"If-Match": f'"{plan.digest}"'}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    content = None if body is None else json.dumps(body)
    return httpx2.request(
        method,
        f"{api.address}{path}",
        headers=headers,
        content=content,
        timeout=TIMEOUT,
        verify=NO_TRUST,
    )


def contents(api: OperatorApi) -> list[Any]:
    """Return what operators can change."""
    with api.control.reading() as connection:
        return [
            connection.execute(select(*columns)).all()
            for columns in (
                (ENTRIES.c.key, ENTRIES.c.value),
                (PLANS.c.id, PLANS.c.state, PLANS.c.approval),
                (API_TOKENS.c.id, API_TOKENS.c.revoked_at),
                (SESSIONS.c.sha256,),
            )
        ]


def forged(api: OperatorApi) -> str:
    token = api.token()
    return token[:-1] + ("a" if token[-1] != "a" else "b")


def expired(api: OperatorApi) -> str:
    return api.token(seconds=1e-6)


def revoked(api: OperatorApi) -> str:
    token = api.token()
    with api.client() as client:
        assert client.delete(f"tokens/{token.split('_')[1]}").status_code == 204
    return token


INVALID: Mapping[str, Callable[[OperatorApi], str | None]] = {
    "missing": lambda _: None,
    "no token": lambda _: "hunter2",
    "unknown": lambda _: "odrs_22222222_" + "a" * 43,
    "forged": forged,
    "expired": expired,
    "revoked": revoked,
    "link": lambda api: api.token(single_use=True),
}


def test_all_operations_are_tested() -> None:
    document = create_web_app(blank_context()).openapi()
    operations = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
    }

    assert operations == {*PUBLIC, *READS, *WRITES, *JOBS, SIGN_OUT}


def test_committed_description_is_that_of_the_routes() -> None:
    committed = json.loads((ROOT / "docs/reference/openapi.json").read_text())

    assert committed == create_web_app(blank_context()).openapi()


@pytest.mark.parametrize("operation", [*READS, *WRITES, *JOBS, SIGN_OUT], ids=" ".join)
def test_no_route_accepts_an_invalid_token(
    api: OperatorApi, operation: Operation
) -> None:
    tokens = {name: create(api) for name, create in INVALID.items()}
    before = contents(api)
    body = JOBS.get(operation) or WRITES.get(operation, (None, None))[1]

    for name, token in tokens.items():
        response = request(api, operation, token, body)

        assert (name, response.status_code) == (name, 401)
        assert response.json()["code"] == "unauthorized"
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert contents(api) == before


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("operation", READS, ids=" ".join)
def test_reads_need_a_role(api: OperatorApi, operation: Operation, role: Role) -> None:
    token = api.token(role)
    before = contents(api)
    if operation[1].endswith("/events"):
        with api.client(role) as client, client.stream("GET", "events") as stream:
            assert stream.status_code == 200
        return

    response = request(api, operation, token)

    allowed = role.includes(READS[operation])
    assert response.status_code == (200 if allowed else 403)
    if not allowed:
        assert response.json()["code"] == "forbidden"
    assert contents(api) == before


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        (operation, role)
        for operation, (required, _) in WRITES.items()
        for role in Role
        if not role.includes(required)
    ],
)
def test_writes_below_the_role_change_nothing(
    api: OperatorApi, operation: Operation, role: Role
) -> None:
    _, body = WRITES[operation]
    token = api.token(role)
    before = contents(api)

    response = request(api, operation, token, body)

    assert (response.status_code, response.json()["code"]) == (403, "forbidden")
    assert contents(api) == before
    (_, newest), *_ = api.stores.operators.audit(1)
    assert (newest.result, newest.token) == ("forbidden", token.split("_")[1])
    assert newest.origin is ActionOrigin.API
    assert newest.arguments["method"] == operation[0]


def test_public_routes_need_no_token(api: OperatorApi) -> None:
    for path in ("health", "openapi.json"):
        response = request(api, ("GET", f"/api/v1/{path}"), None)
        assert response.status_code == 200


def test_sessions_replace_tokens(api: OperatorApi) -> None:
    same = {"Sec-Fetch-Site": "same-origin"}
    with api.client(None, **same) as client:
        token = api.token(Role.VIEWER, single_use=True)
        signed_in = client.put("session", json={"token": token})
        assert signed_in.status_code == 200
        assert signed_in.json()["role"] == "viewer"
        cookie = signed_in.headers["set-cookie"]
        assert cookie.startswith("opendrs=")
        for part in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert part in cookie
        assert "Secure" not in cookie  # plain HTTP on loopback

        assert client.get("state").status_code == 200
        assert client.put("mode", json={"mode": "advise"}).status_code == 403
        assert client.put("session", json={"token": token}).status_code == 401

        assert client.delete("session").status_code == 204
        assert client.get("session").status_code == 401


def test_session_ends_with_its_token_and_time(tmp_path: Path) -> None:
    same = {"Sec-Fetch-Site": "same-origin"}
    with OperatorApi(tmp_path / "store.db") as api, api.client() as admin:
        with api.client(None, **same) as client:
            token = api.token(Role.OPERATOR)
            assert client.put("session", json={"token": token}).status_code == 200
            assert client.get("state").status_code == 200
            admin.delete(f"tokens/{token.split('_')[1]}")
            assert client.get("state").status_code == 401
        with api.client(None, **same) as client:
            token = api.token(Role.OPERATOR, seconds=10 * 86_400)
            client.put("session", json={"token": token})
            api.clock.advance(api.settings.web.session_time - 60)
            assert client.get("state").status_code == 200
            api.clock.advance(61)
            assert client.get("state").status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "{own}"}, 403),
        ({"Origin": "{own}"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(
    api: OperatorApi, headers: dict[str, str], status: int
) -> None:
    own = {name: text.format(own=api.address) for name, text in headers.items()}
    with api.client(None, **{"Sec-Fetch-Site": "same-origin"}) as client:
        client.put("session", json={"token": api.token(Role.OPERATOR)})
        cookies = dict(client.cookies)
    before = contents(api)

    with api.client(None) as page:
        page.cookies.update(cookies)
        response = page.put("mode", json={"mode": "observe"}, headers=own)
        assert page.get("state", headers=own).status_code == 200
        signed_in = page.put("session", json={"token": "x"}, headers=own)

    assert response.status_code == status
    assert signed_in.status_code == (401 if status == 200 else 403)
    if status == 403:
        assert response.json()["code"] == "cross-site"
        assert contents(api) == before
    else:
        with api.client() as client:
            client.put("mode", json={"mode": "advise"})


def test_created_token_is_shown_once(api: OperatorApi) -> None:
    with api.client() as client:
        created = client.post("tokens", json={"name": "grafana", "seconds": 60})
        assert created.status_code == 201
        secret = created.json()["secret"]
        listed = client.get("tokens").text

    assert secret.startswith(f"odrs_{created.json()['id']}_")
    assert secret not in listed
    with api.control.reading() as connection:
        stored = connection.execute(select(API_TOKENS)).all()
        assert secret not in str(stored)
    with api.client(None, Authorization=f"Bearer {secret}") as client:
        assert client.get("session").json()["user"] == "grafana"
        listed_token = client.get("session").json()["token"]
    token = api.stores.access.token(listed_token)
    assert token is not None
    assert token.last_used_at is not None
