"""Regular files of limited size are read without blocking."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opendrs.config.regular_files import read_regular, require_regular


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (fifo, "expected a regular file, got a named pipe"),
        (bound_socket, "expected a regular file, got a socket"),
        (zeros, "expected a regular file, got a device"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_irregular_file_is_rejected_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: object,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    path = Path("it")
    assert callable(make)
    make(path)

    for read in (
        require_regular,
        lambda path: read_regular(path, 10, allow_pipes=True),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its reason is below
            read(path)
        assert caught.value.strerror == message


def test_file_above_size_limit_raises_error(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"0123456789")

    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its reason is below
        read_regular(path, 9)
    assert "9 bytes" in str(caught.value.strerror)


READ = """
import sys
from pathlib import Path
from opendrs.config.regular_files import read_regular
print(read_regular(Path(sys.argv[1]), 1 << 20, allow_pipes=True).decode())
"""


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
def test_a_pipe_that_the_process_was_started_with_is_read(name: str) -> None:
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", READ, name],
        input="text",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "text\n"
