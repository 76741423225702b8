"""The contract in the reference of the command platform, run against the adapter."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config.settings_reading import read_settings
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    Action,
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
)
from opendrs.platforms.command import CommandPlatform, CommandPlatformSettings
from opendrs.ports import TaskId, TaskState

PAGE = Path(__file__).parents[4] / "docs/reference/command-platform.md"
NODE, GUEST = NodeId("h1"), GuestId("web1")
MOVE = LiveMigration(GUEST, NODE, NodeId("h2"))
TASK = TaskId("ID")
MEANINGS: dict[str, type[PlatformError]] = {
    "not supported": UnsupportedError,
    "temporarily unavailable": PlatformUnavailableError,
    "permission denied": PermissionDeniedError,
    "error": PlatformError,
}


def rows(columns: int) -> list[list[str]]:
    """Return the rows of the tables with *columns* columns, without headings."""
    found = [
        [cell.strip().strip("`") for cell in line.strip("|\n").split(" | ")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and not line.startswith("|-")
    ]
    return [row for row in found[1:] if len(row) == columns]


REQUESTS = {row[0]: (row[1], row[2]) for row in rows(3) if row[0] in {"start", "find"}}
STATUSES = {row[0]: row[1] for row in rows(3) if row[0].isdigit() or row[0] == "other"}


def platform_with(tmp_path: Path, output: str = "", status: int = 0) -> CommandPlatform:
    """Return a platform whose program records its request and prints *output*."""
    script = (
        "import pathlib, sys; "
        f"pathlib.Path({str(tmp_path / 'request')!r}).write_text("
        "sys.argv[1] + ' ' + sys.stdin.read()); "
        f"print({output!r}); sys.exit({status})"
    )
    program = (sys.executable, "-c", script)
    settings = CommandPlatformSettings(snapshot_command=program, action_command=program)
    return CommandPlatform("pool", settings)


def request(tmp_path: Path) -> tuple[str, object]:
    """Return the argument and the standard input of the last request."""
    word, _, text = (tmp_path / "request").read_text().partition(" ")
    return word, json.loads(text)


def test_configuration_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"(?:^    .*\n)+", PAGE.read_text(), re.MULTILINE)
    path = tmp_path / "opendrs.toml"
    path.write_text(re.sub(r"^    ", "", block, flags=re.MULTILINE))

    settings = read_settings(path, PLATFORMS).connection("pool").settings

    assert isinstance(settings, CommandPlatformSettings)
    table = tomllib.loads(path.read_text())["platform"]["pool"]
    assert list(settings.snapshot_command) == table["snapshot_command"]
    assert settings.timeout == 60


def test_start_sends_and_accepts_what_the_page_shows(tmp_path: Path) -> None:
    sent, answer = REQUESTS["start"]

    task = platform_with(tmp_path, answer).start(MOVE)

    assert task == TASK
    assert request(tmp_path) == ("start", json.loads(sent))


def test_find_sends_the_same_and_accepts_both_answers(tmp_path: Path) -> None:
    assert REQUESTS["find"][0] == "the same"
    found, missing = re.findall(r"\{[^}]*\}", REQUESTS["find"][1])

    assert platform_with(tmp_path, found).find(MOVE) == TASK
    platform = platform_with(tmp_path, missing)
    assert platform.status(platform.find(MOVE)).state is TaskState.LOST
    assert request(tmp_path) == ("find", json.loads(REQUESTS["start"][0]))


def test_status_and_abort_send_the_task(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (status,) = re.findall(r"\| `status` \| `(.*?)` \| `(.*?)` \|", text)
    (abort,) = re.findall(r"\| `abort` \| `(.*?)` \| nothing \|", text)

    assert platform_with(tmp_path, status[1]).status(TASK).state is TaskState.RUNNING
    assert request(tmp_path) == ("status", json.loads(status[0]))
    platform_with(tmp_path).abort(TASK)
    assert request(tmp_path) == ("abort", json.loads(abort))


def test_each_state_of_the_page_is_accepted(tmp_path: Path) -> None:
    sentence = re.search(r"- `state` is (.*?)\. `detail`", PAGE.read_text(), re.DOTALL)
    assert sentence is not None

    for word in re.findall(r"`(\w+)`", sentence[1].replace("`opendrs`", "")):
        answer = json.dumps({"state": word, "detail": "text"})
        status = platform_with(tmp_path, answer).status(TASK)
        assert (status.state, status.detail) == (TaskState(word), "text")


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (MOVE, "live-migration"),
        (ColdMigration(GUEST, NODE, NodeId("h2")), "cold-migration"),
        (PowerOn(NODE), "power-on"),
        (PowerOff(NODE), "power-off"),
    ],
)
def test_each_kind_of_action_of_the_page_is_sent(
    tmp_path: Path, action: Action, kind: str
) -> None:
    platform_with(tmp_path, '{"task": "ID"}').start(action)

    _, sent = request(tmp_path)

    assert isinstance(sent, dict)
    assert f"`{kind}`" in PAGE.read_text()
    assert sent["kind"] == kind
    names = {"node"} if kind.startswith("power") else {"guest", "source", "target"}
    assert sent.keys() == {"kind"} | names


def test_each_exit_status_of_the_page_has_its_meaning(tmp_path: Path) -> None:
    assert STATUSES.pop("0") == "success"
    for status, meaning in STATUSES.items():
        platform = platform_with(tmp_path, status=int(status.replace("other", "3")))

        with pytest.raises(MEANINGS[meaning]) as caught:
            platform.start(MOVE)
        assert type(caught.value) is MEANINGS[meaning]
