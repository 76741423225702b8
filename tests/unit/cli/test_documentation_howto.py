"""Execution of the commands in the how-to about agents."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest

from opendrs.api.server import ApiServer
from opendrs.cli.configuration import load_settings
from opendrs.config.settings import ApiSettings
from opendrs.platforms.libvirt import LibvirtSettings
from support.agent_cluster import AgentCluster, put_request
from support.builders import cluster

PAGE = Path(__file__).parents[3] / "docs/how-to/consolidate-with-agents.md"


def code_blocks(kind: str) -> list[str]:
    """Return what stands on the page as code of that kind."""
    return re.findall(
        rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )


def run_commands(text: str, place: Path) -> None:
    """Do *text* as a shell does, where `opendrs` is this one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(  # noqa: S603 - what our own page says
        ["/bin/sh", "-e", "-c", text],
        cwd=place,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
    )


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_howto_certificates_and_tokens_are_accepted(tmp_path: Path) -> None:
    certificates, tokens, _ = code_blocks("sh")
    run_commands(certificates.replace("drs.example", "localhost"), tmp_path)
    run_commands(tokens, tmp_path)
    settings = ApiSettings(
        certificate=tmp_path / "controller.pem",
        key=tmp_path / "controller.key",
        tokens=tmp_path / "tokens.toml",
        listen="127.0.0.1:0",
    )
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    trust.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on
    token = (tmp_path / "beta.token").read_text().strip()

    with (
        AgentCluster(tmp_path, cluster({"beta": 0.5}, {})) as hall,
        ApiServer(settings, hall.service) as server,
        httpx2.Client(verify=trust, trust_env=False, timeout=60) as client,
    ):
        client.base_url = httpx2.URL(f"https://localhost:{server.address[1]}")
        client.headers["Authorization"] = f"Bearer {token}"
        answer = put_request(client, hall.build_request("beta"))

    assert answer.status_code == 202
    for secret in ("beta.token", "controller.key", "ca.key"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0


def test_howto_configurations_are_valid(tmp_path: Path) -> None:
    read = []
    for number, text in enumerate(code_blocks("toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        read.append(load_settings(path))
    controller, agent, simulated = read

    assert controller.api is not None
    assert simulated.api is not None
    assert agent.agent is not None
    address = f"https://drs.example:{controller.api.address[1]}"
    assert agent.agent.controller == address
    nodes = controller.connection("lab").settings
    assert isinstance(nodes, LibvirtSettings)
    assert agent.agent.node in nodes.nodes
    assert not tomllib.loads(code_blocks("toml")[0])["policy"]["consolidate"][
        "manage_power"
    ]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd"
)
def test_howto_systemd_units_are_valid(tmp_path: Path) -> None:
    names = ("opendrs.service", "opendrs-agent.service")
    for name, text in zip(names, code_blocks("ini"), strict=True):
        unit = tmp_path / name
        unit.write_text(text.replace("/opt/opendrs/bin/opendrs", sys.executable))

        output = subprocess.run(  # noqa: S603 - our own words
            ["systemd-analyze", "verify", str(unit)],  # noqa: S607 - wherever it is
            capture_output=True,
            text=True,
            check=False,
        )

        assert (output.returncode, output.stderr) == (0, "")
