"""opendrs serve: its imports, and a table [web.oidc] that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import RunOpendrs

CONFIG = """
[platform.lab]
kind = "file"
path = "cluster.json"
[web]
listen = "127.0.0.1:0"
[web.oidc]
issuer = "http://127.0.0.1:9"
client_id = "opendrs"
client_secret_file = "secret"
address = "http://127.0.0.1:8470"
viewer = ["staff"]
"""


@pytest.fixture(autouse=True)
def configured(opendrs: RunOpendrs) -> None:
    del opendrs  # changes the directory
    Path("opendrs.toml").write_text(CONFIG)
    Path("cluster.json").write_text(
        '{"format": "opendrs-snapshot/1", "nodes": {}, "guests": {}}'
    )


def test_serve_without_the_library_names_the_installation(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)  # as if not installed
    Path("secret").write_text("hunter2")

    done = opendrs("serve", "opendrs.toml")

    assert (done.status, "pip install '.[oidc]'" in done.err) == (2, True)


def test_serve_without_the_secret_names_the_file(opendrs: RunOpendrs) -> None:
    done = opendrs("serve", "opendrs.toml")

    assert (done.status, "web.oidc.client_secret_file" in done.err) == (2, True)


def test_check_without_the_library_names_the_table(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)

    done = opendrs("check", "opendrs.toml")

    assert done.status != 0
    assert "web.oidc" in done.out + done.err
    assert "pip install '.[oidc]'" in done.out + done.err


def test_serve_imports_no_compiler() -> None:
    """Its service denies memory that is both writable and executable."""
    program = (
        "import sys, opendrs.api.web_server, opendrs.cli.serve, opendrs.cli.web_context"
        "; print(sorted({'numba', 'llvmlite'} & set(sys.modules)))"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
