"""Whatever is handed to the command line, it answers in a few clear lines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opendrs.cli.main import run
from opendrs.config import snapshot_document
from support.strategies import snapshots

MAX_LINES = 12
MAX_CHECKED_LINES = (
    202  # `check` lists all errors and all warnings, up to a hundred each
)
COMMANDS = (
    ("show", "--guests"),
    ("plan",),
    ("plan", "--policy", "auto-rebalance", "--set", "hold=0"),
    ("check",),
    ("record", "-o", "copy.json"),
    ("apply", "--yes"),
)
SUMMARY_COMMANDS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -1, 0, 1e308, 5e-324, float("nan"), float("inf")])
    | st.floats()
    | st.text(max_size=8)
)
values = (
    scalars
    | st.lists(scalars, max_size=3)
    | st.dictionaries(st.text(max_size=5), scalars, max_size=3)
)
CONFIGURATION: dict[str, Any] = {
    "platform": {
        "lab": {"kind": "libvirt", "nodes": {"a": "qemu+tls://a/system"}},
        "saved": {"kind": "file", "path": "cluster.json"},
    },
    "policy": {
        "name": "auto-rebalance",
        "auto-rebalance": {"hold": 1, "threshold": 0.3, "load_model": "static"},
        "balance": {"max_migrations": 3, "allow_cold_migration": True},
    },
    "limits": {"cooldown": 0, "max_parallel_migrations": 1, "memory_headroom": 0.1},
    "rules": [
        {"kind": "affinity", "guests": ["a", "b"], "strict": True},
        {"kind": "node-affinity", "guests": ["a"], "nodes": {"n": 1}},
        {"kind": "exclusion", "tags": ["fixed"], "name": "x"},
    ],
    "store": {"path": "records.sqlite"},
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def assert_clear_result(*arguments: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run(arguments)

    said = err.getvalue()
    assert status in range(4), said
    assert "bug in opendrs" not in said, said
    assert "Traceback" not in out.getvalue() + said
    most = MAX_CHECKED_LINES if "check" in arguments else MAX_LINES
    assert len(said.splitlines()) <= most, said
    assert all(len(line) < 1000 for line in said.splitlines())
    assert said or status < 2


def key_paths(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield every container of *value* with each of its keys or positions."""
    keys = list(value) if isinstance(value, dict) else []
    keys += list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from key_paths(value[key])  # type: ignore[index]


@st.composite
def damaged(draw: st.DrawFn, origin: Callable[[st.DrawFn], Any]) -> Any:  # noqa: ANN401
    """Draw a document and change up to three places in it."""
    found = origin(draw)
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(key_paths(found))))
        change = draw(st.sampled_from(["replace", "remove", "rename"]))
        if change == "replace":
            holder[key] = draw(values)
        elif change == "remove":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(st.text(max_size=6))] = holder.pop(key)
        if not found:
            break
    return found


def drawn_snapshot(draw: st.DrawFn) -> Any:  # noqa: ANN401
    drawn = draw(snapshots(details=True) | snapshots())
    return json.loads(json.dumps(snapshot_document(drawn)))


def drawn_configuration(_: st.DrawFn) -> Any:  # noqa: ANN401
    return json.loads(json.dumps(CONFIGURATION))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_valid_snapshot_gives_a_clear_result(command: tuple[str, ...]) -> None:
    @SUMMARY_COMMANDS
    @given(snapshots(details=True) | snapshots())
    def holds(snapshot: Any) -> None:  # noqa: ANN401
        Path("cluster.json").write_text(json.dumps(snapshot_document(snapshot)))
        assert_clear_result(command[0], "cluster.json", *command[1:])

    holds()


@SUMMARY_COMMANDS
@given(damaged(drawn_snapshot), st.sampled_from(COMMANDS))
def test_damaged_snapshot_gives_a_clear_result(
    found: object, command: tuple[str, ...]
) -> None:
    Path("cluster.json").write_text(json.dumps(found))

    assert_clear_result(command[0], "cluster.json", *command[1:])


@SUMMARY_COMMANDS
@given(snapshots(), st.data())
def test_truncated_snapshot_gives_a_clear_result(
    snapshot: Any,  # noqa: ANN401
    data: st.DataObject,
) -> None:
    content = bytearray(json.dumps(snapshot_document(snapshot)).encode())
    del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(content)))
        content[place:place] = data.draw(st.binary(max_size=4))
    name = data.draw(st.sampled_from(["c.json", "c.toml", "c"]))
    Path(name).write_bytes(content)

    assert_clear_result("check", name)


@SUMMARY_COMMANDS
@given(damaged(drawn_configuration))
def test_damaged_configuration_gives_a_clear_result(found: object) -> None:
    Path("opendrs.json").write_text(json.dumps(found))

    assert_clear_result("check", "opendrs.json")
    assert_clear_result("plan", "demo", "--config", "opendrs.json")
    assert_clear_result("show", "saved", "--config", "opendrs.json")


@SUMMARY_COMMANDS
@given(st.data())
def test_truncated_configuration_gives_a_clear_result(data: st.DataObject) -> None:
    text = tomli_w.dumps(CONFIGURATION)
    start = data.draw(st.integers(0, len(text)))
    end = start + data.draw(st.integers(0, 20))
    Path("opendrs.toml").write_text(
        text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    )

    assert_clear_result("check", "opendrs.toml")
    assert_clear_result("plan", "demo")


@SUMMARY_COMMANDS
@given(st.binary(max_size=200), st.sampled_from(["c.json", "c.toml", "c"]))
def test_random_bytes_give_a_clear_result(content: bytes, name: str) -> None:
    Path(name).write_bytes(content)

    assert_clear_result("show", name)
    assert_clear_result("check", name)


words = st.text(max_size=10) | st.sampled_from(
    [
        *("show", "plan", "check", "record", "demo", "lab", "--set", "--policy"),
        *("--format", "json", "-o", "--config", "--seed", "--yes", "--every", "1"),
        *(
            "max_migrations=1",
            "threshold=nan",
            "hold=1e400",
            "load_model=static",
            "--count",
        ),
        *("\udcff", "a\0b", "x" * 5000, "/", ".", "/dev/null", "-", "--"),
    ]
)


@SUMMARY_COMMANDS
@given(st.lists(words, max_size=5))
def test_random_arguments_give_a_clear_result(arguments: list[str]) -> None:
    never_ends = "--every" in arguments and "--count" not in arguments

    # Without arguments, the answer is the help.
    assert_clear_result(*(["--no"] if never_ends or not arguments else arguments))


@SUMMARY_COMMANDS
@given(st.sampled_from(["balance", "auto-rebalance"]), st.text(max_size=8), values)
def test_random_settings_give_a_clear_result(
    policy: str, name: str, value: object
) -> None:
    options = ("--policy", policy, "--set", f"{name}={value}")
    near = (
        "--policy",
        policy,
        "--set",
        f"threshold={value}",
        "--set",
        f"load_model={value}",
    )

    assert_clear_result("plan", "demo", *options)
    assert_clear_result("plan", "demo", *near)


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 10_000_000,
        b"{" * 10_000_000,
        b'{"a":' * 2_000_000,
        b"[[" * 5_000_000,
        b"x = [" + b"1" * 10_000_000,
        b"a." * 5_000_000,
        b'"' * 10_000_000,
        b"\xff\xfe" * 5_000_000,
    ],
    ids=lambda content: repr(content[:5]),
)
@pytest.mark.parametrize("name", ["c.json", "c.toml"])
def test_ten_random_megabytes_give_a_clear_result(content: bytes, name: str) -> None:
    Path(name).write_bytes(content)

    assert_clear_result("show", name)
