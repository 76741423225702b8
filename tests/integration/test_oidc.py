"""Sign-in by OpenID Connect at an independent provider, which runs as a process."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from opendrs.config.oidc_settings import MAX_TIMEOUT, OidcSettings
from opendrs.config.web_settings import WebSettings
from opendrs.controller import SystemClock
from support.browser import chromium, dashboard_page
from support.network import free_port
from support.oidc_provider import provider_process
from support.operator_api import TIMEOUT, OperatorApi

pytestmark = pytest.mark.slow
USERS = {
    "vera": ["staff"],
    "olga": ["staff", "vm-operators"],
    "anna": ["vm-admins"],
    "eve": ["guests"],
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorApi]:
    place = tmp_path_factory.mktemp("oidc")
    listen = f"127.0.0.1:{free_port()}"
    secret = place / "secret"
    secret.write_text("s3cret")
    with provider_process(place, USERS) as issuer:
        oidc = OidcSettings(
            issuer=issuer,
            client_id="opendrs",
            client_secret_file=secret,
            address=f"http://{listen}",
            name="the provider",
            timeout=MAX_TIMEOUT,
            viewer=("staff",),
            operator=("vm-operators",),
            admin=("vm-admins",),
        )
        web = WebSettings(listen=listen, oidc=oidc)
        running = OperatorApi(place / "store.db", web=web)
        running.clock = SystemClock()  # type: ignore[assignment]  # as the provider
        with running:
            yield running


def browser(api: OperatorApi) -> httpx2.Client:
    return httpx2.Client(
        base_url=f"{api.address}/api/v1/",
        headers={"Sec-Fetch-Site": "same-origin"},
        timeout=TIMEOUT,
    )


def answer(client: httpx2.Client, user: str) -> dict[str, str]:
    """Sign *user* in at the provider, and return what it sends back."""
    location = client.put("sign-in/oidc").json()["location"]
    response = httpx2.post(location, data={"sub": user}, timeout=TIMEOUT)
    assert response.status_code in (302, 303), response.text
    found = parse_qs(urlsplit(response.headers["location"]).query)
    return {name: found[name][0] for name in ("state", "code")}


@pytest.mark.parametrize(
    ("user", "role"), [("vera", "viewer"), ("olga", "operator"), ("anna", "admin")]
)
def test_groups_of_a_user_give_the_role(api: OperatorApi, user: str, role: str) -> None:
    with browser(api) as client:
        response = client.put("session/oidc", json=answer(client, user))

        assert response.status_code == 200, response.text
        found = client.get("session").json()
        assert (found["user"], found["role"]) == (user, role)
        assert client.get("audit").status_code == (200 if role == "admin" else 403)


def test_user_without_a_group_has_no_access(api: OperatorApi) -> None:
    with browser(api) as client:
        response = client.put("session/oidc", json=answer(client, "eve"))

        assert (response.status_code, response.json()["code"]) == (403, "no-role")
        assert client.get("session").status_code == 401


def test_replayed_code_is_rejected_by_the_provider(api: OperatorApi) -> None:
    with browser(api) as client:
        first = answer(client, "anna")
        assert client.put("session/oidc", json=first).status_code == 200
        again = {**answer(client, "anna"), "code": first["code"]}
        response = client.put("session/oidc", json=again)

    assert (response.status_code, response.json()["code"]) == (401, "sign-in-rejected")


def test_link_on_the_sign_in_screen_signs_in(api: OperatorApi) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with chromium() as started, dashboard_page(started, api.address) as dashboard:
        page = dashboard.page
        page.goto(api.address)
        page.get_by_role("link", name="Sign in with the provider").wait_for()
        assert axe.run(page).response["violations"] == []
        page.get_by_role("link", name="Sign in with the provider").click()
        page.get_by_role("button", name="eve").click()
        page.get_by_role("alert").filter(has_text="eve").wait_for()

        page.get_by_role("link", name="Sign in with the provider").click()
        page.get_by_role("button", name="olga").click()
        page.get_by_role("heading", name="Overview").wait_for(state="attached")
        assert page.get_by_text("olga").is_visible()
        assert urlsplit(page.url).path == "/"  # without the code
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").wait_for()
        dashboard.forget_errors()  # the missing session, and the user without a role
