"""Translation of each setting of ProxLB, and errors in its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from opendrs.config import DiagnosticCode, path_text
from opendrs.config.proxlb import ImportStatus, Translation, translate
from opendrs.config.proxlb.schema import (
    ApiSection,
    BalancingSection,
    ClusterSection,
    ServiceSection,
    SolverSection,
)

API: Mapping[str, object] = {
    "hosts": ["pve1.example"],
    "user": "lb@pve",
    "token_id": "mover",
    "token_secret": "s3cret",
}
TAKEN, DIFFERS, UNSUPPORTED = ImportStatus


def translated(*, trusted: bool = False, **sections: Any) -> Translation:  # noqa: ANN401
    document = {"proxmox_api": API, **sections}
    result, problems = translate(document, trusted=trusted)
    assert problems == ()
    return result


def status(result: Translation, field: str) -> ImportStatus:
    (found,) = [each for each in result.settings if path_text(each.path) == field]
    return found.status


def errors(**sections: object) -> list[tuple[str, DiagnosticCode]]:
    result, problems = translate({"proxmox_api": API, **sections}, trusted=False)
    assert result == Translation()
    return [(path_text((*each.path, *each.subpath)), each.code) for each in problems]


def test_token_becomes_a_secret_of_its_own() -> None:
    result = translated()

    assert result.secret == ("token", "lb@pve!mover=s3cret")
    assert "s3cret" not in str((result.platform, result.settings))


def test_password_becomes_a_secret_of_its_own() -> None:
    api = {"hosts": ["pve1"], "user": "lb@pam", "pass": "p w"}

    result = translated(proxmox_api=api)

    assert result.secret == ("password", "p w")
    assert result.platform["user"] == "lb@pam"
    assert "p w" not in str((result.platform, result.settings))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("pve1.example:443", "pve1.example:443"),
        ("192.0.2.1", "192.0.2.1"),
        ("[fd00::1]:443", "[fd00::1]:443"),
        ("fd00::1", "[fd00::1]"),
        ("fd00::1:8006", "[fd00::1]:8006"),
        ("fd00::cafe", "[fd00::cafe]"),
    ],
)
def test_hosts_are_converted(host: str, expected: str) -> None:
    result = translated(proxmox_api={**API, "hosts": [host]})

    assert result.platform["hosts"] == [expected]


@pytest.mark.parametrize(
    "host", ["", "https://pve1", "pve_1", "pve1:0", "pve1:70000", "[pve1]", "fd00::x:1"]
)
def test_invalid_host_is_an_error_at_its_place(host: str) -> None:
    api = {**API, "hosts": ["pve1", host]}

    assert errors(proxmox_api=api) == [
        ("proxmox_api.hosts[1]", DiagnosticCode.INVALID_VALUE)
    ]


@pytest.mark.parametrize(
    ("verify", "trusted", "expected"),
    [
        (True, False, TAKEN),
        (1, True, TAKEN),
        (False, False, UNSUPPORTED),
        (0, True, DIFFERS),
    ],
)
def test_verification_is_never_switched_off(
    verify: object, expected: ImportStatus, *, trusted: bool
) -> None:
    api = {**API, "ssl_verification": verify}

    result = translated(proxmox_api=api, trusted=trusted)

    assert status(result, "proxmox_api.ssl_verification") is expected


def test_nodes_out_of_service_are_settings_of_the_platform() -> None:
    cluster = {"maintenance_nodes": ["n3", ""], "ignore_nodes": ["n4"]}

    result = translated(proxmox_cluster=cluster)

    assert result.platform["maintenance_nodes"] == ["n3"]
    assert result.platform["ignored_nodes"] == ["n4"]


def test_ignored_guests_are_pinned_by_a_rule_with_an_origin() -> None:
    result = translated(proxmox_cluster={"ignore_guests": ["w2", "w1"]})

    (rule,) = result.rules
    assert (rule["kind"], rule["guests"]) == ("pin", ["w1", "w2"])
    assert "ProxLB" in rule["origin"]


@pytest.mark.parametrize(
    ("balancing", "load_model", "weights"),
    [
        ({}, "dynamic", (0, 1)),
        ({"mode": "assigned", "method": "memory"}, "static", (0, 1)),
        ({"mode": "used", "method": "cpu"}, "dynamic", (1, 0)),
        ({"method": "disk"}, "dynamic", (0, 1)),
    ],
)
def test_mode_and_method_are_load_model_and_weights(
    balancing: Mapping[str, object], load_model: str, weights: tuple[int, int]
) -> None:
    policy = translated(balancing=balancing).policy

    assert policy["load_model"] == load_model
    assert (policy["cpu_weight"], policy["memory_weight"]) == weights


def test_pressure_mode_migrates_one_guest_in_each_cycle() -> None:
    policy = translated(balancing={"mode": "psi"}).policy

    assert policy["priorities"] == ["repair", "contention"]
    assert policy["budget"] == "1 migration"


@pytest.mark.parametrize(
    ("balancing", "limit"),
    [({"parallel": True}, 5), ({"parallel_jobs": 8}, 1), ({"parallel": False}, 1)],
)
def test_migrations_are_parallel_only_if_proxlb_allows(
    balancing: Mapping[str, object], limit: int
) -> None:
    limits = translated(balancing=balancing).limits

    assert limits["max_parallel_migrations"] == limit


def test_pools_become_rules_of_pools() -> None:
    pools = {
        "dev": {"type": "affinity"},
        "db": {"type": "anti-affinity", "pin": ["n1"], "strict": False},
        "empty": {},
    }

    result = translated(balancing={"pools": pools})

    assert result.platform["pools"] == {
        "dev": {"kind": "affinity"},
        "db": {"kind": "anti-affinity", "nodes": ["n1"], "strict_nodes": False},
    }
    assert status(result, "balancing.pools.db") is DIFFERS


@pytest.mark.parametrize(
    ("schedule", "seconds", "expected"),
    [
        ({"interval": 30, "format": "minutes"}, 1800, TAKEN),
        ({"interval": 2}, 7200, TAKEN),
        (3, 10_800, TAKEN),  # ProxLB 1.1.0
        ({"interval": 48, "format": "hours"}, 86_400, DIFFERS),
    ],
)
def test_schedule_is_the_interval_of_the_controller(
    schedule: object, seconds: int, expected: ImportStatus
) -> None:
    result = translated(service={"schedule": schedule})

    assert result.controller["interval"] == seconds
    assert status(result, "service.schedule") is expected


EXAMPLES: Mapping[str, tuple[type[Any], Mapping[str, object]]] = {
    "proxmox_api": (
        ApiSection,
        {
            **API,
            "ssl_verification": True,
            "timeout": 10,
            "retries": 3,
            "wait_time": 2,
        },
    ),
    "proxmox_cluster": (
        ClusterSection,
        {
            "maintenance_nodes": ["n1"],
            "maintenance_nodes_schedule": {
                "duration": 3,
                "pre-migration": 10,
                "schedules": {"n2": ["Friday, 20:00"]},
            },
            "ignore_nodes": ["n9"],
            "ignore_guests": ["w1"],
            "overprovisioning": False,
        },
    ),
    "balancing": (
        BalancingSection,
        {
            "enable": False,
            "enforce_affinity": True,
            "enforce_pinning": False,
            "parallel": True,
            "parallel_jobs": 2,
            "live": False,
            "with_local_disks": True,
            "with_conntrack_state": True,
            "balance_types": ["ct"],
            "max_job_validation": 900,
            "balanciness": 7,
            "memory_threshold": 60,
            "cpu_threshold": 60,
            "method": "disk",
            "mode": "psi",
            "balance_larger_guests_first": True,
            "node_resource_reserve": {"defaults": {"memory": 3}},
            "cpu_overcommit": 3.5,
            "max_node_inflow": 2,
            "ignore_guests": [],
            "psi": {"guests": {"cpu": {"pressure_some": 0.3}}},
            "pools": {"p": {"type": "affinity"}},
        },
    ),
    "service": (
        ServiceSection,
        {
            "daemon": False,
            "enable_ha": True,
            "schedule": {"interval": 1},
            "delay": {"enable": True, "time": 5, "format": "minutes"},
            "log_level": "CRITICAL",
        },
    ),
    "solver": (
        SolverSection,
        {
            "enable": True,
            "mode": "active",
            "log_dir": "/var/log/solver",
            "timeout_seconds": 45,
            "use_reservations": True,
            "active_step_retries": 1,
            "fallback_to_greedy": False,
        },
    ),
}


@pytest.mark.parametrize("section", EXAMPLES)
def test_each_setting_has_a_line(section: str) -> None:
    model, example = EXAMPLES[section]
    known = {field.alias or name for name, field in model.model_fields.items()}

    result = translated(trusted=False, **{section: example})

    lines = {each.path[1] for each in result.settings if each.path[0] == section}
    assert lines == example.keys()
    assert example.keys() | {"pass"} >= known
    assert all(
        each.detail for each in result.settings if each.status is not ImportStatus.TAKEN
    )


@pytest.mark.parametrize("method", ["memory", "cpu"])
def test_threshold_of_the_method_becomes_a_gate(method: str) -> None:
    result = translated(
        balancing={"method": method, "memory_threshold": 60, "cpu_threshold": 75}
    )

    gates = {n: v for n, v in result.limits.items() if n.startswith("balance_above")}
    expected = {"memory": 0.6, "cpu": 0.75}[method]
    assert gates == {f"balance_above_{method}_load": expected}


def test_reserves_and_overcommit_become_limits() -> None:
    reserve = {"defaults": {"memory": 3}, "n1": {"memory": 4.5, "cpu": 2}}
    result = translated(
        balancing={"node_resource_reserve": reserve, "cpu_overcommit": 3.5}
    )

    assert result.limits["reserved_memory"] == "3 GiB"
    assert result.limits["cpu_overcommit"] == 3.5
    assert result.limits["overrides"] == [
        {"nodes": ["n1"], "reserved_memory": "4.5 GiB"}
    ]
    (line,) = [
        each for each in result.settings if each.path[-1] == "node_resource_reserve"
    ]
    assert line.status is ImportStatus.DIFFERS


def test_empty_values_have_their_defaults() -> None:
    result = translated(
        proxmox_cluster={"overprovisioning": None}, balancing={"enforce_affinity": None}
    )

    assert all(each.path[0] == "proxmox_api" for each in result.settings)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"balancing": {"metod": "cpu"}}, ("balancing.metod", "unknown-key")),
        ({"psi": {}}, ("psi", "unknown-key")),
        ({"balancing": {"method": "gpu"}}, ("balancing.method", "unknown-value")),
        ({"balancing": {"live": "maybe"}}, ("balancing.live", "wrong-type")),
        ({"balancing": {"parallel": 2}}, ("balancing.parallel", "wrong-type")),
        (
            {"balancing": {"balanciness": 101}},
            ("balancing.balanciness", "out-of-range"),
        ),
        ({"balancing": []}, ("balancing", "wrong-type")),
        (
            {"balancing": {"pools": {"db": {"type": "near"}}}},
            ("balancing.pools.db.type", "unknown-value"),
        ),
        (
            {"balancing": {"pools": {"db": {"pin": "n1"}}}},
            ("balancing.pools.db.pin", "wrong-type"),
        ),
        (
            {"proxmox_cluster": {"maintenance_nodes": "n1"}},
            ("proxmox_cluster.maintenance_nodes", "wrong-type"),
        ),
        (
            {"proxmox_cluster": {"maintenance_nodes": ["n"], "ignore_nodes": ["n"]}},
            ("proxmox_cluster.maintenance_nodes[0]", "inconsistent"),
        ),
        (
            {"proxmox_api": {**API, "user": "root"}},
            ("proxmox_api.user", "invalid-value"),
        ),
        (
            {"proxmox_api": {**API, "token_id": "lb@pve!mover"}},
            ("proxmox_api.token_id", "invalid-value"),
        ),
        (
            {"proxmox_api": {**API, "pass": "other"}},
            ("proxmox_api.pass", "inconsistent"),
        ),
        (
            {"proxmox_api": {"hosts": ["h"], "user": "a@pve", "token_id": "tok"}},
            ("proxmox_api.token_secret", "missing-key"),
        ),
        (
            {"proxmox_api": {"hosts": ["h"], "user": "a@pve"}},
            ("proxmox_api.token_secret", "missing-key"),
        ),
        (
            {"proxmox_api": {k: v for k, v in API.items() if k != "user"}},
            ("proxmox_api.user", "missing-key"),
        ),
        (
            {"proxmox_api": {**API, "hosts": []}},
            ("proxmox_api.hosts", "out-of-range"),
        ),
    ],
)
def test_errors_name_field_and_code(
    sections: Mapping[str, object], expected: tuple[str, str]
) -> None:
    assert [(field, code.value) for field, code in errors(**sections)] == [expected]


def test_misplaced_setting_names_its_section() -> None:
    _, (problem,) = translate({"proxmox_api": API, "psi": {}}, trusted=False)

    assert "belongs to balancing" in problem.text


@pytest.mark.parametrize("document", [None, [], "text", {}])
def test_document_without_connection_is_an_error(document: object) -> None:
    result, problems = translate(document, trusted=False)

    assert result == Translation()
    assert problems


@pytest.mark.parametrize("secret", [4242, ["4242"], {"4242": 1}, "42\n42 4242"])
@pytest.mark.parametrize("key", ["pass", "token_secret"])
def test_errors_contain_no_secret(key: str, secret: object) -> None:
    _, problems = translate({"proxmox_api": {**API, key: secret}}, trusted=False)

    assert problems
    assert "4242" not in " ".join(map(str, problems))
