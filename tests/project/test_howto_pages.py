"""Commands of the how-to pages: what counts as one, and that none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import howto_pages
from support.howto_pages import HowToPage, page_commands

PAGE = """
Text with `opendrs show`.

```sh
# Comment
openssl req \\
    -nodes
incus info | grep x  # shows it
```

1.  In a list:

        opendrs plan lab   # nothing changes

    ```console
    $ opendrs show lab
    lab: 3 nodes
    ```

```toml
[platform.lab]
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HowToPage:
    monkeypatch.setattr(howto_pages, "DIRECTORY", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return HowToPage("page.md")


def test_commands_are_those_of_shell_console_and_indented_blocks() -> None:
    assert [(each.line, each.text) for each in page_commands(PAGE)] == [
        (6, "openssl req -nodes"),
        (8, "incus info | grep x"),
        (13, "opendrs plan lab"),
        (16, "opendrs show lab"),
    ]


def test_blocks_are_those_of_the_language(page: HowToPage) -> None:
    assert page.blocks("toml") == ("[platform.lab]\n",)


def test_run_gives_each_command_to_the_longest_beginning(page: HowToPage) -> None:
    ran: list[tuple[str, str]] = []

    def runner(name: str) -> howto_pages.Runner:
        return lambda command: ran.append((name, command))

    names = ("openssl", "incus", "opendrs", "opendrs plan")
    page.run({name: runner(name) for name in names})

    assert ran == [
        ("openssl", "openssl req -nodes"),
        ("incus", "incus info | grep x"),
        ("opendrs plan", "opendrs plan lab"),
        ("opendrs", "opendrs show lab"),
    ]


@pytest.mark.parametrize(
    "names", [("openssl", "incus"), ("openssl", "incus", "opendrs", "incu")]
)
def test_run_without_runner_or_command_fails_before_the_first(
    page: HowToPage, names: tuple[str, ...]
) -> None:
    ran: list[str] = []

    with pytest.raises(AssertionError):
        page.run(dict.fromkeys(names, ran.append))

    assert ran == []
