"""opendrs run, at the command line: what it takes, and what it cannot be run with."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.cli.controller_policies import configured_policy
from opendrs.config import write_snapshot
from opendrs.config.controller_settings import ControllerSettings
from opendrs.config.settings import Settings
from opendrs.policies import Balance
from opendrs.policies.consolidation import Consolidate
from support.builders import cluster
from support.certificates import CertificateFiles
from support.terminal import CommandResult, RunOpendrs

Document = dict[str, Any]
Change = Callable[[Document, Path], object]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def document(certificates: CertificateFiles, tmp_path: Path) -> Document:
    """Return a configuration with which nothing is wrong."""
    settings = certificates.settings
    write_snapshot(cluster({"a": 0.5}, {"vm": ("a", 0.4)}), tmp_path / "a.json")
    return {
        "api": {
            "certificate": str(settings.certificate),
            "key": str(settings.key),
            "tokens": str(settings.tokens),
            "listen": settings.listen,
        },
        "policy": {"name": "consolidate"},
        "platform": {"saved": {"kind": "file", "path": "a.json"}},
    }


def error_lines(
    opendrs: RunOpendrs, document: Document, *options: str
) -> CommandResult:
    Path("opendrs.toml").write_text(tomli_w.dumps(document))
    return opendrs("run", "opendrs.toml", "--no-serve", *options)


def test_run_once_runs_and_logs_one_cycle(
    opendrs: RunOpendrs, document: Document, caplog: pytest.LogCaptureFixture
) -> None:
    del document["api"]
    document["policy"] = {"name": "balance", "balance": {"max_migrations": 1}}
    document["controller"] = {"mode": "automatic"}

    answer = error_lines(opendrs, document, "--platform", "demo", "--once")

    assert answer.status == 0
    events = [getattr(record, "event", "") for record in caplog.records]
    assert events == [
        "controller-started",
        "decision-made",
        "step-started",
        "step-finished",
        "plan-executed",
        "plan-state-changed",
    ]


def test_run_once_starts_nothing_by_default(
    opendrs: RunOpendrs, document: Document, caplog: pytest.LogCaptureFixture
) -> None:
    del document["api"]
    document["policy"] = {"name": "balance"}

    answer = error_lines(opendrs, document, "--platform", "demo", "--once")

    assert answer.status == 0
    events = {getattr(record, "event", ""): record for record in caplog.records}
    assert events.keys() == {"controller-started", "decision-made"}
    assert "mode observe" in events["controller-started"].getMessage()


def test_events_are_lines_of_json_for_programs(
    opendrs: RunOpendrs, document: Document
) -> None:
    options = ("--platform", "demo", "--once", "--format", "json")

    answer = error_lines(opendrs, document, *options)

    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert answer.status == 0
    assert {"time", "level", "event", "message"} <= lines[0].keys()
    assert [line["event"] for line in lines] == [
        "controller-started",
        "agents-unresponsive",
        "decision-made",
    ]


def test_consolidation_gets_the_cycle_interval() -> None:
    every_minute = ControllerSettings(interval=60)

    policy = configured_policy(Settings(policy="consolidate", controller=every_minute))
    other = configured_policy(Settings(policy="balance", controller=every_minute))

    assert isinstance(policy, Consolidate)
    assert policy.interval == 60
    assert isinstance(other, Balance)


def change_requests(**changes: object) -> Change:
    return lambda document, _: document["api"].update(changes)


def garbled_certificate(document: Document, place: Path) -> None:
    (place / "garbled").write_text("nothing of that kind")
    document["api"]["certificate"] = "garbled"


def foreign_key(document: Document, place: Path) -> None:
    document["api"]["key"] = str(CertificateFiles(place).settings.key)


def invalid_tokens(document: Document, place: Path) -> None:
    (place / "garbled").write_text('h1 = "the-token-itself"')
    document["api"]["tokens"] = "garbled"


@pytest.mark.parametrize("once", [[], ["--once"]])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            change_requests(certificate="absent.pem"),
            "api.certificate: cannot read absent.pem: No such file",
        ),
        (change_requests(key="."), "api.key: cannot read .: Is a directory"),
        (garbled_certificate, "expected a certificate and its private key in PEM"),
        (foreign_key, "the key does not belong to the certificate"),
        (
            change_requests(tokens="absent.toml"),
            "api.tokens: cannot read absent.toml: No such file",
        ),
        (
            invalid_tokens,
            "api.tokens: garbled: h1: expected the SHA-256 of a token: 64",
        ),
        (
            change_requests(listen="8443"),
            "opendrs.toml: api.listen: expected ADDRESS:PORT",
        ),
        (
            change_requests(agent_timeout=0.0),
            "opendrs.toml: api.agent_timeout: expected seconds above 0",
        ),
        (
            change_requests(keys="x"),
            "opendrs.toml: api.keys: unknown setting; did you mean key",
        ),
        (
            lambda document, _: document["api"].pop("key"),
            "opendrs.toml: api.key: is missing",
        ),
        (
            lambda document, _: document.update(policy={"name": "balance"}),
            "opendrs.toml: policy.name: [api] requires the policy consolidate",
        ),
        (
            lambda document, _: document.update(controller={"interval": 0}),
            "opendrs.toml: controller.interval: expected seconds above 0",
        ),
    ],
)
def test_invalid_configuration_fails_before_it_writes(
    opendrs: RunOpendrs,
    document: Document,
    change: Change,
    message: str,
    once: list[str],
) -> None:
    change(document, Path.cwd())

    answer = error_lines(opendrs, document, "--platform", "demo", *once)

    assert answer.status == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert "the-token-itself" not in answer.err
    assert not Path("state").exists()


def test_occupied_port_is_reported(opendrs: RunOpendrs, document: Document) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        document["api"]["listen"] = listen

        answer = error_lines(
            opendrs, document, "--platform", "demo", "--level", "error"
        )

    assert answer.status == 2
    assert answer.err == (
        f"opendrs: api.listen: cannot listen on {listen}: "
        "address in use by another process\n"
    )


def test_read_only_platform_is_rejected(
    opendrs: RunOpendrs, document: Document
) -> None:
    answer = error_lines(opendrs, document)

    assert answer.status == 2
    assert ".json: a snapshot file cannot be changed" in answer.err


@pytest.mark.parametrize("names", [[], ["one", "two"]])
def test_ambiguous_platform_must_be_named(
    opendrs: RunOpendrs, document: Document, names: list[str]
) -> None:
    document["platform"] = dict.fromkeys(names, document["platform"]["saved"])

    answer = error_lines(opendrs, document)

    assert answer.status == 2
    assert "select it with --platform NAME" in answer.err


@pytest.mark.parametrize(
    "command",
    [
        ("demo",),
        ("apply", "demo", "--yes"),
        ("run", "opendrs.toml", "--platform", "demo", "--once"),
    ],
    ids=lambda words: words[0],
)
def test_store_of_transient_platform_is_rejected(
    opendrs: RunOpendrs, command: tuple[str, ...]
) -> None:
    Path("opendrs.toml").write_text('[store]\npath = "record.sqlite"\n')

    answer = opendrs(*command)

    assert answer.status == 2
    assert "[store]: demo is not persistent and has no store" in answer.err
    assert not Path("record.sqlite").exists()


def test_plan_of_demo_needs_no_store(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text('[store]\npath = "record.sqlite"\n')

    assert opendrs("plan", "demo").status == 0
    assert opendrs("show", "demo").status == 0


@pytest.mark.parametrize("requests", [False, True])
@pytest.mark.parametrize("after", ["controller-started", "decision-made"])
def test_a_demo_that_is_killed_leaves_nothing_behind(
    document: Document,
    tmp_path: Path,
    after: str,
    requests: bool,  # noqa: FBT001
) -> None:
    if not requests:
        del document["api"]
        document["policy"] = {"name": "balance"}
    (tmp_path / "opendrs.toml").write_text(tomli_w.dumps(document))
    places = {name: tmp_path / name for name in ("TMPDIR", "HOME", "XDG_STATE_HOME")}
    for place in places.values():
        place.mkdir()
    words = ["run", "opendrs.toml", "--platform", "demo", "--format", "json"]
    before = {*tmp_path.rglob("*")}

    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", "from opendrs.cli.main import main; main()", *words],
        cwd=tmp_path,
        env={**os.environ, **{name: str(place) for name, place in places.items()}},
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == after:
                break
        process.kill()

    assert process.returncode == -signal.SIGKILL
    assert {*tmp_path.rglob("*")} == before


def test_readable_secrets_are_logged_at_start(
    opendrs: RunOpendrs, document: Document, certificates: CertificateFiles
) -> None:
    key = certificates.settings.key
    key.chmod(0o604)
    options = ("--platform", "demo", "--once", "--format", "json")
    try:
        answer = error_lines(opendrs, document, *options)
    finally:
        key.chmod(0o600)

    first = json.loads(answer.err.splitlines()[0])
    assert answer.status == 0
    assert (first["event"], first["level"]) == ("file-exposed", "warning")
    assert (first["path"], first["mode"]) == (str(key), "0604")
    assert first["message"].endswith(f"run chmod o-r {key}")
