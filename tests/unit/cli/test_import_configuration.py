"""opendrs import proxlb: written files, secrets, output and errors."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
import yaml

from support.terminal import RunOpendrs, run_opendrs_in_terminal

SECRET = "7d1f0c52-0000-4000-8000-00000000abcd"  # noqa: S105 - of the example
FINGERPRINT = ":".join(["AB"] * 32)
EXAMPLE: dict[str, dict[str, object]] = {
    "proxmox_api": {
        "hosts": ["n1.example", "n2.example:443"],
        "user": "lb@pve",
        "token_id": "mover",
        "token_secret": SECRET,
        "ssl_verification": False,
    },
    "proxmox_cluster": {"ignore_nodes": ["n4"], "ignore_guests": ["worker"]},
    "balancing": {"mode": "assigned", "balanciness": 12, "memory_threshold": 70},
    "service": {"schedule": {"interval": 45, "format": "minutes"}},
}


@pytest.fixture(autouse=True)
def _example(opendrs: RunOpendrs) -> None:
    del opendrs  # has changed to the directory of the test
    Path("proxlb.yaml").write_text(yaml.safe_dump(EXAMPLE), encoding="utf-8")


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_written_configuration_is_valid_and_has_no_secret(opendrs: RunOpendrs) -> None:
    result = opendrs("import", "proxlb", "proxlb.yaml", "--name", "lab")

    assert result.status == 0, result.err
    text = Path("opendrs.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    assert written["platform"]["lab"]["hosts"] == ["n1.example", "n2.example:443"]
    assert written["platform"]["lab"]["proxlb_tags"] is True
    assert written["policy"]["optimize"]["threshold"] == 0.12
    assert written["controller"]["interval"] == 2700
    assert SECRET not in text + result.out + result.err
    assert Path("lab-token").read_text(encoding="utf-8") == f"lb@pve!mover={SECRET}\n"
    assert mode("lab-token") == 0o600
    assert opendrs("check", "opendrs.toml").status == 0


def test_each_setting_is_one_line_of_output(opendrs: RunOpendrs) -> None:
    result = opendrs("import", "proxlb", "proxlb.yaml")

    lines = [line.split("\t")[:2] for line in result.out.splitlines() if "\t" in line]
    assert len(lines) == 1 + sum(map(len, EXAMPLE.values()))
    assert ["balancing.mode", "taken"] in lines
    assert ["balancing.balanciness", "differs"] in lines
    assert ["balancing.memory_threshold", "differs"] in lines
    assert ["proxmox_api.ssl_verification", "unsupported"] in lines


def test_terminal_breaks_no_name_of_a_setting(opendrs: RunOpendrs) -> None:
    del opendrs  # has changed to the directory of the test
    columns = 80

    lines = run_opendrs_in_terminal(
        "import", "proxlb", "proxlb.yaml", size=(columns, 24)
    ).lines

    text = "\n".join(lines)
    assert "proxmox_cluster.ignore_guests" in text
    assert "policy.optimize.load_model = static" in text
    assert max(map(len, lines)) <= columns


def test_settings_are_listed_as_json(opendrs: RunOpendrs) -> None:
    result = opendrs("import", "proxlb", "proxlb.yaml", "--format", "json")

    document = json.loads(result.out)
    assert (document["file"], document["platform"]) == ("opendrs.toml", "proxmox")
    assert document["secret_file"] == "proxmox-token"  # noqa: S105 - a name
    statuses = {each["field"]: each["status"] for each in document["settings"]}
    assert statuses["proxmox_api.ssl_verification"] == "unsupported"
    assert SECRET not in result.out


def test_certificates_to_trust_are_written(opendrs: RunOpendrs) -> None:
    Path("etc").mkdir()
    arguments = ["--fingerprint", FINGERPRINT, "-o", "etc/drs.toml"]

    result = opendrs("import", "proxlb", "proxlb.yaml", *arguments, "--format", "json")

    written = tomllib.loads(Path("etc/drs.toml").read_text(encoding="utf-8"))
    assert written["platform"]["proxmox"]["fingerprints"] == [FINGERPRINT]
    statuses = {
        each["field"]: each["status"] for each in json.loads(result.out)["settings"]
    }
    assert statuses["proxmox_api.ssl_verification"] == "differs"
    assert Path("etc/proxmox-token").exists()


def test_authority_is_written_relative_to_the_configuration(
    opendrs: RunOpendrs,
) -> None:
    Path("etc").mkdir()

    opendrs(
        "import", "proxlb", "proxlb.yaml", "--ca", "ca.pem", "-o", "etc/opendrs.toml"
    )

    written = tomllib.loads(Path("etc/opendrs.toml").read_text(encoding="utf-8"))
    assert written["platform"]["proxmox"]["ca"] == "../ca.pem"


@pytest.mark.parametrize("existing", ["opendrs.toml", "proxmox-token"])
def test_existing_file_is_not_replaced(opendrs: RunOpendrs, existing: str) -> None:
    Path(existing).write_text("# mine\n", encoding="utf-8")

    result = opendrs("import", "proxlb", "proxlb.yaml")

    assert (result.status, result.out) == (2, "")
    assert f"{existing}: the file exists; use --force" in result.err
    assert Path(existing).read_text(encoding="utf-8") == "# mine\n"
    assert sorted(each.name for each in Path().iterdir()) == sorted(
        ["proxlb.yaml", existing]
    )


def test_force_replaces_files_and_keeps_permissions(opendrs: RunOpendrs) -> None:
    for name, permissions in (("opendrs.toml", 0o640), ("proxmox-token", 0o644)):
        Path(name).write_text("# mine\n", encoding="utf-8")
        Path(name).chmod(permissions)

    result = opendrs("import", "proxlb", "proxlb.yaml", "--force")

    assert result.status == 0, result.err
    assert (mode("opendrs.toml"), mode("proxmox-token")) == (0o640, 0o600)
    assert SECRET in Path("proxmox-token").read_text(encoding="utf-8")
    assert opendrs("check", "opendrs.toml").status == 0


def test_errors_are_listed_and_nothing_is_written(opendrs: RunOpendrs) -> None:
    text = yaml.safe_dump(EXAMPLE).replace("assigned", "guessed")
    Path("proxlb.yaml").write_text(f"{text}solvr: {{}}\n", encoding="utf-8")

    table = opendrs("import", "proxlb", "proxlb.yaml")
    document = opendrs("import", "proxlb", "proxlb.yaml", "--format", "json")

    assert (table.status, document.status) == (2, 2)
    assert "proxlb.yaml: balancing.mode: expected" in table.err
    assert 'got "guessed"' in table.err
    assert "did you mean solver?" in table.err
    found = json.loads(document.out)["diagnostics"]
    assert [(each["field"], each["code"]) for each in found] == [
        ("balancing.mode", "unknown-value"),
        ("solvr", "unknown-key"),
    ]
    assert [each.name for each in Path().iterdir()] == ["proxlb.yaml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.yaml"], "cannot read missing.yaml"),
        (["."], "cannot read ."),
        (["proxlb.yaml", "--name", "../lab"], "invalid name of a platform"),
        (["proxlb.yaml", "--fingerprint", "AB"], "64 hexadecimal digits"),
        (["proxlb.yaml", "-o", "missing/opendrs.toml"], "No such file"),
        (["proxlb.yaml", "-o", "x" * 300], "too long"),
        (["proxlb.yaml", "-o", "/dev/null", "--force"], "expected a regular file"),
    ],
)
def test_invalid_arguments_change_nothing(
    opendrs: RunOpendrs, arguments: list[str], message: str
) -> None:
    result = opendrs("import", "proxlb", *arguments)

    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert [each.name for each in Path().iterdir()] == ["proxlb.yaml"]
