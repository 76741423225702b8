"""Commands of opendrs with an Incus cluster of the test."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.howto_pages import HowToPage
from support.incus_documents import (
    double,
    instance,
    member,
    metrics,
    resources,
    server,
    state,
)
from support.incus_double import Failure, IncusDouble, TlsFiles
from support.terminal import RunOpendrs

HOWTO = HowToPage("incus.md")


@pytest.fixture
def cluster() -> IncusDouble:
    found = double(instance("v1"), instance("v2"))
    found.states["h1"] = state(used=0.8, load=6.0)
    found.resources["h1"] = resources(used=0.8, load=6.0)
    found.metrics = dict.fromkeys(found.metrics, metrics("v1") + metrics("v2"))
    return found


@pytest.fixture
def table(cluster: IncusDouble, tmp_path: Path) -> Iterator[dict[str, Any]]:
    tls = TlsFiles(tmp_path)
    with tls.serve(cluster) as url:
        yield {
            "kind": "incus",
            "urls": [url],
            "certificate": "client.crt",
            "key": "client.key",
            "fingerprint": tls.fingerprint(),
        }


def write(directory: Path, table: dict[str, Any], **changes: object) -> Path:
    document = {
        "platform": {"lab": {**table, **changes}},
        "policy": {"name": "threshold-rebalance"},
        "limits": {"min_uptime": 0, "migrate_local_disks": True},
        "store": {"path": "record.sqlite"},
    }
    path = directory / "opendrs.toml"
    path.write_text(tomli_w.dumps(document))
    return path


def failed_checks(
    opendrs: RunOpendrs, path: Path, *, status: int = 1
) -> dict[str, str]:
    result = opendrs("check", str(path), "--online", "--format", "json")
    assert result.status == status, result
    checks = json.loads(result.out)["online"]
    return {each["subject"]: each["remedy"] for each in checks if not each["ok"]}


def test_show_plan_and_apply_move_an_instance(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    config = ("--config", str(write(tmp_path, table)))

    shown = opendrs("show", "lab", *config)
    plan = json.loads(opendrs("plan", "lab", "--format", "json", *config).out)
    applied = opendrs("apply", "lab", "--yes", *config)

    assert shown.status == 0
    assert plan["reason"] == "improves-balance", plan
    (step,) = plan["steps"]
    assert (step["guest"], step["source"]) == ("v1", "h1")
    assert applied.status == 0
    assert cluster.instance("v1")["location"] == step["target"]
    assert len(cluster.starts()) == 1


def test_check_online_of_a_sound_cluster_is_ok(
    opendrs: RunOpendrs, table: dict[str, Any], tmp_path: Path
) -> None:
    assert failed_checks(opendrs, write(tmp_path, table), status=0) == {}


@pytest.mark.parametrize(
    ("guest", "detail"),
    [
        ("v2", "all guests and nodes exist"),
        ("v3", 'rules[0].guests: unknown guest "v3"'),
    ],
)
def test_check_online_checks_the_names_of_rules(
    opendrs: RunOpendrs,
    table: dict[str, Any],
    tmp_path: Path,
    guest: str,
    detail: str,
) -> None:
    path = write(tmp_path, table)
    rule = {"kind": "affinity", "guests": ["v1", guest], "strict": False}
    document = {**tomllib.loads(path.read_text()), "rules": [rule]}
    path.write_text(tomli_w.dumps(document))

    result = opendrs("check", str(path), "--online", "--format", "json")

    assert result.status == (guest == "v3")
    report = json.loads(result.out)
    assert "not-checked" not in {each["code"] for each in report["diagnostics"]}
    (names,) = (each for each in report["online"] if each["subject"] == "names")
    assert names["detail"] == detail


def test_check_online_observes_once(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    failed_checks(opendrs, write(tmp_path, table), status=0)

    observed = [each for each in cluster.requests if "/1.0/instances?" in each]
    assert len(observed) == 1


def test_check_online_without_trust_prints_the_command(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.server = {"auth": "untrusted", "api_extensions": []}

    remedy = failed_checks(opendrs, write(tmp_path, table, projects=["web"]))["trust"]

    assert remedy.startswith("incus config trust add-certificate --restricted ")
    assert "--projects=web" in remedy


def test_check_online_with_hidden_project_prints_the_command(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.server = server(config={})
    path = write(tmp_path, table, projects=["default", "web"], rebalancer="off")

    failed = failed_checks(opendrs, path)

    assert set(failed) == {"projects"}
    assert '{"projects": ["default", "web"]}' in failed["projects"]
    assert f"/1.0/certificates/{'f' * 64}" in failed["projects"]


def test_check_online_with_blocked_target_prints_the_command(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.server = server(config={})
    cluster.projects[0]["config"] = {"restricted": "true"}
    path = write(tmp_path, table, rebalancer="off")

    failed = failed_checks(opendrs, path)
    command = failed["moves in default"].split()
    key, value = command[-1].split("=")
    cluster.projects[0]["config"][key] = value

    assert command[:3] == ["incus", "project", "set"]
    assert failed_checks(opendrs, path, status=0) == {}


@pytest.mark.parametrize(
    ("config", "setting", "fails"),
    [
        ({"a": "b"}, "auto", False),
        ({"cluster.rebalance.interval": "5"}, "auto", False),
        ({"cluster.rebalance.interval": "5"}, "off", True),
        ({}, "auto", True),
        ({}, "off", False),
    ],
)
def test_check_online_compares_the_rebalancer(  # noqa: PLR0913 - parameters
    opendrs: RunOpendrs,
    cluster: IncusDouble,
    table: dict[str, Any],
    tmp_path: Path,
    *,
    config: dict[str, str],
    setting: str,
    fails: bool,
) -> None:
    cluster.server = server(config=config)
    path = write(tmp_path, table, rebalancer=setting)

    failed = failed_checks(opendrs, path, status=int(fails))

    assert list(failed) == (["rebalancer of Incus"] if fails else [])


def test_check_online_without_extension_fails(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.server["api_extensions"].remove("migration_vm_live")

    assert set(failed_checks(opendrs, write(tmp_path, table))) == {"version"}


def test_check_online_names_members_and_metrics_that_fail(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.failures = [
        Failure("h2/state", status=503),
        Failure("metrics", status=403),
    ]

    failed = failed_checks(opendrs, write(tmp_path, table))

    assert set(failed) == {"state of h2", "metrics", "nodes"}


def test_check_online_without_migratable_machine_prints_the_command(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    for each in cluster.instances:
        each["expanded_config"].pop("migration.stateful")

    remedy = failed_checks(opendrs, write(tmp_path, table))["live migration"]

    assert "incus config set v1 migration.stateful=true" in remedy


def test_invalid_settings_end_with_status_2_and_no_traceback(
    opendrs: RunOpendrs, table: dict[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path, table, fingerprint="short", max_requests=0)

    result = opendrs("check", str(path))

    assert result.status == 2
    assert "fingerprint" in result.err
    assert "max_requests" in result.err
    assert "Traceback" not in result.err


def test_connect_writes_a_configuration_that_works(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    table: dict[str, Any],
    tmp_path: Path,
) -> None:
    output = tmp_path / "connected.toml"
    answers = [
        table["urls"][0],
        "",  # the fingerprint that was found
        "client.crt",
        "client.key",
        "default",
        "off",
        "y",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, ""])))

    result = opendrs("connect", "incus", "--name", "lab", "--output", str(output))

    assert result.status == 0, result
    written = tomllib.loads(output.read_text())["platform"]["lab"]
    assert written["fingerprint"] == table["fingerprint"]
    assert opendrs("plan", "lab", "--config", str(output)).status == 0


def test_record_of_an_evacuated_member_is_readable(
    opendrs: RunOpendrs, cluster: IncusDouble, table: dict[str, Any], tmp_path: Path
) -> None:
    cluster.members[2] = member("h3", status="Evacuated")
    file = tmp_path / "snapshot.json"
    config = ("--config", str(write(tmp_path, table)))

    assert opendrs("record", "lab", "-o", str(file), *config).status == 0
    assert opendrs("check", str(file)).status == 0


def test_configuration_of_the_howto_is_valid(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    text, _ = HOWTO.blocks("toml")
    (tmp_path / "opendrs.toml").write_text(text)

    assert opendrs("check", "opendrs.toml").status == 0


def test_reading_commands_of_the_howto_succeed(
    opendrs: RunOpendrs, table: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, table)
    reading = ("opendrs check ", "opendrs show ", "opendrs plan ")

    commands = [e.text for e in HOWTO.commands if e.text.startswith(reading)]
    results = {each: opendrs(*each.split()[1:]).status for each in commands}

    assert list(results.values()) == [0, 0, 0], results


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_certificate_of_the_howto_is_accepted(
    opendrs: RunOpendrs, table: dict[str, Any], tmp_path: Path
) -> None:
    command = HOWTO.blocks("sh")[0]
    subprocess.run(  # noqa: S603 - what our own page says
        ["/bin/sh", "-e", "-c", command], cwd=tmp_path, check=True, capture_output=True
    )
    path = write(tmp_path, table, certificate="opendrs.crt", key="opendrs.key")

    assert failed_checks(opendrs, path, status=0) == {}
