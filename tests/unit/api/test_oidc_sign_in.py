"""Sign-in by OpenID Connect, at a provider on loopback that can issue wrong tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from opendrs.api import oidc_sign_in
from opendrs.api.access_control import revoke_token
from opendrs.config.oidc_settings import MAX_TIMEOUT, OidcSettings
from opendrs.config.web_settings import WebSettings
from opendrs.controller.operator_commands import Actor
from opendrs.ports import Role
from support.certificates import CertificateFiles
from support.network import free_port
from support.oidc_issuer import CLIENT, SECRET, Claims, OidcIssuer
from support.operator_api import NO_TRUST, TIMEOUT, OffsetClock, OperatorApi

ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@contextmanager
def running(
    tmp_path: Path,
    vouched: CertificateFiles | None = None,
    **values: Any,  # noqa: ANN401 - settings
) -> Iterator[tuple[OperatorApi, OidcIssuer]]:
    """Start an issuer, and a server with it; with TLS if *vouched* is given."""
    clock = OffsetClock()
    files: dict[str, Any] = {}
    tls, scheme = None, "http"
    if vouched is not None:
        scheme, own = "https", vouched.settings
        files = {"certificate": own.certificate, "key": own.key}
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(own.certificate, own.key)
    with OidcIssuer(lambda: clock.now().timestamp(), tls) as issuer:
        secret = tmp_path / "secret"
        secret.write_text(f"{SECRET}\n")
        listen = f"127.0.0.1:{free_port()}"
        settings: dict[str, Any] = {
            "issuer": issuer.address,
            "client_id": CLIENT,
            "client_secret_file": secret,
            "address": f"{scheme}://{listen}",
            "viewer": ("staff",),
            "operator": ("vm-operators", "on-call"),
            "admin": ("vm-admins",),
            "timeout": MAX_TIMEOUT,
            **values,
        }
        web = WebSettings(listen=listen, oidc=OidcSettings(**settings), **files)
        api = OperatorApi(tmp_path / "store.db", web=web)
        api.clock = clock
        with api:
            yield api, issuer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[OperatorApi, OidcIssuer]]:
    with running(tmp_path) as found:
        yield found


def browser(
    api: OperatorApi, ca: Path | None = None, headers: Mapping[str, str] = ORIGIN
) -> httpx2.Client:
    return httpx2.Client(
        base_url=f"{api.address}/api/v1/",
        headers=headers,
        timeout=TIMEOUT,
        verify=NO_TRUST if ca is None else ssl.create_default_context(cafile=ca),
    )


def begin(client: httpx2.Client) -> str:
    response = client.put("sign-in/oidc")
    assert response.status_code == 200, response.text
    return str(response.json()["location"])


def answer(issuer: OidcIssuer, location: str) -> dict[str, str]:
    """Return the response that the issuer sends back with the browser."""
    found = parse_qs(urlsplit(issuer.authorize(location)).query)
    return {name: each[0] for name, each in found.items()}


def sign_in(client: httpx2.Client, issuer: OidcIssuer) -> httpx2.Response:
    return client.put("session/oidc", json=answer(issuer, begin(client)))


def problem(response: httpx2.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


REJECTED = (401, "sign-in-rejected")
UNAVAILABLE = (503, "issuer-unavailable")


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ("staff", "viewer"),
        (["other", "on-call"], "operator"),
        (["staff", "vm-operators", "vm-admins"], "admin"),
    ],
)
def test_user_with_a_role_has_a_session(
    served: tuple[OperatorApi, OidcIssuer], groups: object, role: str
) -> None:
    api, issuer = served
    issuer.claims = {"groups": groups, "preferred_username": "ada"}

    with browser(api) as client:
        response = sign_in(client, issuer)

        assert response.status_code == 200, response.text
        document = response.json()
        assert (document["user"], document["role"]) == ("ada", role)
        assert client.get("session").json()["token"] == document["token"]
        written = client.put("mode", json={"mode": "observe"})
        assert written.status_code == (403 if role == "viewer" else 200)
    cookies = response.headers.get_list("set-cookie")
    assert all("HttpOnly" in each and "SameSite=strict" in each for each in cookies)
    (token,) = (t for t in api.stores.access.tokens() if t.name == "ada")
    assert (token.role.value, token.single_use) == (role, True)
    _, action = api.stores.operators.audit(5)[-1]
    assert (action.user, action.command) == ("ada", "access sign-in")
    assert action.arguments["subject"] == "u-17"
    assert (action.address, action.result) == ("127.0.0.1", "done")


def test_session_ends_at_its_time_and_when_it_is_revoked(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    with browser(api) as first, browser(api) as second:
        revoked = sign_in(first, issuer).json()
        assert revoked["user"] == "u-17"  # the subject, without a name
        sign_in(second, issuer)

        actor = Actor(user="root")
        assert revoke_token(api.stores.access, api.clock, actor, revoked["token"])

        assert problem(first.get("session")) == (401, "unauthorized")
        assert second.get("session").status_code == 200
        api.clock.advance(api.settings.web.session_time)
        assert problem(second.get("session")) == (401, "unauthorized")


@pytest.mark.parametrize("groups", [None, [], "guests", ["STAFF"], {"staff": 1}, 17])
def test_user_without_a_role_has_no_access(
    served: tuple[OperatorApi, OidcIssuer], groups: object
) -> None:
    api, issuer = served
    issuer.claims = {"groups": groups, "preferred_username": "eve\n\u202e"}

    with browser(api) as client:
        assert problem(sign_in(client, issuer)) == (403, "no-role")
        assert problem(client.get("session")) == (401, "unauthorized")
    _, action = api.stores.operators.audit(1)[0]
    assert (action.user, action.result) == ("eve??", "no-role")
    assert api.stores.access.tokens() == ()


def test_role_claim_of_the_userinfo_endpoint_is_used(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.user_info = {"sub": "u-17", "groups": ["vm-admins"], "iss": "other"}
    with browser(api) as client:
        assert sign_in(client, issuer).json()["role"] == "admin"

        issuer.user_info["sub"] = "u-18"
        assert problem(sign_in(client, issuer)) == REJECTED


WRONG_CLAIMS: dict[str, Callable[[Claims], Claims]] = {
    "nonce": lambda claims: {**claims, "nonce": "other"},
    "no nonce": lambda claims: {k: v for k, v in claims.items() if k != "nonce"},
    "expired": lambda claims: {**claims, "exp": claims["iat"] - 120},
    "no end": lambda claims: {k: v for k, v in claims.items() if k != "exp"},
    "future": lambda claims: {**claims, "iat": claims["iat"] + 120},
    "client": lambda claims: {**claims, "aud": "grafana"},
    "other party": lambda claims: {**claims, "azp": "grafana"},
    "two clients": lambda claims: {**claims, "aud": [CLIENT, "grafana"]},
    "issuer": lambda claims: {**claims, "iss": "https://evil.example"},
    "no subject": lambda claims: {**claims, "sub": ""},
    "subject": lambda claims: {**claims, "sub": 17},
}


@pytest.mark.parametrize("wrong", WRONG_CLAIMS)
def test_wrong_claims_are_rejected(
    served: tuple[OperatorApi, OidcIssuer], wrong: str
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["vm-admins"]}
    issuer.change = WRONG_CLAIMS[wrong]

    with browser(api) as client:
        assert problem(sign_in(client, issuer)) == REJECTED
    assert api.stores.access.tokens() == ()


def test_signature_of_another_key_is_rejected(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["vm-admins"]}
    with browser(api) as client:
        published = issuer.published
        issuer.rotate_key()
        issuer.published = published  # an unknown key id

        assert problem(sign_in(client, issuer)) == REJECTED

        issuer.signs_with = type(issuer.signs_with).import_key(
            issuer.signs_with.as_pem(private=True), {"kid": str(published[0].kid)}
        )
        assert problem(sign_in(client, issuer)) == REJECTED


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_signature_without_a_public_key_is_rejected(
    served: tuple[OperatorApi, OidcIssuer],
    algorithm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["vm-admins"]}
    monkeypatch.setattr(
        "support.oidc_issuer.jwt.encode",
        lambda header, claims, _: unsigned({**header, "alg": algorithm}, claims),
    )
    with browser(api) as client:
        assert problem(sign_in(client, issuer)) == REJECTED


def unsigned(header: Claims, claims: Claims) -> str:
    """Return a token whose signature is a MAC by the client secret, or nothing."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in (header, claims)
    ]
    text = b".".join(parts)
    mac = hmac.digest(SECRET.encode(), text, hashlib.sha256)
    signature = b"" if header["alg"] == "none" else base64.urlsafe_b64encode(mac)
    return f"{text.decode()}.{signature.rstrip(b'=').decode()}"


def test_new_key_of_the_issuer_is_accepted(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    with browser(api) as client:
        assert sign_in(client, issuer).status_code == 200
        issuer.rotate_key()
        assert sign_in(client, issuer).status_code == 200
        assert issuer.requests.count("/.well-known/openid-configuration") == 1
        assert issuer.requests.count("/jwks") == 2


def test_wrong_state_is_rejected_without_a_request(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    with browser(api) as client, browser(api) as other:
        found = answer(issuer, begin(client))
        begin(other)

        wrong = {**found, "state": "other"}
        assert problem(client.put("session/oidc", json=wrong)) == REJECTED
        # The browser that has not begun it: a link with the code of another user.
        assert problem(other.put("session/oidc", json=found)) == REJECTED
        other.cookies.clear()
        assert problem(other.put("session/oidc", json=found)) == REJECTED
        assert "/token" not in issuer.requests

        assert client.put("session/oidc", json=found).status_code == 200


def test_code_is_accepted_once(served: tuple[OperatorApi, OidcIssuer]) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    with browser(api) as client:
        found = answer(issuer, begin(client))
        kept = dict(client.cookies)
        assert client.put("session/oidc", json=found).status_code == 200
        client.cookies.update(kept)
        assert problem(client.put("session/oidc", json=found)) == REJECTED
        assert issuer.requests.count("/token") == 1

        # The code again, in a sign-in of its own: the issuer rejects it.
        again = {**answer(issuer, begin(client)), "code": found["code"]}
        assert problem(client.put("session/oidc", json=again)) == REJECTED


def test_code_of_another_sign_in_is_rejected(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["vm-admins"]}
    with browser(api) as client, browser(api) as other:
        stolen = answer(issuer, begin(other))["code"]
        own = answer(issuer, begin(client))

        # The code verifier of PKCE is that of another sign-in.
        response = client.put("session/oidc", json={**own, "code": stolen})
        assert problem(response) == REJECTED


def test_sign_in_expires(
    served: tuple[OperatorApi, OidcIssuer], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, issuer = served
    monkeypatch.setattr(oidc_sign_in, "PENDING_TIME", -1.0)
    with browser(api) as client:
        found = answer(issuer, begin(client))
        assert problem(client.put("session/oidc", json=found)) == REJECTED


def test_number_of_begun_sign_ins_is_bounded(
    served: tuple[OperatorApi, OidcIssuer], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    monkeypatch.setattr(oidc_sign_in, "MAX_PENDING", 2)
    with browser(api) as first, browser(api) as second, browser(api) as third:
        clients = (first, second, third)
        found = [answer(issuer, begin(client)) for client in clients]
        statuses = [
            client.put("session/oidc", json=each).status_code
            for client, each in zip(clients, found, strict=True)
        ]
    assert statuses == [401, 200, 200]


def test_request_of_another_site_is_rejected(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    with browser(api, headers={"Sec-Fetch-Site": "cross-site"}) as client:
        for path in ("sign-in/oidc", "session/oidc"):
            response = client.put(path, json={"state": "s", "code": "c"})
            assert problem(response) == (403, "cross-site")
    assert issuer.requests == []


def test_unreachable_issuer_is_a_problem_and_tokens_work(
    served: tuple[OperatorApi, OidcIssuer], caplog: pytest.LogCaptureFixture
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    with browser(api) as client, caplog.at_level(logging.WARNING):
        found = answer(issuer, begin(client))
        issuer.stop()
        assert problem(client.put("session/oidc", json=found)) == UNAVAILABLE

        token = {"token": api.token()}
        assert client.put("session", json=token).status_code == 200
    assert SECRET not in caplog.text
    assert found["code"] not in caplog.text
    assert any(each.name.startswith("opendrs") for each in caplog.records)


def test_server_starts_and_reports_without_an_issuer(tmp_path: Path) -> None:
    unused = f"http://127.0.0.1:{free_port()}"
    with running(tmp_path, issuer=unused) as (api, _), browser(api) as client:
        response = client.put("sign-in/oidc")
        assert problem(response) == UNAVAILABLE
        assert response.headers["retry-after"] == "5"


def test_slow_issuer_is_a_problem(tmp_path: Path) -> None:
    with running(tmp_path, timeout=0.5) as (api, issuer), browser(api) as client:
        issuer.delay = 1000.0

        assert problem(client.put("sign-in/oidc")) == UNAVAILABLE


def test_slow_issuer_does_not_occupy_the_server(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.delay = 1000.0
    found: list[tuple[int, str]] = []

    def wait() -> None:
        with browser(api) as client:
            response = client.put("sign-in/oidc")
        if response.status_code != 200:
            found.append(problem(response))

    threads = [threading.Thread(target=wait) for _ in range(40)]
    for each in threads:
        each.start()
    try:
        while len(found) < 40 - oidc_sign_in.MAX_PARALLEL:
            threading.Event().wait(0.01)
        with api.client(Role.VIEWER) as client:
            assert client.get("session").status_code == 200
        assert set(found) == {(429, "rate-limited")}  # the others still wait
    finally:
        issuer.stop()
        for each in threads:
            each.join()


def test_wrong_responses_of_the_issuer_are_problems(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    with browser(api) as client:
        issuer.padding = 2**20
        assert problem(client.put("sign-in/oidc")) == UNAVAILABLE
        issuer.padding, issuer.named_issuer = 0, "https://evil.example"
        assert problem(client.put("sign-in/oidc")) == UNAVAILABLE


def test_issuer_and_dashboard_with_tls(
    tmp_path: Path, vouched: CertificateFiles
) -> None:
    with running(tmp_path, vouched, ca=vouched.ca) as (api, issuer):
        issuer.claims = {"groups": ["staff"]}
        with browser(api, vouched.ca) as client:
            response = sign_in(client, issuer)

            assert response.status_code == 200, response.text
            assert client.get("session").json()["role"] == "viewer"
    cookies = response.headers.get_list("set-cookie")
    assert all(each.startswith("__Host-opendrs") for each in cookies)
    assert all("Secure" in each for each in cookies)


def test_issuer_with_an_unknown_certificate_is_a_problem(
    tmp_path: Path, vouched: CertificateFiles
) -> None:
    with running(tmp_path, vouched) as (api, issuer):
        with browser(api, vouched.ca) as client:
            assert problem(client.put("sign-in/oidc")) == UNAVAILABLE
        assert issuer.requests == []


def test_wrong_client_secret_is_a_problem(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("wrong")
    with (
        running(tmp_path, client_secret_file=other) as (api, issuer),
        browser(api) as client,
    ):
        response = sign_in(client, issuer)
        assert problem(response) == UNAVAILABLE
        assert "invalid_client" in response.json()["detail"]
        assert "wrong" not in response.text


def test_secret_is_sent_in_the_form_if_the_issuer_requires_it(
    served: tuple[OperatorApi, OidcIssuer],
) -> None:
    api, issuer = served
    issuer.claims = {"groups": ["staff"]}
    issuer.methods = ["client_secret_post"]
    with browser(api) as client:
        assert sign_in(client, issuer).status_code == 200


def test_sign_in_screen_knows_the_issuer(tmp_path: Path) -> None:
    with running(tmp_path, name="Example SSO") as (api, _), browser(api) as client:
        document = client.get("sign-in").json()
    assert document == {
        "oidc": {"name": "Example SSO", "location": f"{api.address}/sign-in"}
    }


def test_server_without_the_table_has_no_sign_in(tmp_path: Path) -> None:
    with OperatorApi(tmp_path / "store.db") as api, browser(api) as client:
        assert client.get("sign-in").json() == {"oidc": None}
        body = {"state": "s", "code": "c"}
        for path in ("sign-in/oidc", "session/oidc"):
            assert problem(client.put(path, json=body)) == (404, "not-found")


def test_begun_sign_ins_count_as_many_requests(tmp_path: Path) -> None:
    api = OperatorApi(tmp_path / "store.db", rate=1e-3, burst=45)
    with api, browser(api) as client:
        statuses = [client.put("sign-in/oidc").status_code for _ in range(3)]
        assert statuses == [404, 404, 429]
        assert client.get("sign-in").status_code == 200
