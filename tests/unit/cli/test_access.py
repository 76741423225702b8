"""opendrs access: tokens of the HTTP API at the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import RunOpendrs

CONFIG = """
[platform.lab]
kind = "file"
path = "cluster.json"
"""


@pytest.fixture(autouse=True)
def configured(opendrs: RunOpendrs) -> None:
    del opendrs  # changes the directory
    Path("opendrs.toml").write_text(CONFIG)


def test_token_is_created_listed_and_revoked(opendrs: RunOpendrs) -> None:
    created = opendrs("access", "create", "lab", "--name", "ada", "--role", "operator")
    secret = created.out.strip()
    assert created.status == 0
    assert secret.startswith("odrs_")
    assert "not shown again" in created.err

    listed = opendrs("access", "list", "lab", "--format", "json")
    (token,) = json.loads(listed.out)
    assert secret not in listed.out
    assert (token["name"], token["role"]) == ("ada", "operator")
    assert token["id"] == secret.split("_")[1]
    assert token["last_used_at"] is None

    assert opendrs("access", "revoke", "lab", token["id"]).status == 0
    table = opendrs("access", "list", "lab").out
    assert "revoked" in table
    again = opendrs("access", "revoke", "lab", token["id"])
    assert (again.status, "revoked before" in again.err) == (2, True)
    unknown = opendrs("access", "revoke", "lab", "nobody")
    assert (unknown.status, "no such token" in unknown.err) == (2, True)


def test_secret_is_in_the_json_of_a_new_token(opendrs: RunOpendrs) -> None:
    words = ("--name", "grafana", "--for", "365d", "--format", "json")
    answer = opendrs("access", "create", "lab", *words)

    document = json.loads(answer.out)
    assert document["role"] == "viewer"
    assert document["secret"].startswith(f"odrs_{document['id']}_")


@pytest.mark.parametrize(
    "words",
    [
        ("--name", "ada", "--role", "owner"),
        ("--name", "ada", "--for", "0"),
        ("--name", "ada", "--for", "nan"),
        ("--name", "ada", "--for", "11 years"),
        (),
    ],
)
def test_invalid_tokens_are_rejected(
    opendrs: RunOpendrs, words: tuple[str, ...]
) -> None:
    assert opendrs("access", "create", "lab", *words).status == 2
    assert "no tokens" in opendrs("access", "list", "lab").out


def test_link_signs_in_at_the_configured_address(opendrs: RunOpendrs) -> None:
    own = opendrs("access", "link", "lab").out
    other = opendrs("access", "link", "lab", "--address", "https://drs.example/").out

    assert own.startswith("http://127.0.0.1:8470/#login=odrs_")
    assert other.startswith("https://drs.example/#login=odrs_")
    tokens = json.loads(opendrs("access", "list", "lab", "--format", "json").out)
    assert [token["single_use"] for token in tokens] == [True, True]


def test_unknown_platforms_are_rejected(opendrs: RunOpendrs) -> None:
    assert opendrs("access", "list", "other").status == 2
    assert opendrs("serve", "opendrs.toml", "--platform", "other").status == 2


def test_serving_process_does_not_load_numba() -> None:
    program = (
        "import sys\n"
        "from opendrs.cli.main import run\n"
        "import opendrs.api.web_server, opendrs.cli.web_context\n"
        "assert run(['serve', '--help']) == 0\n"
        "loaded = {'numba', 'llvmlite', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)  # noqa: S603 - our own program
