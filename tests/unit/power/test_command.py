"""Power by commands: what is run, and what its end means."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.libvirt_lab import eventually
from opendrs.errors import PermissionDeniedError, PlatformError
from opendrs.model import NodeId
from opendrs.power import PowerCommandSettings, PowerState
from opendrs.power.command import CommandDriver

H1 = NodeId("h1")


def program(text: str) -> tuple[str, ...]:
    """Return the words that run *text* in this Python."""
    return (sys.executable, "-c", text)


def driver(node: NodeId = H1, **changes: Any) -> CommandDriver:  # noqa: ANN401
    plain: dict[str, Any] = {"on_command": ("true",), "off_command": ("true",)}
    plain["timeout"] = 120.0
    return CommandDriver(node, PowerCommandSettings(**{**plain, **changes}))


def test_arguments_reach_the_program_unchanged(tmp_path: Path) -> None:
    reported = tmp_path / "told"
    write_arguments = program(
        f"import sys; open({str(reported)!r}, 'w').write('|'.join(sys.argv[1:]))"
    )
    words = (*write_arguments, "{node}", "{mac};x", "$HOME *", "{{node}}")
    variables = {"mac": "52:54 00"}

    driver(on_command=words, variables=variables).on()

    assert reported.read_text() == "h1|52:54 00;x|$HOME *|{node}"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (0, PowerState.ON),
        (1, PowerState.OFF),
        (2, PowerState.UNKNOWN),
        (255, PowerState.UNKNOWN),
    ],
)
def test_exit_status_is_the_power_state(status: int, state: PowerState) -> None:
    assert driver(state_command=program(f"raise SystemExit({status})")).state() is state


def test_without_a_command_the_state_is_unknown() -> None:
    assert driver().state() is PowerState.UNKNOWN


def test_off_confirm_time_applies_without_state_command() -> None:
    assert driver(off_confirm_time=7.0).off_confirm_time == 7.0
    assert (
        driver(off_confirm_time=7.0, state_command=("true",)).off_confirm_time is None
    )


def test_failed_command_reports_its_last_line() -> None:
    talk = "import sys; print('a\\nno\\x1b route\\n', file=sys.stderr); sys.exit(3)"

    with pytest.raises(PlatformError) as raised:
        driver(off_command=program(talk)).off()

    assert str(raised.value) == ("h1: command off: exit status 3: no? route")


def test_long_error_line_is_cut() -> None:
    talk = "import sys; sys.stderr.write('x' * 100_000); sys.exit(1)"

    with pytest.raises(PlatformError) as raised:
        driver(on_command=program(talk)).on()

    assert len(str(raised.value)) < 300


def test_command_with_unlimited_stderr_is_killed() -> None:
    talk = "import sys\nwhile True: sys.stderr.write('x' * 65536)"

    with pytest.raises(PlatformError) as raised:
        driver(on_command=program(talk)).on()

    assert str(raised.value) == (
        "h1: command on: killed: more than 1 MiB on standard error"
    )


def test_missing_file_descriptors_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

    with pytest.raises(PlatformError, match="cannot be run: No such file"):
        driver().on()


def test_killed_command_is_reported() -> None:
    die = program("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")

    with pytest.raises(PlatformError, match="command on: signal 15"):
        driver(on_command=die).on()


def test_missing_program_is_reported() -> None:
    for act in ("on", "off", "state"):
        with pytest.raises(PlatformError) as raised:
            getattr(
                driver(H1, **{f"{act}_command": ("no-such-program", "s3cr3t")}), act
            )()

        assert str(raised.value) == (
            f"h1: command {act}: cannot be run: No such file or directory"
        )


def test_arguments_are_never_shown(tmp_path: Path) -> None:
    script = tmp_path / "switch"
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(stat.S_IRWXU)

    with pytest.raises(PlatformError) as raised:
        driver(on_command=(str(script), "--password", "s3cr3t")).on()

    assert "s3cr3t" not in repr(raised.value)


def test_zero_byte_is_rejected() -> None:
    with pytest.raises(PlatformError, match="zero byte"):
        driver(on_command=("true", "{x}"), variables={"x": "\0"}).on()


def test_node_name_with_dash_is_rejected() -> None:
    with pytest.raises(PermissionDeniedError, match="starts with a dash"):
        driver(NodeId("-oProxyCommand=x"), on_command=("echo", "{node}")).on()


def test_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hang = f"sleep 600 & echo $! > {pid}; wait"

    for timeout in (0.5, 10.0, 60.0):  # a busy machine may not start it in time
        with pytest.raises(
            PlatformError, match=f"h1: command off: killed: timeout after {timeout:g} s"
        ):
            driver(off_command=("sh", "-c", hang), timeout=timeout).off()
        if pid.exists() and pid.read_text().endswith("\n"):
            break

    child = int(pid.read_text())
    eventually(lambda: not is_alive(child), 20, "it ended")


def test_background_child_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    driver(on_command=("sh", "-c", f"sleep 600 & echo $! > {pid}")).on()

    child = int(pid.read_text())
    assert is_alive(child)
    os.kill(child, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Return whether a process runs: neither gone nor only not yet fetched."""
    try:
        reported = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return reported.rpartition(")")[2].split()[0] != "Z"
