"""Draw the pictures of the documentation from what the commands print.

make pictures
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
OPENDRS = Path(sys.executable).with_name("opendrs")
WIDTH = 96
REFERENCE = HERE.parent / "reference"
IMAGES = {"plan.svg": ("plan", "demo", "--set", "max_migrations=6")}


def printed(*arguments: str) -> str:
    """Return what opendrs prints on a terminal, with its colours."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "TERM": "xterm-256color",
        "COLUMNS": str(WIDTH),
        "PYTHONUTF8": "1",
    }
    terminal, end = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own command
        [OPENDRS, *arguments], env=environment, stdout=end, stderr=subprocess.DEVNULL
    ):
        os.close(end)
        found = b"".join(_read(terminal))
    return found.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal, until its other end is closed."""
    with suppress(OSError):  # which is how Linux reports that end
        while part := os.read(terminal, 65536):
            yield part
    os.close(terminal)


def draw_terminal(arguments: tuple[str, ...]) -> str:
    """Return a command and its output as SVG, with the fonts of the reader."""
    screen = Console(record=True, width=WIDTH, file=io.StringIO())
    screen.print(Text.from_ansi(printed(*arguments)))
    svg = screen.export_svg(
        title=" ".join(("opendrs", *arguments)),
        theme=DIMMED_MONOKAI,
        unique_id="opendrs",
    )
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def plot(page: str, command: str, name: str) -> None:
    """Draw what the example on a page of the reference gives."""
    example = (REFERENCE / page).read_text().split("```toml\n")[1].split("```")[0]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "example.toml"
        file.write_text(example, encoding="utf-8")
        subprocess.run(  # noqa: S603 - our own command
            [OPENDRS, command, file, "--plot", HERE / name], check=True
        )


def main() -> None:
    """Draw all pictures."""
    plot("scenario-file.md", "simulate", "simulate.png")
    plot("sweep.md", "sweep", "sweep.png")
    for name, arguments in IMAGES.items():
        (HERE / name).write_text(draw_terminal(arguments), encoding="utf-8")


if __name__ == "__main__":
    main()
