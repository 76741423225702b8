"""opendrs check: everything wrong in a file, at once."""

import json
from pathlib import Path

import pytest
import tomli_w

from builders import cluster, guest_ids
from opendrs.model import AntiAffinity
from opendrs.platforms.file import write_snapshot
from terminal import Opendrs
from vouching import Vouched

TORN = """
[[rules]]
kind = "affinity"
guests = ["a", "b"]
[[rules]]
kind = "anti-affinity"
guests = ["a", "b"]
"""
KEPT = """
[[rules]]
kind = "anti-affinity"
guests = ["a", "b", "c"]
[[rules]]
kind = "node-affinity"
guests = ["a", "b"]
nodes = {n1 = 1, n2 = 1}
[[rules]]
kind = "pin"
guests = ["a", "b", "c"]
"""


def checked(opendrs: Opendrs, text: str, *options: str) -> tuple[int, str, str]:
    Path("opendrs.toml").write_text(text)
    answer = opendrs("check", "opendrs.toml", *options)
    return answer.status, answer.out, answer.err


def test_a_configuration_in_order_is_said_to_be(opendrs: Opendrs) -> None:
    platform = '[platform.lab]\nkind = "file"\npath = "x.json"\n'
    pairs = cluster(
        nodes={"n1": 0.1, "n2": 0.1},
        guests={"a": ("n1", 0.1), "b": ("n1", 0.1), "c": ("n2", 0.1)},
    )
    write_snapshot(pairs, Path("x.json"))

    assert checked(opendrs, platform + KEPT) == (
        0,
        "opendrs.toml: a configuration with 1 platform and 3 rules, in order.\n",
        "",
    )


def test_rules_that_contradict_one_another_are_found_without_a_cluster(
    opendrs: Opendrs,
) -> None:
    status, out, _ = checked(opendrs, TORN)

    assert status == 1
    assert out.startswith("contradiction: a and b must be together and apart")
    assert out.endswith("2 rules; 1 contradiction.\n")


def test_too_few_nodes_for_guests_that_must_be_apart_are_found(
    opendrs: Opendrs,
) -> None:
    crowded = KEPT.replace('guests = ["a", "b"]', 'guests = ["a", "b", "c"]')

    status, out, _ = checked(opendrs, crowded)

    assert status == 1
    assert "3 guests must be apart" in out


def test_everything_wrong_in_a_configuration_is_told(opendrs: Opendrs) -> None:
    status, _, err = checked(opendrs, "[limits]\ncooldown = -1\n[limit]\n" + TORN)

    assert status == 2
    assert len(err.splitlines()) == 2


def test_everything_wrong_in_a_snapshot_is_told(opendrs: Opendrs) -> None:
    Path("c.json").write_text('{"nodes": {"a": {"state": 3}}, "guests": []}')

    answer = opendrs("check", "c.json")

    assert answer.status == 2
    assert len(answer.err.splitlines()) == 4


def test_the_files_by_which_agents_are_known_are_read_as_well(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    requests = """
    [requests]
    certificate = "controller.pem"
    key = "controller.key"
    tokens = "tokens.toml"
    [policy]
    name = "consolidate"
    """
    status, out, err = checked(opendrs, requests)
    Vouched(tmp_path)
    once_they_are_there = checked(opendrs, requests)

    why = "No such file or directory"
    begin = "opendrs: opendrs.toml: requests"
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        f"{begin}.tokens: cannot read tokens.toml: {why}",
        f"{begin}.certificate: cannot read controller.pem: {why}",
        f"{begin}.key: cannot read controller.key: {why}",
    ]
    assert once_they_are_there[0] == 0


def broken(*, strict: bool) -> None:
    rule = AntiAffinity(guests=guest_ids("vm1", "vm2"), strict=strict, name="apart")
    pair = cluster(
        nodes={"a": 0.5, "b": 0.1},
        guests={"vm1": ("a", 0.2), "vm2": ("a", 0.2)},
        rules=[rule],
    )
    write_snapshot(pair, Path("pair.json"))


@pytest.mark.parametrize(
    ("strict", "status", "word"), [(True, 1, "broken"), (False, 0, "not kept (soft)")]
)
def test_a_broken_rule_counts_when_it_is_strict(
    opendrs: Opendrs, *, strict: bool, status: int, word: str
) -> None:
    broken(strict=strict)

    answer = opendrs("check", "pair.json")

    assert answer.status == status
    assert answer.out.startswith(f"{word}: apart: broken by vm1, vm2 on a")


def test_json_holds_the_verdict_and_the_faults(opendrs: Opendrs) -> None:
    broken(strict=True)

    found = json.loads(opendrs("check", "pair.json", "--format", "json").out)

    assert found["what"] == "a snapshot"
    assert found["in_order"] is False
    assert [fault["rule"] for fault in found["violations"]] == ["apart"]
    assert found["contradictions"] == []


def test_a_cluster_can_be_checked(opendrs: Opendrs) -> None:
    answer = opendrs("check", "demo")

    assert (answer.status, answer.out) == (0, "demo: a cluster, in order.\n")


def test_rules_in_json_are_rules_too(opendrs: Opendrs) -> None:
    rules = [{"kind": "pin", "guests": ["a"]}]
    Path("rules.json").write_text(json.dumps({"rules": rules}))

    answer = opendrs("check", "rules.json")

    assert answer.out == (
        "rules.json: a configuration with 0 platforms and 1 rule, in order.\n"
    )


def test_a_file_that_is_not_there_is_bad_input(opendrs: Opendrs) -> None:
    assert opendrs("check", "none.toml").status == 2


def test_secrets_that_others_can_read_are_warnings(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    settings = Vouched(tmp_path).settings
    for path in (settings.key, settings.tokens):
        path.chmod(0o644)
    document = {
        "requests": {
            "certificate": settings.certificate.name,
            "key": settings.key.name,
            "tokens": settings.tokens.name,
        },
        "policy": {"name": "consolidate"},
    }
    Path("c.toml").write_text(tomli_w.dumps(document))

    answer = opendrs("check", "c.toml")
    listed = json.loads(opendrs("check", "c.toml", "--format", "json").out)

    key = "controller.key has mode 0644; run chmod o-r controller.key"
    assert answer.status == 0
    assert (
        f"opendrs: warning: c.toml: requests.key: others can read it: {key}"
        in answer.err
    )
    assert "requests.tokens: others can read it" in answer.err
    assert {each["field"] for each in listed["diagnostics"]} == {
        "requests.key",
        "requests.tokens",
    }
    for path in (settings.key, settings.tokens):
        path.chmod(0o600)
    assert opendrs("check", "c.toml").err == ""


def test_a_platform_in_a_history_is_checked(opendrs: Opendrs) -> None:
    opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "2")
    Path("c.toml").write_text('[platform.old]\nkind = "file"\npath = "h.jsonl"\n')

    assert opendrs("check", "c.toml").status == 0


def unmeasured_file(path: str) -> None:
    snapshot = cluster(
        nodes=dict.fromkeys(("a", "b", "c", "d"), None),
        guests={"g1": ("a", 0.1), "g2": ("a", 0.1)},
        rules=[AntiAffinity(guests=guest_ids("g1", "g2"))],
    )
    write_snapshot(snapshot, Path(path))
    document = json.loads(Path(path).read_text())
    del document["guests"]["g1"]["usage"]
    del document["guests"]["g2"]["state"]
    Path(path).write_text(json.dumps(document))


def test_measurements_and_states_that_are_missing_are_warnings(
    opendrs: Opendrs,
) -> None:
    unmeasured_file("c.json")

    assert opendrs("check", "c.json").err.splitlines() == [
        (
            "opendrs: warning: c.json: nodes: nodes a, b, c and 1 more have no usage "
            "(nodes.a.usage: cpu, memory); there is no plan without it"
        ),
        (
            "opendrs: warning: c.json: guests: guest g2 has no state "
            "(guests.g2.state); no plan moves what lacks it"
        ),
        (
            "opendrs: warning: c.json: guests: guest g1 has no usage "
            "(guests.g1.usage: cpu, memory); no plan moves what lacks it"
        ),
    ]


def test_a_rule_is_not_judged_while_measurements_are_missing(opendrs: Opendrs) -> None:
    unmeasured_file("c.json")

    text = opendrs("plan", "c.json", "--summary").out
    document = json.loads(opendrs("plan", "c.json", "--format", "json").out)

    told = " ".join(text.split())
    assert "cannot be judged: keep g1, g2 apart: nodes a, b, c and 1 more have" in told
    assert "cannot be kept" not in told
    after = document["violations"]["after"]
    assert [each["repairable"] for each in after] == [None]


def test_broken_rules_are_counted_and_three_of_them_shown(opendrs: Opendrs) -> None:
    guests = {f"g{number}": ("a", 0.01) for number in range(10)}
    pairs = [(f"g{number}", f"g{number + 1}") for number in range(0, 10, 2)]
    snapshot = cluster(
        nodes={"a": 0.1, "b": 0.1},
        guests={**guests, "g0": ("b", 0.01)},
        rules=[AntiAffinity(guests=guest_ids(*pair)) for pair in pairs],
    )
    write_snapshot(snapshot, Path("big.json"))

    short = opendrs("check", "big.json").out.splitlines()
    full = opendrs("check", "big.json", "--all").out.splitlines()

    end = "big.json: a snapshot; 4 of 5 strict rules are broken."
    assert [len(short), short[-1]] == [5, end]
    assert short[-2] == "and 1 more; --all shows all"
    assert [len(full), full[-1]] == [5, end]
    assert full[-2].startswith("broken: ")
