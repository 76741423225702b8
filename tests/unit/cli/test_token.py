"""opendrs token: a secret for the agent, and its hash for the controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.controller.requests.tokens import hash_of, read_tokens
from terminal import Opendrs


def test_what_is_shown_is_a_file_of_tokens(opendrs: Opendrs) -> None:
    answer = opendrs("token", "h 1")

    Path("tokens.toml").write_text(answer.out)
    (shown,) = [line for line in answer.out.splitlines() if line.startswith("#")]
    token = shown.rpartition(" ")[2]
    assert answer.status == 0
    assert read_tokens(Path("tokens.toml")).owner(token) == "h 1"


def test_a_token_that_goes_into_a_file_is_not_shown(opendrs: Opendrs) -> None:
    answer = opendrs("token", "h1", "-o", "h1.token")

    token = Path("h1.token").read_text().strip()
    assert Path("h1.token").stat().st_mode & 0o777 == 0o600
    assert answer.out == f'h1 = "{hash_of(token)}"\n'
    assert answer.err == ""


def test_programs_are_told_all_of_it(opendrs: Opendrs) -> None:
    told = json.loads(opendrs("token", "h1", "--format", "json").out)

    assert told == {
        "node": "h1",
        "token": told["token"],
        "sha256": hash_of(told["token"]),
    }


def test_a_token_that_is_there_is_never_overwritten(opendrs: Opendrs) -> None:
    Path("h1.token").write_text("the old one")

    answer = opendrs("token", "h1", "-o", "h1.token")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err == "opendrs: cannot write h1.token: File exists\n"
    assert Path("h1.token").read_text() == "the old one"


@pytest.mark.parametrize("node", ["", " ", "h1\nh2", "h1\x1b[2J", "h" * 256])
def test_what_cannot_be_the_name_of_a_node_gets_no_token(
    opendrs: Opendrs, node: str
) -> None:
    answer = opendrs("token", node, "-o", "h1.token")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(
        "opendrs: expected the name of a node: up to 255 characters of one line, found "
    )
    assert len(answer.err.splitlines()) == 1
    assert not Path("h1.token").exists()


def test_a_place_that_is_not_there_is_told(opendrs: Opendrs) -> None:
    answer = opendrs("token", "h1", "-o", "nowhere/h1.token")

    assert answer.status == 2
    assert "cannot write nowhere/h1.token: No such file or directory" in answer.err
