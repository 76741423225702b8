"""The server of the operator API: the state, its stream, and what it withstands."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import httpx2
import pytest

from opendrs.api import event_stream, gateway, state_feed, web_server
from opendrs.api.schema.state import StateDocument, StateMessage
from opendrs.config.controller_settings import Mode
from opendrs.config.web_settings import WebSettings
from opendrs.controller.modes import BREAKER_KEY
from opendrs.controller.operator_commands import Actor
from opendrs.controller.status import PROGRESS_KEY
from opendrs.model import StepId, time_as_text
from opendrs.ports import EventRecord, Role, StepRecord
from opendrs.store import DatabaseEventLog
from support.builders import NOON
from support.certificates import CertificateFiles
from support.operator_api import TIMEOUT, EventReader, OperatorApi

TIME = re.compile(r"\d{4}-\d{2}-\d{2}T")
UTC_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
LISTS = ("plans", "history/cycles", "history/moves", "audit")
PATHS = (
    *("state", "session", "plans", "plans/{plan}", "pause", "breaker", "drains"),
    *("history/cycles", "history/cycles/{run}", "history/moves", "history/series"),
    *("nodes/a", "guests/one", "explanations", "audit", "tokens"),
)


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorApi]:
    """A server whose controller executes a plan, drains, pauses and has a breaker."""
    with OperatorApi(tmp_path_factory.mktemp("api") / "store.db") as running:
        plan = running.propose()
        running.controller.approve(running.controller.last())
        running.controller.cycle()
        assert running.controller.plans.plan(plan) is not None
        entry = {"opened_at": time_as_text(NOON), "detail": "a test"}
        running.control.save(BREAKER_KEY, entry)
        running.context.states.poll()
        with running.client() as client:
            client.put("nodes/b/drain", json={}).raise_for_status()
            pause = {"seconds": 3600, "because": "a test"}
            client.put("pause", json=pause).raise_for_status()
        running.context.states.poll()
        yield running


@pytest.fixture
def api(tmp_path: Path) -> Iterator[OperatorApi]:
    with OperatorApi(tmp_path / "store.db") as running:
        yield running


def record(api: OperatorApi, *messages: str) -> None:
    log = DatabaseEventLog(api.control)
    log.add(
        [
            EventRecord(at=NOON, level="info", code="report", message=each)
            for each in messages
        ]
    )


def stream(client: httpx2.Client, **headers: str) -> Any:  # noqa: ANN401 - a context
    return client.stream("GET", "events", headers=headers)


def times(document: object) -> Iterator[str]:
    """Yield the times of *document*, at any depth."""
    if isinstance(document, dict | list):
        parts = document.values() if isinstance(document, dict) else document
        for part in parts:
            yield from times(part)
    elif isinstance(document, str) and TIME.match(document):
        yield document


@pytest.mark.parametrize("cursor", ["", "x", "~1", "2026-11-21T12:00:00Z~", "%00"])
@pytest.mark.parametrize("path", LISTS)
def test_cursor_that_no_page_has_is_a_problem(
    shared_api: OperatorApi, path: str, cursor: str
) -> None:
    with shared_api.client() as client:
        response = client.get(f"{path}?cursor={cursor}")

    assert response.status_code == 422
    assert response.json()["code"] in ("out-of-range", "body-invalid")


@pytest.mark.parametrize("path", PATHS)
def test_times_have_one_form(shared_api: OperatorApi, path: str) -> None:
    api = shared_api
    plan = api.controller.plans.plans()[-1]
    path = path.format(plan=plan.id, run=plan.run)
    with api.client() as client:
        response = client.get(path)

    assert response.status_code == 200
    found = list(times(response.json()))
    assert found
    assert [each for each in found if not UTC_TIME.fullmatch(each)] == []


def test_times_of_a_new_token_and_session_have_one_form(
    shared_api: OperatorApi,
) -> None:
    with shared_api.client(Role.ADMIN, **{"Sec-Fetch-Site": "same-origin"}) as client:
        created = client.post("tokens", json={"name": "ada"}).json()
        session = client.put("session", json={"token": created["secret"]}).json()

    assert list(map(bool, map(UTC_TIME.fullmatch, times([created, session])))) == [
        True,
        True,
        True,
    ]


def test_state_is_as_described(api: OperatorApi) -> None:
    api.propose()
    api.context.states.poll()
    with api.client(Role.VIEWER, **{"Accept-Encoding": "identity"}) as client:
        response = client.get("state")

    state = StateDocument.model_validate_json(response.content)
    assert state.platform == "lab"
    assert state.nodes.id == ["a", "b"]
    assert state.nodes.role == ["source", "target"]
    assert state.guests.node == [0, 0, 0]
    assert state.plan is not None
    assert (state.plan.step_count, state.nothing) == (2, None)
    assert [each.code for each in state.exceptions] == ["controller-not-running"]
    assert state.observed_at == NOON


def test_state_has_an_entity_tag_and_is_compressed(api: OperatorApi) -> None:
    with api.client(Role.VIEWER) as client:
        first = client.get("state", headers={"Accept-Encoding": "gzip"})
        plain = client.get("state", headers={"Accept-Encoding": "identity"})
        assert first.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert first.json() == plain.json()
        tag = {"If-None-Match": first.headers["etag"]}
        assert client.get("state", headers=tag).status_code == 304

        api.clock.advance(5)  # only times change
        api.context.states.poll()
        assert client.get("state", headers=tag).status_code == 304

        api.propose()
        api.context.states.poll()
        changed = client.get("state", headers=tag)
        assert changed.status_code == 200
        assert changed.headers["etag"] != first.headers["etag"]
        assert gzip.decompress(api.context.states.current().compressed) == (
            api.context.states.current().body
        )


def test_changes_are_sent(api: OperatorApi) -> None:
    api.propose()
    api.context.states.poll()
    with api.client(Role.OPERATOR) as client, stream(client) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = EventReader(response)
        state = StateMessage.model_validate(events.until("state")["data"])
        assert (state.base, state.delta) == (None, None)
        assert state.etag == client.get("state").json()["etag"]
        assert events.until("mode")["data"]["mode"]["mode"] == "advise"
        assert events.until("plan")["data"]["plan"]["state"] == "proposed"

        client.put("mode", json={"mode": "observe"})
        changed = StateMessage.model_validate(events.until("state")["data"])
        assert changed.base == state.etag
        assert events.until("mode")["data"]["mode"]["mode"] == "observe"

        record(api, "one", "two")
        logs = [events.until("log") for _ in range(2)]
        assert [each["data"]["message"] for each in logs] == ["one", "two"]
        assert int(logs[0]["id"]) <= logs[1]["data"]["sequence"]


def test_stream_continues_after_the_last_event(api: OperatorApi) -> None:
    record(api, *"abcd")
    api.context.states.poll()
    last = api.stores.events.last_sequence()
    with api.client(Role.VIEWER) as client:
        with stream(client, **{"Last-Event-ID": str(last - 2)}) as response:
            events = EventReader(response)
            assert [events.next()["data"]["message"] for _ in range(2)] == ["c", "d"]
            assert events.next()["event"] == "state"
        with client.stream("GET", "events", params={"after": last - 1}) as response:
            assert EventReader(response).next()["data"]["message"] == "d"
        with stream(client, **{"Last-Event-ID": str(last)}) as response:
            assert EventReader(response).next()["event"] == "state"


@pytest.mark.parametrize("last", [10**6, 0])
def test_events_that_are_not_kept_reset_the_client(api: OperatorApi, last: int) -> None:
    log = DatabaseEventLog(api.control)
    old = EventRecord(at=NOON, level="info", code="report", message="old")
    log.add([old])
    record(api, *("x" for _ in range(3)))
    with api.control.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM events WHERE id < 3")
    api.context.states.poll()

    with (
        api.client(Role.VIEWER) as client,
        stream(client, **{"Last-Event-ID": str(last)}) as response,
    ):
        assert EventReader(response).next()["event"] == "reset"


def test_client_continues_after_a_restart_of_the_server(api: OperatorApi) -> None:
    record(api, "before")
    api.context.states.poll()
    with api.client(Role.VIEWER) as client, stream(client) as response:
        token = client.headers["Authorization"]
        first = EventReader(response).until("state")
    api.stop()
    record(api, "meanwhile")
    api.propose()
    api.start()

    with api.client(None, Authorization=token) as client:
        with stream(client, **{"Last-Event-ID": first["id"]}) as response:
            events = EventReader(response)
            assert events.next()["data"]["message"] == "meanwhile"
            state = events.until("state")["data"]
        assert state["etag"] != first["data"]["etag"]
        assert client.get("state").json()["plan"]["state"] == "proposed"


def test_number_of_streams_is_limited(
    api: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_feed, "MAX_STREAMS", 1)
    with api.client(Role.VIEWER) as client:
        with stream(client) as response:
            events = EventReader(response)  # closes the response when it is deleted
            events.next()
            other = client.get("events")
            assert (other.status_code, other.json()["code"]) == (
                503,
                "too-many-clients",
            )
        deadline = time.monotonic() + TIMEOUT
        while api.context.states.stream_count and time.monotonic() < deadline:
            time.sleep(0.05)  # noqa: TID251 - real time, as for the server
        with stream(client) as response:
            assert EventReader(response).next()["event"] == "state"


def test_streams_end_with_the_server(
    api: OperatorApi, caplog: pytest.LogCaptureFixture
) -> None:
    with api.client(Role.VIEWER) as client, stream(client) as response:
        events = EventReader(response)
        events.until("progress")
        api.server.stop()
        with pytest.raises(EOFError):
            events.until("the end")
    assert not [each for each in caplog.records if each.name == "uvicorn.error"]


def test_revoked_token_ends_the_stream(
    api: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "KEEPALIVE", 0.2)
    with api.client(Role.VIEWER) as client, stream(client) as response:
        events = EventReader(response)
        events.until("progress")
        name = client.headers["Authorization"].split("_")[1]
        action = Actor(user="root").action(api.clock, "access revoke", {})
        api.stores.access.revoke(name, action)

        with pytest.raises(EOFError):
            events.until("reset")


def test_store_that_fails_is_an_exception_of_the_state(
    api: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.propose()
    api.context.states.poll()
    with api.client(Role.VIEWER) as client, stream(client) as response:
        events = EventReader(response)
        events.until("progress")
        with monkeypatch.context() as patch:
            patch.setattr(api.stores.store, "_engine", None)
            failed = events.until("state")["data"]
            assert failed["exceptions"][0]["code"] == "store-unavailable"
            assert client.get("log").status_code == 503
        recovered = events.until("state")["data"]
        codes = [each["code"] for each in recovered["exceptions"]]
        assert "store-unavailable" not in codes
        assert client.get("state").json()["nodes"]["id"] == ["a", "b"]


def test_progress_is_sent_without_another_state(api: OperatorApi) -> None:
    api.propose()
    action = api.controller.last().steps[0].action
    step = StepRecord(run="r1", step=StepId("1"), action=action, intended_at=NOON)
    api.control.write(step)
    record(api, "a step started")
    api.context.states.poll()
    progress = {"step": "1", "total": 100, "remaining": 60, "dirty_rate": None}
    progress |= {"bandwidth": 5.0, "at": NOON.isoformat()}
    with api.client(Role.VIEWER) as client, stream(client) as response:
        events = EventReader(response)
        assert events.until("progress")["data"] == []
        etag = client.get("state").headers["etag"]
        api.control.save(PROGRESS_KEY, {"steps": [progress]})

        assert events.until("progress")["data"] == [{"run": "r1", **progress}]
        state = client.get("state")
        assert state.headers["etag"] == etag
        assert state.json()["progress"] == [{"run": "r1", **progress}]


def test_damaged_records_are_an_exception_of_the_state(
    api: OperatorApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.propose()
    api.context.states.poll()
    api.control.save("operator/mode", {"mode": "unknown"})
    api.context.states.poll()
    with api.client(Role.VIEWER) as client:
        damaged = client.get("state").json()
        assert damaged["exceptions"][0]["code"] == "store-unavailable"
        assert damaged["nodes"]["id"] == ["a", "b"]
        api.controller.set_mode(Mode.ADVISE)
        api.context.states.poll()
        codes = [each["code"] for each in client.get("state").json()["exceptions"]]
    assert "store-unavailable" not in codes
    assert not caplog.records


def test_moved_guests_are_in_the_delta(api: OperatorApi) -> None:
    api.propose()
    api.context.states.poll()
    api.controller.set_mode(Mode.AUTOMATIC)
    with api.client(Role.VIEWER) as client, stream(client) as response:
        events = EventReader(response)
        events.until("progress")
        base = client.get("state").json()
        assert api.controller.cycle() == 2
        record(api, "the steps ended")
        moved: dict[int, int] = {}
        while len(moved) < 2:
            message = StateMessage.model_validate(events.until("state")["data"])
            assert message.delta is not None
            changes = zip(message.delta.guests, message.delta.guest_node, strict=True)
            moved |= {guest: node for guest, node in changes if node == 1}

    names = {base["guests"]["id"][index] for index in moved}
    assert names == {"one", "three"}


def exchange(api: OperatorApi, content: bytes) -> bytes:
    """Send bytes, and return all that is received until the connection ends."""
    host, _, port = api.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection:
        connection.sendall(content)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def test_large_bodies_are_rejected(api: OperatorApi) -> None:
    with api.client(Role.OPERATOR) as client:
        large = b"x" * (gateway.MAX_BODY + 1)
        declared = client.put("pause", content=large)
        parts = (b"x" * 65_536 for _ in range(40))
        streamed = client.put("pause", content=parts)
        for response in (declared, streamed):
            assert (response.status_code, response.json()["code"]) == (
                413,
                "body-too-large",
            )
    with api.client(None, **{"Sec-Fetch-Site": "none"}) as client:
        sign_in = client.put("session", content=b"x" * 5000)
        assert sign_in.status_code == 413


def test_slow_bodies_are_rejected(
    api: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "BODY_TIMEOUT", 0.3)
    head = (
        f"PUT /api/v1/mode HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n"
        f"Authorization: Bearer {api.token(Role.OPERATOR)}\r\n\r\n{{"
    )

    answer = exchange(api, head.encode())

    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code":"body-timeout"' in answer


def test_large_headers_and_silent_connections_are_closed(
    api: OperatorApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000
    assert exchange(api, large).startswith(b"HTTP/1.1 4")
    monkeypatch.setattr(web_server, "FIRST_REQUEST_TIMEOUT", 0.3)

    assert exchange(api, b"GET /api/v1/health HTT") == b""


def test_requests_of_one_client_are_limited(tmp_path: Path) -> None:
    with (
        OperatorApi(tmp_path / "store.db", rate=1, burst=20) as api,
        api.client(Role.VIEWER) as client,
    ):
        assert client.get("session").status_code == 200
        while (limited := client.get("session")).status_code == 200:
            pass
        assert limited.status_code == 429
        assert limited.json()["code"] == "rate-limited"
        time.sleep(float(limited.headers["retry-after"]) + 0.5)  # noqa: TID251 - real time, as for the server
        assert client.get("session").status_code == 200


def test_failed_attempts_to_sign_in_are_limited(tmp_path: Path) -> None:
    with (
        OperatorApi(tmp_path / "store.db", rate=0.001, burst=100) as api,
        api.client(None, **{"Sec-Fetch-Site": "none"}) as client,
    ):
        codes = [
            client.put("session", json={"token": "x"}).status_code for _ in range(20)
        ]
        assert codes[:3] == [401, 401, 401]
        assert codes[-1] == 429
        assert client.get("health").status_code == 429


def test_dashboard_and_headers(api: OperatorApi) -> None:
    get = partial(httpx2.get, timeout=TIMEOUT)
    page = get(f"{api.address}/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert get(f"{api.address}/nodes/a").text == page.text
    assert get(f"{api.address}/nothing.js").status_code == 404
    assert httpx2.put(f"{api.address}/", timeout=TIMEOUT).status_code == 405
    tag = {"If-None-Match": page.headers["etag"]}
    assert get(f"{api.address}/", headers=tag).status_code == 304
    api_headers = get(f"{api.address}/api/v1/health").headers
    assert api_headers["cache-control"] == "no-store"


def test_tls_has_secure_cookies(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    settings = files.settings
    web = WebSettings(
        listen="127.0.0.1:0", certificate=settings.certificate, key=settings.key
    )
    with OperatorApi(tmp_path / "store.db", web=web) as api:
        assert api.address.startswith("https://")
        with httpx2.Client(
            base_url=api.address, verify=files.ssl_context, timeout=TIMEOUT
        ) as client:
            response = client.put(
                "/api/v1/session",
                json={"token": api.token()},
                headers={"Sec-Fetch-Site": "same-origin"},
            )
        cookie = response.headers["set-cookie"]
        assert cookie.startswith("__Host-opendrs=")
        assert "Secure" in cookie
        assert "max-age" in response.headers["strict-transport-security"]


def test_messages_are_json(api: OperatorApi) -> None:
    message = api.context.states.greeting()[1].decode()

    data = [line for line in message.split("\n") if line.startswith("data: ")]
    assert len(data) == 4
    assert all(json.loads(line.removeprefix("data: ")) is not None for line in data)


def test_process_of_jobs_ends_with_the_server(tmp_path: Path) -> None:
    before = set(active_children())

    with OperatorApi(tmp_path / "store.db") as running:
        with running.client() as client:
            question = {"kind": "drain-preview", "node": "a"}
            client.post("jobs", json=question).raise_for_status()
        deadline = time.monotonic() + TIMEOUT
        while not (started := set(active_children()) - before):
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)

    assert len(started) == 1
    assert not started & set(active_children())
