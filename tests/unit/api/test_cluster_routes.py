"""Routes of the history, nodes, guests, rules, reasons, explanations and settings.

The store is written by the controller on a simulated cluster.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from opendrs.api.recorded_clusters import LoadHistory, RecordedClusters
from opendrs.api.schema.history import ClusterSeries, RecordedClusterDocument
from opendrs.api.schema.subjects import (
    ConsolidationDocument,
    GuestDocument,
    NodeDocument,
    ReasonList,
    RuleList,
)
from opendrs.cli.platforms import PLATFORMS
from opendrs.config.controller_settings import Mode
from opendrs.config.settings import NO_SETTINGS
from opendrs.config.settings_reading import read_settings
from opendrs.controller.drained_nodes import DrainedNode
from opendrs.model import AntiAffinity, Limits, NodeId, Pin
from opendrs.ports import CycleRecord, CycleSummary, HistoryFilter
from opendrs.store import Access, History, SqliteStore
from support.advised_controller import LOPSIDED, AdvisedController
from support.api_client import api_client, api_context
from support.builders import NOON, guest_ids

CLUSTER = replace(
    LOPSIDED,
    rules=(
        Pin(guests=guest_ids("three"), name="stay"),
        AntiAffinity(guests=guest_ids("one", "two"), name="apart"),
    ),
)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[AdvisedController]:
    """A controller that has executed a plan in its third cycle."""
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store, CLUSTER, mode=Mode.ADVISE)
        controller.cycle()
        controller.approve(controller.last())
        for _ in range(2):
            controller.simulation.clock.sleep(300)
            controller.cycle()
        yield controller


@pytest.fixture
def client(controller: AdvisedController, tmp_path: Path) -> Iterator[TestClient]:
    """A client of the API, which has its own connection to the store."""
    with SqliteStore(tmp_path / "lab.sqlite", Access.OPERATE) as store:
        yield api_client(api_context(store, controller.simulation.clock))


def got(client: TestClient, path: str, **parameters: Any) -> Any:  # noqa: ANN401
    """Return the document at *path*."""
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def test_cycles_are_listed_in_pages(client: TestClient) -> None:
    first = got(client, "/history/cycles", limit=2)
    second = got(client, "/history/cycles", limit=2, cursor=first["next"])

    runs = [each["run"] for each in (*first["cycles"], *second["cycles"])]
    assert len(set(runs)) == len(runs) == 3
    assert second["next"] is None
    assert [each["run"] for each in got(client, "/history/cycles")["cycles"]] == runs


def test_cycles_of_a_guest_are_those_that_move_it(client: TestClient) -> None:
    moved = got(client, "/history/moves")["moves"][0]

    found = got(client, "/history/cycles", guest=moved["guest"])["cycles"]

    assert [each["run"] for each in found] == [moved["run"]]
    assert got(client, "/history/cycles", guest="three")["cycles"] == []


def test_moves_are_listed_in_pages_also_of_the_same_time(
    controller: AdvisedController, client: TestClient
) -> None:
    records = controller.store.records_of(controller.plans.plans()[0].run)
    for number in range(4):
        controller.store.write(replace(records[0], run=f"other{number}"))
    whole = got(client, "/history/moves")["moves"]

    paged: list[Any] = []
    cursor: dict[str, str] = {}
    for _ in range(len(whole)):
        page = got(client, "/history/moves", limit=1, **cursor)
        paged += page["moves"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}

    assert len(whole) == len(records) + 4
    assert paged == whole


def test_move_has_prediction_and_result(client: TestClient) -> None:
    move = got(client, "/history/moves")["moves"][0]

    assert (move["source"], move["target"], move["outcome"]) == ("a", "b", "done")
    assert move["seconds"] > 0
    assert move["predicted_seconds"] > 0
    # The loads of the nodes: 0.8 and 0.0 before, 0.2 less and more after.
    assert move["load"]["before"]["source"]["cpu"] == pytest.approx(0.8)
    assert move["load"]["after"]["target"]["cpu"] == pytest.approx(0.2)


def test_history_names_the_plan_and_the_user_that_approved_it(
    controller: AdvisedController, client: TestClient
) -> None:
    plan = controller.plans.plans()[0]
    expected = {
        "id": plan.id,
        "state": "done",
        "step_count": len(plan.steps),
        "approved_count": len(plan.steps),
        "approved_by": "ada",
    }

    move = got(client, "/history/moves")["moves"][0]
    cycles = {each["run"]: each for each in got(client, "/history/cycles")["cycles"]}

    assert (move["plan"], move["reason"]) == (expected, "repairs-rules")
    (shown_move,) = got(client, f"/guests/{move['guest']}")["moves"]
    assert shown_move["plan"] == expected
    assert cycles.pop(plan.run)["plans"] == [expected]
    assert [each["plans"] for each in cycles.values()] == [[], []]
    shown = got(client, f"/history/cycles/{plan.run}")
    assert shown["cycle"]["plans"] == [expected]
    listed = got(client, "/plans")["plans"][0]
    assert listed["approved_count"] == len(plan.steps)


def test_cluster_is_shown_as_it_was(client: TestClient) -> None:
    oldest = got(client, "/history/cycles")["cycles"][-1]

    found = got(client, f"/history/cycles/{oldest['run']}")

    RecordedClusterDocument.model_validate(found)
    (step,) = found["steps"]
    position = found["guests"]["id"].index(step["guest"])
    assert found["nodes"]["id"][found["guests"]["node"][position]] == "a"
    assert step["outcome"] == "done"
    assert dict(zip(found["nodes"]["id"], found["nodes"]["role"], strict=True)) == {
        "a": "source",
        "b": "target",
    }


def test_cluster_at_a_time_is_that_of_the_cycle_before(client: TestClient) -> None:
    cycles = got(client, "/history/cycles")["cycles"]
    later = NOON + timedelta(seconds=1)

    found = got(client, "/history/cluster", at=later.isoformat())

    assert found["cycle"]["run"] == cycles[-1]["run"]
    before = NOON - timedelta(days=1)
    response = client.get("/history/cluster", params={"at": before.isoformat()})
    assert response.json()["code"] == "not-found"


def test_unchanged_document_is_not_sent_again(client: TestClient) -> None:
    run = got(client, "/history/cycles")["cycles"][0]["run"]
    path = f"/history/cycles/{run}"
    etag = client.get(path).headers["etag"]

    response = client.get(path, headers={"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")


def test_large_document_is_compressed_if_accepted(client: TestClient) -> None:
    run = got(client, "/history/cycles")["cycles"][0]["run"]
    path = f"/history/cycles/{run}"

    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()
    assert len(gzip.compress(plain.content)) < len(plain.content)


def test_series_has_a_point_for_each_cycle(client: TestClient) -> None:
    found = got(client, "/history/series")

    ClusterSeries.model_validate(found)
    assert found["complete"] is True
    assert found["at"] == sorted(found["at"])
    # Loads of 0.8 and 0.0 are the largest imbalance; of 0.6 and 0.2, half of it.
    assert found["imbalance"] == [1.0, pytest.approx(0.5), pytest.approx(0.5)]
    assert found["worst_node"] == ["a", "a", "a"]
    assert found["violated_rules"] == [1, 0, 0]


def test_series_of_many_cycles_has_the_first_of_each_interval(
    controller: AdvisedController, client: TestClient
) -> None:
    for _ in range(6):
        controller.simulation.clock.sleep(300)
        controller.cycle()
    end = controller.simulation.clock.now()

    found = got(
        client,
        "/history/series",
        since=(end - timedelta(seconds=2400)).isoformat(),
        until=end.isoformat(),
        points=4,
    )

    # Up to five intervals of 600 s, the first cycle of each; and the newest.
    assert 4 <= len(found["at"]) <= 6


def test_loads_are_incomplete_when_the_time_is_over(
    controller: AdvisedController, tmp_path: Path
) -> None:
    times = iter([0.0, 0.0, 5.0, 5.0])  # the first point is read in time
    clusters = RecordedClusters(monotonic=lambda: next(times, 0.0))
    with SqliteStore(tmp_path / "lab.sqlite", Access.OPERATE) as store:
        context = api_context(store, controller.simulation.clock, clusters=clusters)
        client = api_client(context)

        first, second = got(client, "/history/series"), got(client, "/history/series")

    assert (len(first["at"]), first["complete"]) == (1, False)
    assert (len(second["at"]), second["complete"]) == (3, True)
    assert first["at"][0] == second["at"][-1]


def test_loads_that_another_request_reads_are_not_waited_for(
    controller: AdvisedController,
) -> None:
    history = History(controller.store)
    cycles = list(history.cycles(HistoryFilter()))
    clusters = RecordedClusters()
    seen: list[LoadHistory] = []

    class ObservedHistory(History):
        """History that requests the loads again while they are read."""

        def record(self, cycle: CycleSummary) -> CycleRecord | None:
            seen.append(clusters.loads(history, cycles))
            return super().record(cycle)

    observed = ObservedHistory(controller.store)
    whole = clusters.loads(observed, cycles)

    assert [len(each.points) for each in seen] == [0, 1, 2]
    assert not any(each.complete for each in seen)
    assert (len(whole.points), whole.complete) == (3, True)


def test_node_has_load_guests_rules_and_drain(
    controller: AdvisedController, client: TestClient
) -> None:
    drain = DrainedNode(node=NodeId("a"), since=NOON, user="ada", because="disk")
    controller.store.save(drain.key, drain.entry)

    found = got(client, "/nodes/a")

    NodeDocument.model_validate(found)
    assert found["state"] == "online"
    assert len(found["guests"]) == 2
    assert found["series"]["cpu"] == pytest.approx([0.8, 0.6, 0.6], abs=0.001)
    assert found["facts"]["cpu_capacity"] == 10
    assert found["drain"]["because"] == "disk"
    assert len(found["moves"]) == 1
    assert (found["explanation"]["code"], found["planned"]) == ("node", [])
    assert got(client, "/nodes/b")["drain"] is None


def test_guest_that_stays_has_the_reason_and_what_would_change_it(
    client: TestClient,
) -> None:
    found = got(client, "/guests/three")

    GuestDocument.model_validate(found)
    assert found["explanation"]["code"] == "pinned"
    assert "rule" in found["explanation"]["change"]
    assert [rule["name"] for rule in found["rules"]] == ["stay"]
    assert found["moves"] == []
    assert found["series"]["cpu"] == [pytest.approx(2)] * 3


def test_guest_of_a_waiting_plan_has_its_step_also_after_later_cycles(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store, CLUSTER, mode=Mode.ADVISE)
        for _ in range(2):
            controller.cycle()
        plan = controller.last()
        client = api_client(api_context(store, controller.simulation.clock))
        moved = next(
            each for each in got(client, f"/plans/{plan.id}")["steps"] if each["guest"]
        )

        guest = got(client, f"/guests/{moved['guest']}")
        nodes = [got(client, f"/nodes/{name}") for name in ("a", "b")]
        reasons = got(client, "/reasons")["reasons"]
        decided = got(client, f"/guests/{moved['guest']}", run=plan.run)

    GuestDocument.model_validate(guest)
    assert [(each["plan"], each["step"]) for each in guest["planned"]] == [
        (plan.id, moved["id"])
    ]
    assert not guest["planned"][0]["running"]
    assert guest["explanation"]["code"] == "in-plan"
    assert plan.id in guest["explanation"]["answer"]
    assert all(guest["planned"][0] in node["planned"] for node in nodes)
    assert reasons[0]["code"] == "in-plan"
    assert moved["guest"] in reasons[0]["guests"]
    assert sum(moved["guest"] in each["guests"] for each in reasons) == 1
    assert (decided["planned"], decided["explanation"]["code"]) == ([], "planned")


def test_guest_that_cannot_leave_a_drained_node_has_the_reason_of_the_drain(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store, CLUSTER, mode=Mode.OBSERVE, drains=True)
        drain = DrainedNode(node=NodeId("a"), since=NOON, user="ada")
        store.save(drain.key, drain.entry)
        controller.cycle()
        client = api_client(api_context(store, controller.simulation.clock))

        guest = got(client, "/guests/three")
        reasons = got(client, "/reasons")["reasons"]

    assert guest["explanation"]["code"] == "pinned"
    assert [each["code"] for each in reasons if "three" in each["guests"]] == ["pinned"]


@pytest.mark.parametrize("path", ["/nodes/zz", "/guests/zz", "/nodes/a?run=zz"])
def test_unknown_name_is_not_found(client: TestClient, path: str) -> None:
    response = client.get(path)

    assert (response.status_code, response.json()["code"]) == (404, "not-found")


def test_rules_have_the_failures_that_the_limits_want_tolerated(
    controller: AdvisedController,
) -> None:
    limits = Limits(tolerated_failures=2, tolerated_domain="rack")
    settings = replace(NO_SETTINGS, limits=limits)
    client = api_client(
        api_context(controller.store, controller.simulation.clock, settings)
    )

    found = got(client, "/rules")

    assert (found["tolerated_failures"], found["tolerated_domain"]) == (2, "rack")


def test_rules_have_state_and_repair(client: TestClient) -> None:
    oldest = got(client, "/history/cycles")["cycles"][-1]["run"]
    before = got(client, "/rules", run=oldest)
    after = got(client, "/rules")

    RuleList.model_validate(before)
    rules = {each["name"]: each for each in before["rules"]}
    assert rules["stay"]["state"] == "kept"
    assert rules["apart"]["state"] == "violated"
    assert rules["apart"]["violating_nodes"] == ["a"]
    assert rules["apart"]["repair"].startswith("planned: ")
    assert {each["state"] for each in after["rules"]} == {"kept"}


def test_reasons_name_guests_and_nodes(client: TestClient) -> None:
    found = got(client, "/reasons")

    ReasonList.model_validate(found)
    guests = {each["code"]: each["guests"] for each in found["reasons"]}
    assert guests["pinned"] == ["three"]


def test_explanation_of_the_decision_a_plan_and_a_guest(
    controller: AdvisedController, client: TestClient
) -> None:
    plan = controller.plans.plans()[0]

    decision = got(client, "/explanations")
    planned = got(client, "/explanations", subject=plan.id)
    guest = got(client, "/explanations", subject="three", run=plan.run)

    assert decision["subject"] == decision["run"] != plan.run
    assert (planned["run"], planned["code"]) == (plan.run, plan.reason)
    assert (guest["run"], guest["code"]) == (plan.run, "pinned")
    assert (decision["excluded"], guest["excluded"]) == (None, [])
    response = client.get("/explanations", params={"subject": "zz"})
    assert response.status_code == 404


def test_consolidation_without_consolidate_has_no_power(client: TestClient) -> None:
    found = got(client, "/consolidation")

    ConsolidationDocument.model_validate(found)
    assert (found["consolidates"], found["power"]) == (False, None)
    assert (found["online_nodes"], found["sleeping"]) == (2, [])
    assert found["states"] == {"online": 2}


def test_settings_have_their_line_and_no_secrets(tmp_path: Path) -> None:
    config = tmp_path / "opendrs.toml"
    config.write_text(
        '[platform.lab]\nkind = "proxmox"\nhosts = ["pve1"]\n'
        'token = "root@pam!x=geheim"\n\n[limits]\ncooldown = "5 min"\n'
    )
    settings = read_settings(config, PLATFORMS)
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store)
        context = api_context(store, controller.simulation.clock, settings, config)

        response = api_client(context).get("/settings")

    assert "geheim" not in response.text
    found = {each["path"]: each for each in response.json()["settings"]}
    assert found["platform.lab.token"]["value"] == "***"
    assert found["limits.cooldown"]["line"] == 7
    assert (found["limits.min_uptime"]["default"], found["policy.name"]["value"]) == (
        True,
        "balance",
    )


def test_store_without_cycles_has_empty_lists(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lab.sqlite", Access.CONTROL) as store:
        controller = AdvisedController(store)
        client = api_client(api_context(store, controller.simulation.clock))

        assert got(client, "/history/series")["at"] == []
        assert got(client, "/rules") == {
            "run": None,
            "decided_at": None,
            "rules": [],
            "tolerated_failures": 0,
            "tolerated_domain": None,
        }
        assert client.get("/nodes/a").status_code == 404


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/history/cycles", {"since": "2026-11-21T12:00:00"}),
        ("/history/moves", {"cursor": "x~1"}),
        ("/history/moves", {"cursor": "2026-11-21T12:00:00Z"}),
    ],
)
def test_wrong_parameter_is_rejected(
    client: TestClient, path: str, parameters: dict[str, str]
) -> None:
    response = client.get(path, params=parameters)

    assert (response.status_code, response.json()["code"]) == (422, "out-of-range")
