"""opendrs check: everything wrong in a file, at once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from opendrs.config import write_snapshot
from opendrs.model import AntiAffinity, NodeId, NodeState
from support.builders import cluster, guest_ids
from support.certificates import CertificateFiles
from support.terminal import RunOpendrs

CONTRADICTORY = """
[[rules]]
kind = "affinity"
guests = ["a", "b"]
[[rules]]
kind = "anti-affinity"
guests = ["a", "b"]
"""
VALID = """
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


def check(opendrs: RunOpendrs, text: str, *options: str) -> tuple[int, str, str]:
    Path("opendrs.toml").write_text(text)
    answer = opendrs("check", "opendrs.toml", *options)
    return answer.status, answer.out, answer.err


def test_check_valid_configuration_succeeds(opendrs: RunOpendrs) -> None:
    platform = '[platform.lab]\nkind = "file"\npath = "x.json"\n'
    pairs = cluster(
        nodes={"n1": 0.1, "n2": 0.1},
        guests={"a": ("n1", 0.1), "b": ("n1", 0.1), "c": ("n2", 0.1)},
    )
    write_snapshot(pairs, Path("x.json"))

    assert check(opendrs, platform + VALID) == (
        0,
        "opendrs.toml: a configuration with 1 platform and 3 rules: no errors\n",
        "",
    )


def test_check_finds_contradictions_without_a_cluster(
    opendrs: RunOpendrs,
) -> None:
    status, out, _ = check(opendrs, CONTRADICTORY)

    assert status == 1
    assert out.startswith(
        "contradiction: both affinity and anti-affinity between a and b"
    )
    assert out.endswith("2 rules: 1 contradiction\n")


def test_check_finds_infeasible_anti_affinity(
    opendrs: RunOpendrs,
) -> None:
    crowded = VALID.replace('guests = ["a", "b"]', 'guests = ["a", "b", "c"]')

    status, out, _ = check(opendrs, crowded)

    assert status == 1
    assert "anti-affinity among 3 guests" in out


def test_check_lists_all_errors_of_a_configuration(opendrs: RunOpendrs) -> None:
    status, _, err = check(
        opendrs, "[limits]\ncooldown = -1\n[limit]\n" + CONTRADICTORY
    )

    assert status == 2
    assert len(err.splitlines()) == 2


def test_check_lists_all_errors_of_a_snapshot(opendrs: RunOpendrs) -> None:
    Path("c.json").write_text('{"nodes": {"a": {"state": 3}}, "guests": []}')

    answer = opendrs("check", "c.json")

    assert answer.status == 2
    assert len(answer.err.splitlines()) == 4


def test_check_reads_token_and_certificate_files(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    requests = """
    [api]
    certificate = "controller.pem"
    key = "controller.key"
    tokens = "tokens.toml"
    [policy]
    name = "consolidate"
    """
    status, out, err = check(opendrs, requests)
    CertificateFiles(tmp_path)
    once_they_are_there = check(opendrs, requests)

    message = "No such file or directory"
    begin = "opendrs: opendrs.toml: api"
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        f"{begin}.tokens: cannot read tokens.toml: {message}",
        f"{begin}.certificate: cannot read controller.pem: {message}",
        f"{begin}.key: cannot read controller.key: {message}",
    ]
    assert once_they_are_there[0] == 0


def violating_snapshot(*, strict: bool) -> None:
    rule = AntiAffinity(guests=guest_ids("vm1", "vm2"), strict=strict, name="apart")
    pair = cluster(
        nodes={"a": 0.5, "b": 0.1},
        guests={"vm1": ("a", 0.2), "vm2": ("a", 0.2)},
        rules=[rule],
    )
    write_snapshot(pair, Path("pair.json"))


@pytest.mark.parametrize(
    ("strict", "status", "word"), [(True, 1, "violated"), (False, 0, "violated (soft)")]
)
def test_check_fails_on_strict_violations_only(
    opendrs: RunOpendrs, *, strict: bool, status: int, word: str
) -> None:
    violating_snapshot(strict=strict)

    answer = opendrs("check", "pair.json")

    assert answer.status == status
    assert answer.out.startswith(f"{word}: apart: vm1, vm2 on a")


def test_check_json_has_result_and_violations(opendrs: RunOpendrs) -> None:
    violating_snapshot(strict=True)

    found = json.loads(opendrs("check", "pair.json", "--format", "json").out)

    assert found["checked"] == "a snapshot"
    assert found["valid"] is False
    assert [fault["rule"] for fault in found["violations"]] == ["apart"]
    assert found["contradictions"] == []


def test_a_cluster_can_be_checked(opendrs: RunOpendrs) -> None:
    answer = opendrs("check", "demo")

    assert (answer.status, answer.out) == (0, "demo: a cluster: no errors\n")


def test_rules_in_json_are_rules_too(opendrs: RunOpendrs) -> None:
    rules = [{"kind": "pin", "guests": ["a"]}]
    Path("rules.json").write_text(json.dumps({"rules": rules}))

    answer = opendrs("check", "rules.json")

    assert answer.out == (
        "rules.json: a configuration with 0 platforms and 1 rule: no errors\n"
    )


def test_check_missing_file_is_invalid_input(opendrs: RunOpendrs) -> None:
    assert opendrs("check", "none.toml").status == 2


def test_check_warns_of_readable_secrets(opendrs: RunOpendrs, tmp_path: Path) -> None:
    settings = CertificateFiles(tmp_path).settings
    for path in (settings.key, settings.tokens):
        path.chmod(0o644)
    document = {
        "api": {
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
    assert f"opendrs: warning: c.toml: api.key: others can read it: {key}" in answer.err
    assert "api.tokens: others can read it" in answer.err
    assert {each["field"] for each in listed["diagnostics"]} == {
        "api.key",
        "api.tokens",
    }
    for path in (settings.key, settings.tokens):
        path.chmod(0o600)
    assert opendrs("check", "c.toml").err == ""


def test_a_platform_in_a_history_is_checked(opendrs: RunOpendrs) -> None:
    opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "2")
    Path("c.toml").write_text('[platform.old]\nkind = "file"\npath = "h.jsonl"\n')

    assert opendrs("check", "c.toml").status == 0


def snapshot_without_metrics(path: str) -> None:
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


def test_check_warns_of_missing_metrics_and_states(
    opendrs: RunOpendrs,
) -> None:
    snapshot_without_metrics("c.json")

    assert opendrs("check", "c.json").err.splitlines() == [
        (
            "opendrs: warning: c.json: nodes: nodes a, b, c and 1 more have no usage "
            "(nodes.a.usage: cpu, memory); required for a plan"
        ),
        (
            "opendrs: warning: c.json: guests: guest g2 has no state "
            "(guests.g2.state); required to migrate the guest"
        ),
        (
            "opendrs: warning: c.json: guests: guest g1 has no usage "
            "(guests.g1.usage: cpu, memory); required to migrate the guest"
        ),
    ]


def test_check_skips_rules_without_metrics(opendrs: RunOpendrs) -> None:
    snapshot_without_metrics("c.json")

    text = opendrs("plan", "c.json", "--summary").out
    document = json.loads(opendrs("plan", "c.json", "--format", "json").out)

    output = " ".join(text.split())
    assert (
        "not evaluated: anti-affinity of g1, g2: nodes a, b, c and 1 more have"
        in output
    )
    assert output.count("not evaluated") == 1
    assert "cannot be repaired" not in output
    after = document["violations"]["after"]
    assert [each["repairable"] for each in after] == [None]


def test_check_counts_violations_and_shows_three(opendrs: RunOpendrs) -> None:
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

    end = "big.json: a snapshot: 4 of 5 strict rules violated"
    assert [len(short), short[-1]] == [5, end]
    assert short[-2] == "and 1 more; --all shows all"
    assert [len(full), full[-1]] == [5, end]
    assert full[-2].startswith("violated: ")


def test_check_counts_the_rule_that_drains_a_node(opendrs: RunOpendrs) -> None:
    snapshot = cluster(nodes={"a": 0.1, "b": 0.1}, guests={"g": ("a", 0.01)})
    node = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    drained = replace(snapshot, nodes={**snapshot.nodes, node.id: node})
    write_snapshot(drained, Path("drained.json"))

    result = opendrs("check", "drained.json")

    assert result.status == 1
    assert result.out.endswith("1 of 1 strict rule violated\n")
