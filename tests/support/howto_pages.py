"""How-to pages whose commands are run by a test.

A test gives a runner for the commands of a page that begin with a certain text. Each
command is run in the order of the page. It is an error if one has no runner, so that a
command which is added to the page is run as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

DIRECTORY = Path(__file__).parents[2] / "docs/how-to"
SHELL, CONSOLE = "sh", "console"  # a shell script; commands with $ and their output
PROMPT = "$ "

Runner = Callable[[str], object]


@dataclass(frozen=True)
class CodeBlock:
    """Code block of a page.

    Attributes:
        language: Its language; empty for an indented block, which contains commands.
        text: Its text, without indentation of the block.
        line: Number of its first line.
    """

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class HowToCommand:
    """Command on a page.

    Attributes:
        text: The command in one line, without prompt and comment.
        line: Number of its first line.
    """

    text: str
    line: int


class HowToPage:
    """Page in docs/how-to.

    Args:
        name: Name of the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._text = (DIRECTORY / name).read_text()

    def blocks(self, language: str) -> tuple[str, ...]:
        """Return the texts of the code blocks in *language*, such as toml."""
        return tuple(
            each.text for each in code_blocks(self._text) if each.language == language
        )

    @property
    def commands(self) -> tuple[HowToCommand, ...]:
        """Return the commands in the code blocks of the page."""
        return tuple(page_commands(self._text))

    def run(self, runners: Mapping[str, Runner]) -> None:
        """Run each command by the runner with the longest matching beginning.

        Args:
            runners: Beginning of commands, and the function that runs them.

        Raises:
            AssertionError: A command has no runner, or a runner has no command.
        """
        chosen = [(each, self._runner(each, runners)) for each in self.commands]
        unused = runners.keys() - {begin for _, begin in chosen}
        assert not unused, f"{self._name} has no command such as {sorted(unused)}"
        for command, begin in chosen:
            runners[begin](command.text)

    def _runner(self, command: HowToCommand, runners: Mapping[str, Runner]) -> str:
        text = f"{command.text} "
        fitting = [each for each in runners if text.startswith(f"{each} ")]
        assert fitting, f"{self._name}:{command.line}: no test runs: {command.text}"
        return max(fitting, key=len)


def code_blocks(markdown: str) -> Iterator[CodeBlock]:
    """Yield the code blocks of a page, also those in lists."""
    for token in MarkdownIt().parse(markdown):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            first = token.map[0] + (2 if token.type == "fence" else 1)
            yield CodeBlock(token.info.strip(), token.content, first)


def page_commands(markdown: str) -> Iterator[HowToCommand]:
    """Yield the commands in shell, console and indented blocks."""
    for block in code_blocks(markdown):
        if block.language not in ("", SHELL, CONSOLE):
            continue
        has_prompt, start = block.language == CONSOLE, 0
        lines = block.text.splitlines()
        for number, line in enumerate(lines):
            if line.endswith("\\"):
                continue
            parts = [each.removesuffix("\\").strip() for each in lines[start:number]]
            text, begin = " ".join([*parts, line.strip()]), block.line + start
            start = number + 1
            if has_prompt != text.startswith(PROMPT):
                continue  # output
            plain = f" {text.removeprefix(PROMPT)}".partition(" #")[0]
            if command := plain.strip():
                yield HowToCommand(command, begin)
