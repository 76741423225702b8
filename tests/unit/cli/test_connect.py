"""opendrs connect and check --online: dialog, checks, written configuration."""

from __future__ import annotations

import io
import json
import stat
import tomllib
from pathlib import Path

import pytest
import tomli_w

from opendrs.cli.connect import TerminalQuestioner
from opendrs.cli.secret_files import SecretFiles
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import ConfigurationError
from support import command_cluster
from support.builders import cluster
from support.terminal import CommandResult, RunOpendrs

ORIGIN = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.3)})


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "state.json"
    command_cluster.create(path, snapshot_document(ORIGIN), {})
    return " ".join(command_cluster.command(path))


def answer(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[str],
    *arguments: str,
) -> CommandResult:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, ""])))
    return opendrs("connect", *arguments)


def test_connect_writes_configuration_with_which_cluster_is_planned(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    answers = [f"{program} snapshot", program]

    result = answer(opendrs, monkeypatch, answers, "command", "--name", "pool")

    assert result.status == 0
    written = tomllib.loads(Path("opendrs.toml").read_text(encoding="utf-8"))
    assert set(written["platform"]["pool"]) == {
        "kind",
        "snapshot_command",
        "action_command",
    }
    assert opendrs("plan", "pool").status == 0


def test_connect_keeps_existing_text(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    before = '# mine\n[policy]\nname = "balance"\n'
    Path("opendrs.toml").write_text(before, encoding="utf-8")

    result = answer(
        opendrs, monkeypatch, [f"{program} snapshot", ""], "command", "--name", "pool"
    )

    assert result.status == 0
    assert Path("opendrs.toml").read_text(encoding="utf-8").startswith(before)
    assert opendrs("check", "opendrs.toml").status == 0


def test_connect_rejects_name_of_existing_platform(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("opendrs.toml").write_text('[platform.pool]\nkind = "file"\n')

    result = answer(opendrs, monkeypatch, [], "command", "--name", "pool")

    assert (result.status, result.out) == (2, "")
    assert "platform.pool: exists already" in result.err


@pytest.mark.parametrize("kind", ["vcenter", "file"])
def test_connect_rejects_kind_without_questions(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert answer(opendrs, monkeypatch, [], kind).status == 2
    assert not Path("opendrs.toml").exists()


def test_connect_writes_nothing_if_settings_are_invalid(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = answer(opendrs, monkeypatch, [" ", ""], "command")

    assert result.status == 2
    assert not Path("opendrs.toml").exists()


@pytest.mark.parametrize(
    ("before", "answers", "limits"),
    [
        ("", ["y"], {"migrate_local_disks": True}),
        ("", ["n"], None),
        ("[limits]\nmin_uptime = 5\n", [], {"min_uptime": 5}),
    ],
)
def test_connect_allows_copies_of_disks_unless_limits_are_configured(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    answers: list[str],
    limits: dict[str, object] | None,
) -> None:
    Path("opendrs.toml").write_text(before, encoding="utf-8")
    monkeypatch.setattr("opendrs.cli.connect.check_online", lambda _: iter(()))
    given = ["/socket", "default", "auto", *answers]

    answer(opendrs, monkeypatch, given, "incus", "--name", "lab")

    written = tomllib.loads(Path("opendrs.toml").read_text(encoding="utf-8"))
    assert written["platform"]["lab"].keys() == {
        "kind",
        "socket",
        "projects",
        "rebalancer",
    }
    assert written.get("limits") == limits


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("incus", {"socket": "/socket"}),
        ("proxmox", {"hosts": ["pve1"], "token_env": "T"}),
    ],
)
def test_check_names_the_setting_that_replaces_local_disks(
    opendrs: RunOpendrs, kind: str, settings: dict[str, object]
) -> None:
    table = {"kind": kind, "local_disks": True, **settings}
    document = {"platform": {"lab": table}}
    Path("opendrs.toml").write_text(tomli_w.dumps(document), encoding="utf-8")

    result = opendrs("check", "opendrs.toml")

    assert result.status == 2
    assert "platform.lab.local_disks: " in result.err
    assert "limits.migrate_local_disks" in result.err


@pytest.mark.parametrize(("confirmation", "written"), [("y", True), ("n", False)])
def test_connect_asks_before_it_writes_settings_that_fail(
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    confirmation: str,
    *,
    written: bool,
) -> None:
    answers = ["/missing/program", "", confirmation]

    result = answer(opendrs, monkeypatch, answers, "command")

    assert result.status == 1
    assert "FAILED" in result.out
    assert Path("opendrs.toml").exists() is written
    assert ("next: opendrs check opendrs.toml --online" in result.out) is written


def test_secret_is_written_to_file_of_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda *_: "s3cret")
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "s3cret")
    questioner = TerminalQuestioner(tmp_path, "pve")

    path = questioner.secret("token", "Token")

    assert path == Path("pve-token")
    written = tmp_path / path
    assert written.read_text(encoding="utf-8") == "s3cret\n"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert "s3cret" not in "".join(capsys.readouterr())
    with pytest.raises(ConfigurationError, match="pve-token: cannot be created"):
        questioner.secret("token", "Token")


def test_connect_rejects_name_that_leaves_the_directory_before_it_asks(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = answer(opendrs, monkeypatch, [], "command", "--name", "../lab")

    assert result.status == 2
    assert "--name: invalid name of a platform" in result.err


def test_secret_is_not_written_to_directory_of_devices() -> None:
    with SecretFiles(Path("/dev"), "lab") as files, pytest.raises(ConfigurationError):
        files.write("token", "hunter2")

    assert not Path("/dev/lab-token").exists()


@pytest.mark.parametrize("completed", [True, False])
def test_secret_of_dialog_that_is_not_completed_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, completed: bool
) -> None:
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: "s3cret")

    with TerminalQuestioner(tmp_path, "pve") as questioner:
        questioner.secret("token", "Token")
        if completed:
            questioner.keep_secrets()

    assert (tmp_path / "pve-token").exists() is completed


def test_connect_names_file_that_cannot_be_written(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    answers = [f"{program} snapshot", ""]

    result = answer(opendrs, monkeypatch, answers, "command", "-o", "missing/x.toml")

    assert result.status == 2
    assert "cannot write missing/x.toml: No such file" in result.err


def test_connect_libvirt_writes_uris_for_this_machine_and_for_other_nodes(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libvirt")
    answers = ["h1", "test:///default", "qemu+ssh://h1/system", "", "/guest"]

    result = answer(opendrs, monkeypatch, answers, "libvirt", "--name", "lab")

    assert result.status == 0, result
    written = tomllib.loads(Path("opendrs.toml").read_text(encoding="utf-8"))
    assert written["platform"]["lab"] == {
        "kind": "libvirt",
        "nodes": {"h1": "test:///default"},
        "migration_uris": {"h1": "qemu+ssh://h1/system"},
        "shared_storage": ["/guest"],
    }
    assert opendrs("show", "lab").status == 0


def configuration(*command: str) -> None:
    program = json.dumps([*command, "snapshot"])
    Path("opendrs.toml").write_text(
        f'[platform.pool]\nkind = "command"\nsnapshot_command = {program}\n'
    )


def test_online_check_of_platform_that_answers_succeeds(
    opendrs: RunOpendrs, program: str
) -> None:
    configuration(*program.split())

    result = opendrs("check", "opendrs.toml", "--online", "--format", "json")

    assert result.status == 0
    assert json.loads(result.out)["online"] == [
        {
            "platform": "pool",
            "subject": "observation",
            "ok": True,
            "detail": "2 nodes, 1 guest",
            "remedy": "",
        }
    ]


def test_online_check_of_platform_that_fails_has_status_1(opendrs: RunOpendrs) -> None:
    configuration("/missing")

    table = opendrs("check", "opendrs.toml", "--online")
    document = json.loads(
        opendrs("check", "opendrs.toml", "--online", "--format", "json").out
    )

    assert table.status == 1
    assert "pool\tconnection\tFAILED" in table.out
    assert table.out.endswith(": 1 check failed\n")
    assert [each["ok"] for each in document["online"]] == [False]
    assert document["valid"] is False


def test_online_check_requires_configuration(opendrs: RunOpendrs) -> None:
    Path("cluster.json").write_text(
        '{"format": "opendrs-snapshot/1", "taken_at": "2026-11-21T12:00:00Z", '
        '"nodes": {}, "guests": {}}'
    )

    result = opendrs("check", "cluster.json", "--online")

    assert (result.status, result.out) == (2, "")
