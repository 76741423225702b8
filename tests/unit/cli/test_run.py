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

from builders import cluster
from opendrs.cli.assembly import policy_of
from opendrs.controller.settings import ControllerSettings, Settings
from opendrs.platforms.file import write_snapshot
from opendrs.policies import Balance, Consolidate
from terminal import Answer, Opendrs
from vouching import Vouched

Document = dict[str, Any]
Change = Callable[[Document, Path], object]


@pytest.fixture(scope="module")
def vouched(tmp_path_factory: pytest.TempPathFactory) -> Vouched:
    return Vouched(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def document(vouched: Vouched, tmp_path: Path) -> Document:
    """Return a configuration with which nothing is wrong."""
    settings = vouched.settings
    write_snapshot(cluster({"a": 0.5}, {"vm": ("a", 0.4)}), tmp_path / "a.json")
    return {
        "requests": {
            "certificate": str(settings.certificate),
            "key": str(settings.key),
            "tokens": str(settings.tokens),
            "listen": settings.listen,
        },
        "policy": {"name": "consolidate"},
        "platform": {"saved": {"kind": "file", "path": "a.json"}},
    }


def told(opendrs: Opendrs, document: Document, *options: str) -> Answer:
    Path("opendrs.toml").write_text(tomli_w.dumps(document))
    return opendrs("run", "opendrs.toml", *options)


def test_one_cycle_is_run_and_told(
    opendrs: Opendrs, document: Document, caplog: pytest.LogCaptureFixture
) -> None:
    del document["requests"]
    document["policy"] = {"name": "balance", "balance": {"moves": 1}}

    answer = told(opendrs, document, "--platform", "demo", "--once")

    assert answer.status == 0
    events = [getattr(record, "event", "") for record in caplog.records]
    assert events == ["started", "decided", "step-started", "step-ended", "executed"]


def test_events_are_lines_of_json_for_programs(
    opendrs: Opendrs, document: Document
) -> None:
    options = ("--platform", "demo", "--once", "--format", "json")

    answer = told(opendrs, document, *options)

    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert answer.status == 0
    assert {"time", "level", "event", "message"} <= lines[0].keys()
    assert [line["event"] for line in lines] == ["started", "agents-silent", "decided"]


def test_a_policy_that_counts_in_cycles_is_told_how_long_they_are() -> None:
    every_minute = ControllerSettings(interval=60)

    policy = policy_of(Settings(policy="consolidate", controller=every_minute))
    other = policy_of(Settings(policy="balance", controller=every_minute))

    assert isinstance(policy, Consolidate)
    assert policy.interval == 60
    assert isinstance(other, Balance)


def requests(**changes: object) -> Change:
    return lambda document, _: document["requests"].update(changes)


def garbled(document: Document, place: Path) -> None:
    (place / "garbled").write_text("nothing of that kind")
    document["requests"]["certificate"] = "garbled"


def foreign_key(document: Document, place: Path) -> None:
    document["requests"]["key"] = str(Vouched(place).settings.key)


def bad_tokens(document: Document, place: Path) -> None:
    (place / "garbled").write_text('h1 = "the-token-itself"')
    document["requests"]["tokens"] = "garbled"


@pytest.mark.parametrize("once", [[], ["--once"]])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            requests(certificate="absent.pem"),
            "requests.certificate: cannot read absent.pem: No such file",
        ),
        (requests(key="."), "requests.key: cannot read .: Is a directory"),
        (garbled, "expected a certificate and its private key in PEM"),
        (foreign_key, "the key is not that of the certificate"),
        (
            requests(tokens="absent.toml"),
            "requests.tokens: cannot read absent.toml: No such file",
        ),
        (
            bad_tokens,
            "requests.tokens: garbled: h1: expected the SHA-256 of a token: 64",
        ),
        (
            requests(listen="8443"),
            "opendrs.toml: requests: listen: expected ADDRESS:PORT",
        ),
        (
            requests(silence=0.0),
            "opendrs.toml: requests: silence: expected seconds above 0",
        ),
        (
            requests(keys="x"),
            "opendrs.toml: requests.keys: no such setting; did you mean key",
        ),
        (
            lambda document, _: document["requests"].pop("key"),
            "opendrs.toml: requests.key: is missing",
        ),
        (
            lambda document, _: document.update(policy={"name": "balance"}),
            "opendrs.toml: policy.name: [requests] goes with the policy consolidate",
        ),
        (
            lambda document, _: document.update(controller={"interval": 0}),
            "opendrs.toml: controller: interval: expected seconds above 0",
        ),
    ],
)
def test_what_it_cannot_be_run_with_is_told_and_nothing_is_written(
    opendrs: Opendrs,
    document: Document,
    change: Change,
    complaint: str,
    once: list[str],
) -> None:
    change(document, Path.cwd())

    answer = told(opendrs, document, "--platform", "demo", *once)

    assert answer.status == 2
    assert complaint in answer.err
    assert "Traceback" not in answer.err
    assert "the-token-itself" not in answer.err
    assert not Path("state").exists()


def test_a_port_that_is_taken_is_told(opendrs: Opendrs, document: Document) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        document["requests"]["listen"] = listen

        answer = told(opendrs, document, "--platform", "demo", "--level", "error")

    assert answer.status == 2
    assert answer.err == (
        f"opendrs: requests.listen: cannot listen on {listen}: "
        "somebody else does already\n"
    )


def test_a_platform_that_cannot_be_changed_is_refused(
    opendrs: Opendrs, document: Document
) -> None:
    answer = told(opendrs, document)

    assert answer.status == 2
    assert ".json is a snapshot in a file: it can be planned for" in answer.err


@pytest.mark.parametrize("names", [[], ["one", "two"]])
def test_which_platform_has_to_be_said_where_it_is_not_plain(
    opendrs: Opendrs, document: Document, names: list[str]
) -> None:
    document["platform"] = dict.fromkeys(names, document["platform"]["saved"])

    answer = told(opendrs, document)

    assert answer.status == 2
    assert "opendrs.toml: which platform? Say --platform NAME" in answer.err


@pytest.mark.parametrize(
    "command",
    [
        ("demo",),
        ("apply", "demo", "--yes"),
        ("run", "opendrs.toml", "--platform", "demo", "--once"),
    ],
    ids=lambda words: words[0],
)
def test_a_record_that_would_not_be_kept_is_refused(
    opendrs: Opendrs, command: tuple[str, ...]
) -> None:
    Path("opendrs.toml").write_text('[store]\npath = "record.sqlite"\n')

    answer = opendrs(*command)

    assert answer.status == 2
    assert "[store] path: demo ends with this process, and no record" in answer.err
    assert not Path("record.sqlite").exists()


def test_who_only_plans_for_the_demo_needs_no_record(opendrs: Opendrs) -> None:
    Path("opendrs.toml").write_text('[store]\npath = "record.sqlite"\n')

    assert opendrs("plan", "demo").status == 0
    assert opendrs("show", "demo").status == 0


@pytest.mark.parametrize("requests", [False, True])
@pytest.mark.parametrize("after", ["started", "decided"])
def test_a_demo_that_is_killed_leaves_nothing_behind(
    document: Document,
    tmp_path: Path,
    after: str,
    requests: bool,  # noqa: FBT001
) -> None:
    if not requests:
        del document["requests"]
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


def test_secrets_that_others_can_read_are_told_at_the_start(
    opendrs: Opendrs, document: Document, vouched: Vouched
) -> None:
    key = vouched.settings.key
    key.chmod(0o604)
    options = ("--platform", "demo", "--once", "--format", "json")
    try:
        answer = told(opendrs, document, *options)
    finally:
        key.chmod(0o600)

    first = json.loads(answer.err.splitlines()[0])
    assert answer.status == 0
    assert (first["event"], first["level"]) == ("file-exposed", "warning")
    assert (first["path"], first["mode"]) == (str(key), "0604")
    assert first["message"].endswith(f"run chmod o-r {key}")
