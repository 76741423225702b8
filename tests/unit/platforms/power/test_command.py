"""Power by commands: what is run, and what its end means."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.lab import eventually
from opendrs.errors import PermissionDeniedError, PlatformError
from opendrs.model import NodeId
from opendrs.platforms.power import CommandSettings, PowerState
from opendrs.platforms.power.command import CommandDriver

H1 = NodeId("h1")


def program(text: str) -> tuple[str, ...]:
    """Return the words that run *text* in this Python."""
    return (sys.executable, "-c", text)


def driver(node: NodeId = H1, **changes: Any) -> CommandDriver:  # noqa: ANN401
    plain: dict[str, Any] = {"on": ("true",), "off": ("true",)}
    return CommandDriver(node, CommandSettings(**{**plain, **changes}))


def test_the_words_reach_the_program_as_they_are(tmp_path: Path) -> None:
    told = tmp_path / "told"
    tell = program(
        f"import sys; open({str(told)!r}, 'w').write('|'.join(sys.argv[1:]))"
    )
    words = (*tell, "{node}", "{mac};x", "$HOME *", "{{node}}")
    variables = {"mac": "52:54 00"}

    driver(on=words, variables=variables).on()

    assert told.read_text() == "h1|52:54 00;x|$HOME *|{node}"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (0, PowerState.ON),
        (1, PowerState.OFF),
        (2, PowerState.UNKNOWN),
        (255, PowerState.UNKNOWN),
    ],
)
def test_the_exit_status_tells_the_state(status: int, state: PowerState) -> None:
    assert driver(state=program(f"raise SystemExit({status})")).state() is state


def test_without_a_command_the_state_is_unknown() -> None:
    assert driver().state() is PowerState.UNKNOWN


def test_silence_counts_only_where_the_state_cannot_be_asked_for() -> None:
    assert driver(silence=7.0).silence == 7.0
    assert driver(silence=7.0, state=("true",)).silence is None


def test_a_command_that_fails_is_told_with_its_last_line() -> None:
    talk = "import sys; print('a\\nno\\x1b route\\n', file=sys.stderr); sys.exit(3)"

    with pytest.raises(PlatformError) as raised:
        driver(off=program(talk)).off()

    assert str(raised.value) == (
        "the command off of h1 ended with exit status 3: no? route"
    )


def test_a_long_complaint_is_cut() -> None:
    talk = "import sys; sys.stderr.write('x' * 100_000); sys.exit(1)"

    with pytest.raises(PlatformError) as raised:
        driver(on=program(talk)).on()

    assert len(str(raised.value)) < 300


def test_a_command_that_does_not_stop_complaining_is_ended() -> None:
    talk = "import sys\nwhile True: sys.stderr.write('x' * 65536)"

    with pytest.raises(PlatformError) as raised:
        driver(on=program(talk), timeout=30.0).on()

    assert str(raised.value) == (
        "the command on of h1 complained more than 1 MiB, and was ended"
    )


def test_where_no_file_can_be_opened_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

    with pytest.raises(PlatformError, match="could not be run: No such file"):
        driver().on()


def test_a_command_that_is_killed_is_told() -> None:
    die = program("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")

    with pytest.raises(PlatformError, match="ended with signal 15"):
        driver(on=die).on()


def test_a_program_that_is_not_there_is_told() -> None:
    for act in ("on", "off", "state"):
        with pytest.raises(PlatformError) as raised:
            getattr(driver(H1, **{act: ("no-such-program", "s3cr3t")}), act)()

        assert str(raised.value) == (
            f"the command {act} of h1 could not be run: No such file or directory"
        )


def test_words_are_never_shown(tmp_path: Path) -> None:
    script = tmp_path / "switch"
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(stat.S_IRWXU)

    with pytest.raises(PlatformError) as raised:
        driver(on=(str(script), "--password", "s3cr3t")).on()

    assert "s3cr3t" not in repr(raised.value)


def test_a_zero_byte_is_told() -> None:
    with pytest.raises(PlatformError, match="zero byte"):
        driver(on=("true", "{x}"), variables={"x": "\0"}).on()


def test_a_name_is_never_taken_as_an_option() -> None:
    with pytest.raises(PermissionDeniedError, match="begin with a dash"):
        driver(NodeId("-oProxyCommand=x"), on=("echo", "{node}")).on()


def test_a_command_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hang = f"sleep 60 & echo $! > {pid}; wait"

    with pytest.raises(PlatformError, match=r"off of h1 did not end within 0\.5 s"):
        driver(off=("sh", "-c", hang), timeout=0.5).off()

    child = int(pid.read_text())
    eventually(lambda: not is_alive(child), 5, "it ended")


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    driver(on=("sh", "-c", f"sleep 60 & echo $! > {pid}"), timeout=5.0).on()

    child = int(pid.read_text())
    assert is_alive(child)
    os.kill(child, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Return whether a process runs: neither gone nor only not yet fetched."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"
