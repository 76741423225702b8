"""Only ordinary files are read, of a limited size; nothing is waited for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opendrs.platforms.ordinary_files import read_ordinary, require_ordinary


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (fifo, "it is a named pipe; name an ordinary file"),
        (bound_socket, "it is a socket; name an ordinary file"),
        (zeros, "it is a device; name an ordinary file"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_what_is_no_ordinary_file_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: object,
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    path = Path("it")
    assert callable(make)
    make(path)

    for read in (require_ordinary, lambda path: read_ordinary(path, 10, pipes=True)):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its reason is below
            read(path)
        assert caught.value.strerror == why


def test_a_file_may_be_as_large_as_allowed_and_no_larger(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"0123456789")

    assert read_ordinary(path, 10) == b"0123456789"
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its reason is below
        read_ordinary(path, 9)
    assert caught.value.strerror == "it is larger than 9 bytes"


READ = """
import sys
from pathlib import Path
from opendrs.platforms.ordinary_files import read_ordinary
print(read_ordinary(Path(sys.argv[1]), 1 << 20, pipes=True).decode())
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
