"""Drain of a member of a real Incus cluster: running, stopped and blocked instances."""

from __future__ import annotations

import json

import pytest

from integration.incus_lab import IncusLab
from integration.incus_operator import IncusOperator

pytestmark = [pytest.mark.shared, pytest.mark.lab]


def test_member_is_drained_and_refilled(
    incus_lab: IncusLab, operator: IncusOperator
) -> None:
    for name in ("v1", "v2", "v3"):
        incus_lab.vm(name, "n3")
    incus_lab.incus("stop", "v2", "--force")
    incus_lab.incus("config", "set", "v3", "cluster.evacuate=stop")

    drained = operator.runs("drain", "lab", "n3", "--yes", "--format", "json")

    assert drained.returncode == 1, drained.stderr
    document = json.loads(drained.stdout)
    (remaining,) = document["remaining"]
    assert (remaining["guest"], remaining["reason"]) == ("v3", "mobility-none")
    assert {each["kind"] for each in document["records"]} == {
        "live-migration",
        "relocation",
    }
    assert {each["outcome"] for each in document["records"]} == {"done"}
    assert incus_lab.location("v1") != "n3"
    assert incus_lab.location("v2") != "n3"
    assert incus_lab.api("/1.0/instances/v1")["status"] == "Running"
    assert incus_lab.api("/1.0/instances/v2")["status"] == "Stopped"

    returned = operator.runs("undrain", "lab", "n3", "--bring-back")

    assert returned.returncode == 0, returned.stdout + returned.stderr
    locations = [incus_lab.location(name) for name in ("v1", "v2", "v3")]
    assert locations == ["n3"] * 3, returned.stdout + returned.stderr
    assert incus_lab.api("/1.0/instances/v1")["status"] == "Running"
