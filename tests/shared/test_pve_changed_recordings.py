"""Recorded answers of Proxmox VE with other names, values, orders and missing fields.

Other clusters answer like the recorded one, in other words. Whatever they answer, an
observation is a snapshot or an error of the platform, and nothing is invented.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from opendrs.config.snapshot_reading import snapshot_from
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import PlatformError
from opendrs.model import GuestId, LiveMigration, NodeId, Snapshot
from opendrs.platforms.proxmox import ProxmoxPlatform, ProxmoxSettings
from opendrs.platforms.proxmox.client import ApiHost
from opendrs.platforms.proxmox.errors import ApiAnswer
from support.https_server import Request
from support.pve_player import PREFIX, PvePlayer, Recording, positions
from support.pve_recordings import (
    LAB_LOGIN,
    assert_consistent,
    is_recorded,
    recordings,
)

pytestmark = pytest.mark.shared
SEEDS = range(12)
CHANGED = 0.04  # share of the values of an answer
# The number of a guest, in paths, ids and fields.
_NUMBER = re.compile(
    r'((?:qemu|lxc|vms|qemu-server)\\?/|vm:|ct:|migrate:|vm |vmid\\?": ?"?)(\d{3})\b'
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, "", "x", " ", "é\n", "1", "0", "1e999", "nan", "-1", "100"),
    *(0, 1, -1, 1.5, 10**30, -(10**30), float("inf"), float("nan"), True, False),
    *([], {}, [None], [[]], {"a": 1}, {"": None}),
)
Change = Callable[[object], object]


@pytest.fixture(params=recordings())
def text(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the text of a recording."""
    monkeypatch.setenv("PVE_TOKEN", LAB_LOGIN)
    path: Path = request.param
    return path.read_text()


@pytest.fixture
def play(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[PvePlayer, Change], ProxmoxPlatform]]:
    """Return a function that creates a platform with the changed answers of a player.

    The answers are given in this process, without a connection.
    """
    created: list[ProxmoxPlatform] = []

    def create(player: PvePlayer, change: Change) -> ProxmoxPlatform:
        def send(  # noqa: PLR0913, PLR0917 - as the method
            host: ApiHost,
            method: str,
            path: str,
            parameters: Mapping[str, str | int],
            headers: Mapping[str, str],
            timeout: float,
        ) -> ApiAnswer:
            del host, headers, timeout
            query = tuple((name, str(value)) for name, value in parameters.items())
            answer = player.respond(Request(method, PREFIX + path, query, {}, b""))
            return ApiAnswer(answer.status, answer.reason, changed(answer.body, change))

        monkeypatch.setattr(ApiHost, "send", send)
        settings = ProxmoxSettings(hosts=("pve1",), token_env="PVE_TOKEN")  # noqa: S106
        created.append(ProxmoxPlatform("lab", settings))
        return created[-1]

    yield create
    for platform in created:
        platform.close()


def changed(body: bytes, change: Change) -> bytes:
    """Return an answer with its data changed; other answers as they are."""
    try:
        document = json.loads(body)
    except ValueError:
        return body
    if not isinstance(document, dict) or document.get("data") is None:
        return body
    return json.dumps({**document, "data": change(document["data"])}).encode()


def same(data: object) -> object:
    return data


def shuffled(source: random.Random) -> Change:
    """Return a change of the order of lists and of the keys of objects."""

    def change(data: object) -> object:
        if isinstance(data, dict):
            keys = source.sample(list(data), len(data))
            return {key: change(data[key]) for key in keys}
        if isinstance(data, list):
            return [change(each) for each in source.sample(data, len(data))]
        return data

    return change


def damaged(source: random.Random) -> Change:
    """Return a change that removes and replaces values, and repeats rows."""

    def change(data: object) -> object:
        chance = source.random()
        if chance < CHANGED:
            return source.choice(ODD_VALUES)
        if isinstance(data, dict):
            return {
                key: change(value)
                for key, value in data.items()
                if source.random() > CHANGED
            }
        if isinstance(data, list):
            rows = [change(each) for each in data]
            return rows + (rows[:1] if chance > 1 - CHANGED else [])
        return data

    return change


def as_text(data: object) -> object:
    """Return *data* with numbers as text, as some calls report them."""
    if isinstance(data, dict):
        return {key: as_text(value) for key, value in data.items()}
    if isinstance(data, list):
        return [as_text(each) for each in data]
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return str(data) if is_number else data


def observed(platform: ProxmoxPlatform) -> Snapshot | PlatformError:
    """Return what *platform* observes, or why it cannot."""
    try:
        return platform.observe()
    except PlatformError as error:
        return error


def without_time(seen: Snapshot | PlatformError) -> object:
    if isinstance(seen, PlatformError):
        return type(seen)
    document = snapshot_document(seen)
    document.pop("taken_at")
    by_id = json.loads(json.dumps(document))
    for key in ("nodes", "guests", "rules"):
        rows = by_id.get(key, [])
        by_id[key] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return by_id


def test_other_nodes_numbers_and_versions_are_read_as_the_recorded_ones(
    text: str, play: Callable[[PvePlayer, Change], ProxmoxPlatform]
) -> None:
    names = tuple(json.loads(text)["state"]["load"])
    others = {name: f"Node-{number}x" for number, name in enumerate(names)}
    pattern = rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])"
    text = re.sub(pattern, lambda match: others[match[0]], text)
    text = text.replace("9.2.11", "9.1.4")
    other = _NUMBER.sub(lambda match: f"{match[1]}{match[2]}777", text)
    player = PvePlayer(Recording.parse(json.loads(other)))

    for position in positions(player.recording.pairs, 4):
        player.position = position
        seen = observed(play(player, same))

        if isinstance(seen, PlatformError):
            assert is_recorded(player, seen)
        else:
            assert_consistent(player, seen)
            assert {*seen.nodes} <= {*others.values()}


@pytest.mark.parametrize("variant", ["order", "text"])
def test_order_of_rows_and_numbers_as_text_mean_the_same(
    text: str, play: Callable[[PvePlayer, Change], ProxmoxPlatform], variant: str
) -> None:
    player = PvePlayer(Recording.parse(json.loads(text)))
    change = as_text if variant == "text" else shuffled(random.Random(1))  # noqa: S311

    for position in positions(player.recording.pairs, 4):
        player.position = position

        plain, other = observed(play(player, same)), observed(play(player, change))

        assert without_time(other) == without_time(plain)


def test_damaged_answers_give_a_valid_snapshot_or_an_error(
    text: str, play: Callable[[PvePlayer, Change], ProxmoxPlatform]
) -> None:
    player = PvePlayer(Recording.parse(json.loads(text)))

    for seed in SEEDS:
        source = random.Random(seed)  # noqa: S311 - repeatable
        player.position = source.choice(player.recording.pairs).index
        platform = play(player, damaged(source))

        seen = observed(platform)

        if isinstance(seen, Snapshot):
            document = json.loads(json.dumps(snapshot_document(seen)))
            assert snapshot_from(document, "test") == seen
        query_status(platform, seen)


def query_status(platform: ProxmoxPlatform, seen: Snapshot | PlatformError) -> None:
    """Query migrations of guests; only errors of the platform are expected."""
    guests = seen.guests.values() if isinstance(seen, Snapshot) else ()
    moves = [LiveMigration(guest.id, guest.node, NodeId("pve2")) for guest in guests]
    moves.append(LiveMigration(GuestId("web100"), NodeId("pve1"), NodeId("pve2")))
    for move in moves[-2:]:
        with suppress(PlatformError):
            platform.status(platform.find(move))
