"""opendrs token: a secret for the agent, and its hash for the controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.api.tokens import hash_token, read_tokens
from support.terminal import RunOpendrs


def test_output_is_a_token_file(opendrs: RunOpendrs) -> None:
    answer = opendrs("token", "h 1")

    Path("tokens.toml").write_text(answer.out)
    (shown,) = [line for line in answer.out.splitlines() if line.startswith("#")]
    token = shown.rpartition(" ")[2]
    assert answer.status == 0
    assert read_tokens(Path("tokens.toml")).owner(token) == "h 1"


def test_a_token_that_goes_into_a_file_is_not_shown(opendrs: RunOpendrs) -> None:
    answer = opendrs("token", "h1", "-o", "h1.token")

    token = Path("h1.token").read_text().strip()
    assert Path("h1.token").stat().st_mode & 0o777 == 0o600
    assert answer.out == f'h1 = "{hash_token(token)}"\n'
    assert answer.err == ""


def test_json_has_token_and_hash(opendrs: RunOpendrs) -> None:
    output = json.loads(opendrs("token", "h1", "--format", "json").out)

    assert output == {
        "node": "h1",
        "token": output["token"],
        "sha256": hash_token(output["token"]),
    }


def test_existing_token_is_not_overwritten(opendrs: RunOpendrs) -> None:
    Path("h1.token").write_text("the old one")

    answer = opendrs("token", "h1", "-o", "h1.token")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("opendrs: h1.token: the file exists; ")
    assert Path("h1.token").read_text() == "the old one"


@pytest.mark.parametrize("node", ["", " ", "h1\nh2", "h1\x1b[2J", "h" * 256])
def test_invalid_node_name_is_rejected(opendrs: RunOpendrs, node: str) -> None:
    answer = opendrs("token", node, "-o", "h1.token")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(
        "opendrs: expected the name of a node: up to 255 characters of one line, got "
    )
    assert len(answer.err.splitlines()) == 1
    assert not Path("h1.token").exists()


def test_missing_directory_is_reported(opendrs: RunOpendrs) -> None:
    answer = opendrs("token", "h1", "-o", "nowhere/h1.token")

    assert answer.status == 2
    assert "nowhere/h1.token: cannot write: No such file or directory" in answer.err
