"""Plans, mode, pause and drains over the operator API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from opendrs.config.controller_settings import Mode
from opendrs.controller.modes import API_BREAKER_KEY, BREAKER_KEY
from opendrs.model import time_as_text
from opendrs.ports import PlanState, Role
from support.builders import NOON
from support.operator_api import OperatorApi

STORES = ["sqlite", "postgresql"]


@pytest.fixture(params=STORES)
def api(
    request: pytest.FixtureRequest, store_place: Callable[[str], Path | str]
) -> Iterator[OperatorApi]:
    with OperatorApi(store_place(request.param)) as running:
        yield running


@pytest.fixture(scope="module", params=STORES)
def unchanged(
    request: pytest.FixtureRequest, store_place: Callable[[str], Path | str]
) -> Iterator[httpx2.Client]:
    """Return an operator whose requests change nothing."""
    with (
        OperatorApi(store_place(request.param)) as running,
        running.client(Role.OPERATOR) as client,
    ):
        yield client


@pytest.fixture
def operator(api: OperatorApi) -> Iterator[httpx2.Client]:
    with api.client(Role.OPERATOR) as client:
        yield client


def match(response: httpx2.Response) -> dict[str, str]:
    return {"If-Match": response.headers["etag"]}


def audited(api: OperatorApi) -> list[tuple[str, str]]:
    """Return the commands that were recorded with their results, newest first."""
    return [(each.command, each.result) for _, each in api.stores.operators.audit(10)]


def test_plan_is_approved_as_shown(api: OperatorApi, operator: httpx2.Client) -> None:
    plan = api.propose()
    shown = operator.get(f"plans/{plan}")

    approved = operator.put(f"plans/{plan}/approval", json={}, headers=match(shown))

    assert approved.status_code == 200
    assert approved.json()["state"] == "approved"
    assert approved.json()["approval"]["steps"] == ["1", "2"]
    assert approved.headers["etag"] == shown.headers["etag"]
    again = operator.put(f"plans/{plan}/approval", json={}, headers=match(shown))
    assert (again.status_code, again.json()) == (200, approved.json())
    assert [each for each in audited(api) if each[0] == "approve"] == [
        ("approve", "done")
    ]

    assert api.controller.cycle() == 2
    done = operator.get(f"plans/{plan}").json()
    assert done["state"] == "done"
    assert [step["outcome"] for step in done["steps"]] == ["done", "done"]


def test_part_of_a_plan_is_approved(api: OperatorApi, operator: httpx2.Client) -> None:
    plan = api.propose()
    shown = operator.get(f"plans/{plan}")
    path = f"plans/{plan}/approval"

    unknown = operator.put(path, json={"steps": ["7"]}, headers=match(shown))
    assert (unknown.status_code, unknown.json()["code"]) == (422, "out-of-range")
    part = operator.put(path, json={"steps": ["2"]}, headers=match(shown))

    assert part.json()["approval"]["steps"] == ["2"]
    assert [step["approved"] for step in part.json()["steps"]] == [False, True]
    other = operator.put(path, json={}, headers=match(shown))
    assert (other.status_code, other.json()["code"]) == (409, "state-conflict")
    assert audited(api)[:3] == [
        ("approve", "state-conflict"),
        ("approve", "done"),
        ("approve", "out-of-range"),
    ]


def test_approval_names_the_plan_that_was_shown(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    plan = api.propose()
    path, etag = f"plans/{plan}/approval", operator.get(f"plans/{plan}").headers["etag"]

    missing = operator.put(path, json={})
    assert (missing.status_code, missing.json()["code"]) == (
        428,
        "precondition-required",
    )
    for header in ('"0123"', "*", f"W/{etag}", etag.strip('"'), ""):
        changed = operator.put(path, json={}, headers={"If-Match": header})
        assert (changed.status_code, changed.json()["code"]) == (412, "plan-changed")

    assert api.controller.states() == ["proposed"]
    assert {result for command, result in audited(api) if command == "approve"} == {
        "precondition-required",
        "plan-changed",
    }


def test_changed_plan_is_not_approved(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    first = api.propose()
    shown = operator.get(f"plans/{first}")
    platform = api.controller.simulation.simulated_platform
    platform.fail_node("b")  # type: ignore[arg-type]  # the target
    api.controller.controller.run_once()

    late = operator.put(f"plans/{first}/approval", json={}, headers=match(shown))

    assert (late.status_code, late.json()["code"]) == (409, "state-conflict")
    assert api.controller.plans.plans()[0].state is PlanState.SUPERSEDED


def test_expired_plan_is_not_approved(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    plan = api.propose()
    shown = operator.get(f"plans/{plan}")
    api.clock.advance(4000)
    with api.client(Role.OPERATOR) as later:
        late = later.put(f"plans/{plan}/approval", json={}, headers=match(shown))

    assert late.status_code == 409
    assert "expired" in late.json()["detail"]


def test_plan_is_rejected_once(api: OperatorApi, operator: httpx2.Client) -> None:
    path = f"plans/{api.propose()}/rejection"

    for _ in range(2):
        rejected = operator.put(path, json={"because": "busy"})
        assert (rejected.status_code, rejected.json()["state"]) == (200, "rejected")

    assert rejected.json()["detail"] == "rejected by a operator: busy"
    assert [each for each in audited(api) if each[0] == "reject"] == [
        ("reject", "done")
    ]
    late = operator.put(path.replace("rejection", "cancellation"), json={})
    assert late.status_code == 409


def test_approved_plan_is_cancelled(api: OperatorApi, operator: httpx2.Client) -> None:
    plan = api.propose()
    shown = operator.get(f"plans/{plan}")
    operator.put(f"plans/{plan}/approval", json={}, headers=match(shown))

    for _ in range(2):
        cancelled = operator.put(f"plans/{plan}/cancellation", json={})
        assert cancelled.json()["state"] == "cancelled"


def test_plans_have_pages(api: OperatorApi, operator: httpx2.Client) -> None:
    plan = api.propose()
    operator.put(f"plans/{plan}/rejection", json={"because": "busy"})
    api.controller.simulation.clock.sleep(4000)
    newer = api.propose()

    first = operator.get("plans", params={"limit": 1}).json()
    second = operator.get("plans", params={"limit": 1, "cursor": first["next"]}).json()
    proposed = operator.get("plans", params={"state": "proposed"}).json()

    assert [each["id"] for each in first["plans"]] == [newer]
    assert [each["id"] for each in second["plans"]] == [plan]
    assert second["next"] is None
    assert [each["id"] for each in proposed["plans"]] == [newer]
    assert operator.get("plans/zzzzz").status_code == 404


def test_mode_is_set_as_by_the_command(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    before = operator.get("mode").json()
    assert (before["mode"], before["source"]) == ("advise", "configuration")

    after = operator.put("mode", json={"mode": "automatic"}).json()

    assert (after["mode"], after["source"]) == ("automatic", "operator")
    assert after["detail"] == "set by a operator"
    assert after["configured"] == Mode.ADVISE
    assert api.controller.cycle() == 2  # without an approval


@pytest.mark.parametrize(
    "body",
    [
        {"because": "x"},
        {"because": "x", "seconds": 60, "until": "2026-11-21T13:00:00Z"},
        {"because": "x", "until": "2026-11-21T13:00:00"},
        {"because": "x", "until": "2026-11-21T11:00:00Z"},
        {"because": "x", "seconds": 1e12},
        {"because": "x", "seconds": -1},
        {"because": "", "seconds": 60},
        {"because": "x", "seconds": "60"},
        {"because": "x", "seconds": 60, "for": 1},
        {"because": "x" * 2000, "seconds": 60},
        [],
        "x",
    ],
)
def test_invalid_pause_is_rejected(
    unchanged: httpx2.Client,
    body: Any,  # noqa: ANN401 - any JSON
) -> None:
    response = unchanged.put("pause", json=body)

    assert response.status_code == 422
    assert response.json()["code"] in {"body-invalid", "out-of-range"}
    assert unchanged.get("pause").json() == {"pause": None}


def test_errors_name_their_place(unchanged: httpx2.Client) -> None:
    response = unchanged.put("pause", json={"because": 7, "seconds": 0})

    problem = response.json()
    assert problem["type"] == "/problems/body-invalid"
    places = {each["pointer"] for each in problem["errors"]}
    assert {"/because", "/seconds"} <= places
    limit = unchanged.get("log", params={"limit": 0}).json()
    assert [each["pointer"] for each in limit["errors"]] == ["limit"]


def test_pause_and_its_end(api: OperatorApi, operator: httpx2.Client) -> None:
    paused = operator.put("pause", json={"seconds": 3600, "because": "upgrade"})
    assert paused.json()["pause"]["because"] == "upgrade"
    assert operator.get("mode").json()["source"] == "pause"

    for _ in range(2):
        assert operator.delete("pause").json() == {"pause": None}

    assert audited(api)[:3] == [
        ("resume", "done"),
        ("resume", "done"),
        ("pause", "done"),
    ]


def test_breakers_are_shown_and_closed(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    entry = {"opened_at": time_as_text(NOON), "detail": "3 steps failed"}
    api.control.save(BREAKER_KEY, entry)
    api.control.save(API_BREAKER_KEY, entry)
    opened = operator.get("breaker").json()
    assert opened["breaker"]["detail"] == "3 steps failed"
    assert opened["api_breaker"] is not None

    reset = {"because": "repaired"}
    closed = operator.request("DELETE", "breaker", json=reset).json()

    assert closed == {"breaker": None, "api_breaker": None}
    assert api.control.load(BREAKER_KEY) is None


def test_node_is_drained_and_returned(
    api: OperatorApi, operator: httpx2.Client
) -> None:
    api.propose()
    api.context.states.poll()

    drained = operator.put("nodes/b/drain", json={"because": "memory"})
    assert [each["node"] for each in drained.json()["drains"]] == ["b"]
    assert operator.get("drains").json() == drained.json()
    assert operator.put("nodes/b/drain", json={}).status_code == 200
    assert operator.get("drains").json()["drains"][0]["because"] == "memory"

    assert operator.put("nodes/zzz/drain", json={}).status_code == 404
    ended = operator.request("DELETE", "nodes/b/drain", json={"bring_back": True})
    assert ended.json() == {"drains": []}
    assert "operator/return/b" in api.control.load_all("operator/")
    assert operator.delete("nodes/b/drain").status_code == 404


def test_unknown_paths_and_methods_are_problems(operator: httpx2.Client) -> None:
    missing = operator.get("nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    method = operator.post("mode")
    assert (method.status_code, method.json()["code"]) == (405, "method-not-allowed")
    assert "PUT" in method.headers["allow"] or "GET" in method.headers["allow"]
    broken = operator.put(
        "mode", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert (broken.status_code, broken.json()["code"]) == (422, "body-invalid")
