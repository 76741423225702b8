"""Client of Proxmox VE against HTTPS servers on loopback: logins, hosts, limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from opendrs.errors import (
    ConfigurationError,
    PermissionDeniedError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox import client as client_module
from opendrs.platforms.proxmox.client import ProxmoxClient, api_path
from opendrs.platforms.proxmox.errors import (
    ApiRequestError,
    HostUnreachableError,
    LoginRejectedError,
    NodeUnavailableError,
)
from opendrs.platforms.proxmox.login import TokenLogin, read_login
from opendrs.transport.certificates import CertificateChangedError
from support.https_server import Answer, Certificate, Request, https_server
from support.network import free_port

SECRET = "11111111-2222-3333-4444-555555555555"  # noqa: S105 - of the test
TOKEN = f"drs@pve!t={SECRET}"
CERTIFICATE = Certificate()


def ok(data: object) -> Answer:
    return Answer(200, "OK", json.dumps({"data": data}).encode())


def client(*hosts: str, **changes: object) -> ProxmoxClient:
    values: dict[str, object] = {
        "hosts": hosts,
        "token_env": "unused",
        "fingerprints": (CERTIFICATE.fingerprint,),
        "timeout": 60.0,
    }
    settings = ProxmoxSettings(**(values | changes))  # type: ignore[arg-type]
    return ProxmoxClient(settings, TokenLogin(TOKEN))


def unused_host() -> str:
    return f"127.0.0.1:{free_port()}"


def test_get_sends_the_token_and_returns_the_data() -> None:
    with https_server(lambda _: ok([1]), CERTIFICATE) as server:
        assert client(server.host).get("/nodes", full=True, limit=5, target=None) == [1]

    (request,) = server.requests
    assert request.path == "/api2/json/nodes"
    assert dict(request.query) == {"full": "1", "limit": "5"}
    assert request.headers["authorization"] == f"PVEAPIToken={TOKEN}"


def test_paths_are_escaped_as_the_api_expects() -> None:
    upid = "UPID:pve1:0000:qmigrate:100:drs@pve!t:"

    assert api_path("nodes", "a/b", "tasks", upid) == f"/nodes/a%2Fb/tasks/{upid}"


def test_get_first_host_unreachable_uses_the_second() -> None:
    with https_server(lambda _: ok("second"), CERTIFICATE) as server:
        found = client(unused_host(), server.host)

        assert found.get("/version") == "second"
        assert found.get("/version") == "second"
        found.close()


def test_get_of_two_threads_first_host_fails_both_use_the_second() -> None:
    both = Barrier(2, timeout=120)

    def fail(request: Request) -> Answer:
        del request
        both.wait()  # both requests fail at one time
        return Answer(595, "Connection refused")

    with (
        https_server(fail, CERTIFICATE) as first,
        https_server(lambda _: ok("second"), CERTIFICATE) as second,
        ThreadPoolExecutor(2) as pool,
    ):
        found = client(first.host, second.host)
        answers = [pool.submit(found.get, "/version") for _ in range(2)]

        assert [each.result() for each in answers] == ["second", "second"]
        assert found.get("/version") == "second"
        found.close()


def test_get_all_hosts_unreachable_is_unavailable() -> None:
    with pytest.raises(PlatformUnavailableError):
        client(unused_host(), unused_host()).get("/version")


def test_get_lost_connection_is_retried_once() -> None:
    answers = [Answer(200, "OK", b"{", content_length=9), ok("second")]
    with https_server(lambda _: answers.pop(0), CERTIFICATE) as server:
        assert client(server.host).get("/version") == "second"


def test_post_lost_connection_is_not_retried() -> None:
    broken = Answer(200, "OK", b"{", content_length=9)
    with https_server(lambda _: broken, CERTIFICATE) as server:
        with pytest.raises(PlatformUnavailableError) as caught:
            client(server.host, server.host).post("/x")

        assert not isinstance(caught.value, HostUnreachableError)
        assert len(server.requests) == 1


def test_post_first_host_unreachable_is_sent_to_the_second_once() -> None:
    with https_server(lambda _: ok("UPID"), CERTIFICATE) as server:
        found = client(unused_host(), server.host)

        assert found.post("/x", with_local_disks=True) == "UPID"
        assert [request.form for request in server.requests] == [
            (("with-local-disks", "1"),)
        ]
        found.close()


def test_get_about_a_silent_node_is_not_repeated_at_other_hosts() -> None:
    answer = Answer(596, "Connection timed out")
    with https_server(lambda _: answer, CERTIFICATE) as server:
        with pytest.raises(NodeUnavailableError):
            client(server.host, server.host).get("/nodes/n1/status")

        assert len(server.requests) == 1


def test_get_slow_answer_ends_at_the_deadline() -> None:
    with https_server(lambda _: Answer(200, "OK", delay=1000), CERTIFICATE) as server:
        begin = time.monotonic()
        with pytest.raises(NodeUnavailableError):
            client(server.host).get("/nodes/n1/status", timeout=0.2)

    assert time.monotonic() - begin < 1000


def test_get_body_that_never_ends_ends_at_the_deadline() -> None:
    answer = Answer(200, "OK", b'{"data":', content_length=10_000)
    with (
        https_server(lambda _: answer, CERTIFICATE) as server,
        pytest.raises(PlatformUnavailableError),
    ):
        client(server.host, timeout=0.3).get("/version")


def test_get_oversized_answer_is_unexpected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_ANSWER", 1000)
    with (
        https_server(lambda _: ok("x" * 2000), CERTIFICATE) as server,
        pytest.raises(UnexpectedResponseError),
    ):
        client(server.host).get("/version")


def test_renewed_certificate_is_reported_with_both_fingerprints() -> None:
    renewed = Certificate(authority=CERTIFICATE.authority)
    with https_server(lambda _: ok(1), CERTIFICATE) as server:
        found = client(server.host)
        found.get("/version")
        found.close()
        server.present(renewed)

        with pytest.raises(CertificateChangedError) as caught:
            found.get("/version")

        assert renewed.fingerprint in str(caught.value)
        assert CERTIFICATE.fingerprint in str(caught.value)
        assert len(server.requests) == 1  # none since the renewal
        found.close()


def test_certificate_renewed_between_connections_is_reported() -> None:
    renewed = Certificate(authority=CERTIFICATE.authority)
    answers = [Answer(200, "OK", b'{"data":1}', content_length=10)]
    with https_server(lambda _: answers[0], CERTIFICATE) as server:
        found = client(server.host)
        found.get("/version")
        answers[0] = Answer(200, "OK", b"{", content_length=99)
        server.present(renewed)  # the lost connection makes the client open another

        with pytest.raises(PermissionDeniedError):
            found.get("/version")
        found.close()


def test_host_name_of_another_certificate_is_rejected_with_an_authority(
    tmp_path: Path,
) -> None:
    ca = CERTIFICATE.write_authority(tmp_path / "ca.pem")
    with https_server(lambda _: ok(1), CERTIFICATE) as server:
        good = client(server.host, fingerprints=(), ca=ca)
        bad = client(f"localhost:{server.port}", fingerprints=(), ca=ca)

        assert good.get("/version") == 1
        with pytest.raises(PlatformUnavailableError, match="set fingerprints"):
            bad.get("/version")
        good.close()
        bad.close()


def test_errors_do_not_contain_the_secret() -> None:
    answer = Answer(500, "failed", json.dumps({"message": TOKEN}).encode())
    with (
        https_server(lambda _: answer, CERTIFICATE) as server,
        pytest.raises(ApiRequestError) as caught,
    ):
        client(server.host).get("/version")

    assert SECRET not in str(caught.value)
    assert "***" in str(caught.value)
    assert SECRET not in repr(TokenLogin(TOKEN))


def ticket_server(server_answers: list[str]) -> Callable[[Request], Answer]:
    def respond(request: Request) -> Answer:
        server_answers.append(f"{request.method} {request.path[10:]}")
        if request.path.endswith("/access/ticket"):
            return ok({"ticket": "PVE:T", "CSRFPreventionToken": "C"})
        return ok(None)

    return respond


def test_ticket_is_requested_once_and_sent_with_the_csrf_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSWORD", "the-password")
    seen: list[str] = []
    with https_server(ticket_server(seen), CERTIFICATE) as server:
        settings = ProxmoxSettings(
            hosts=(server.host,),
            user="drs@pve",
            password_env="PASSWORD",  # noqa: S106 - a name
            fingerprints=(CERTIFICATE.fingerprint,),
        )
        found = ProxmoxClient(settings, read_login("x", settings))
        found.get("/version")
        found.post("/x")
        found.close()

    assert seen == ["POST /access/ticket", "GET /version", "POST /x"]
    headers = [request.headers for request in server.requests]
    assert headers[1]["cookie"] == headers[2]["cookie"] == "PVEAuthCookie=PVE:T"
    assert "csrfpreventiontoken" not in headers[1]
    assert headers[2]["csrfpreventiontoken"] == "C"


def test_ticket_rejected_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "the-password")
    seen: list[str] = []
    respond = ticket_server(seen)
    with https_server(respond, CERTIFICATE) as server:
        settings = ProxmoxSettings(
            hosts=(server.host,),
            user="drs@pve",
            password_env="PASSWORD",  # noqa: S106 - a name
            fingerprints=(CERTIFICATE.fingerprint,),
        )
        found = ProxmoxClient(settings, read_login("x", settings))
        found.get("/version")
        server.replace(lambda _: Answer(401, "Authentication failed!"))
        with pytest.raises(LoginRejectedError):
            found.get("/version")
        server.replace(respond)
        found.get("/version")
        found.close()

    assert seen.count("POST /access/ticket") == 2


def test_second_factor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "the-password")
    answer = ok({"ticket": "PVE:!tfa!", "NeedTFA": 1})
    with https_server(lambda _: answer, CERTIFICATE) as server:
        settings = ProxmoxSettings(
            hosts=(server.host,),
            user="drs@pve",
            password_env="PASSWORD",  # noqa: S106 - a name
            fingerprints=(CERTIFICATE.fingerprint,),
        )
        found = ProxmoxClient(settings, read_login("x", settings))
        with pytest.raises(PermissionDeniedError):
            found.get("/version")
        found.close()


@pytest.mark.parametrize(
    "token", [SECRET, "drs@pve=x", "drs!t=x", "drs@pve!t", "a b@pve!t=x"]
)
def test_mistyped_token_is_rejected_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("MISTYPED", token)
    settings = ProxmoxSettings(hosts=("h",), token_env="MISTYPED")  # noqa: S106

    with pytest.raises(ConfigurationError) as caught:
        read_login("platform x", settings)

    assert token not in str(caught.value).replace("drs@pve!opendrs", "")
