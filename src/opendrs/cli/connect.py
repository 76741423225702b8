"""The command `opendrs connect`: configuration of a platform by questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import click
import tomli_w

from opendrs.cli.console import console, printable
from opendrs.cli.online_check import check_online, print_checks
from opendrs.cli.platforms import PLATFORMS
from opendrs.cli.secret_files import SecretFiles
from opendrs.config import display_path, raise_diagnostics, read_text
from opendrs.config.binding import unknown_name
from opendrs.config.parsing import parse_toml
from opendrs.config.platform_kinds import Questioner
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import is_platform_name, settings_and_diagnostics
from opendrs.config.snapshot_writing import replace_file
from opendrs.errors import ConfigurationError, DiagnosticCode, UnknownPlatformError
from opendrs.escapes import repr_value

CHECK_FAILED = 1


@click.command(name="connect")
@click.argument("kind", metavar="KIND")
@click.option("--name", metavar="NAME", help="Name of the platform (default: KIND).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("opendrs.toml"),
    metavar="FILE",
    help="Configuration file to create or extend (default: opendrs.toml).",
)
def command(*, kind: str, name: str | None, output: Path) -> int:
    """Ask for the settings of a platform, check them, and write them.

    KIND is proxmox, incus, openstack, libvirt or command. Secrets are written to a
    separate file that only you can read. If a check of the settings fails, they are
    written only if you confirm. Nothing on the platform is changed.

    \b
      opendrs connect libvirt --name lab
      opendrs plan lab                     afterwards: plan for the platform

    Exit status: 0 = connected; 1 = a check failed; 2 = invalid input; 3 = a host did
    not respond when its certificate was read.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    name = name or kind
    if not is_platform_name(name):
        raise ConfigurationError(
            f"--name: invalid name of a platform: {repr_value(name)}",
            code=DiagnosticCode.INVALID_VALUE,
        )
    ask, copies_disks = _questions(kind)
    before = read_text(output) if output.exists() else ""
    _require_new(name, before, output)
    with TerminalQuestioner(output.parent, name) as questioner:
        tables: dict[str, object] = {
            "platform": {name: {"kind": kind, **ask(questioner)}}
        }
        # Limits that are configured already are left as they are.
        if copies_disks and "limits" not in parse_toml(before, display_path(output)):
            tables |= _limits(questioner)
        text = f"{before}\n{tomli_w.dumps(tables)}".lstrip("\n")
        settings = validated_settings(text, output)
        checks = list(check_online({name: settings.connection(name)}))
        print_checks(console(), checks)
        failed = any(not each.check.ok for each in checks)
        if failed and not questioner.confirm("Write the settings anyway?"):
            return CHECK_FAILED
        replace_file(output, text)
        questioner.keep_secrets()
    written = display_path(output)
    following = f"check {written} --online" if failed else f"plan {name}"
    click.echo(printable(f"written: {written}; next: opendrs {following}"))
    return CHECK_FAILED if failed else 0


def _questions(kind: str) -> tuple[Callable[[Questioner], dict[str, object]], bool]:
    """Return the questions of *kind*, and whether it copies local disks."""
    if kind not in PLATFORMS.kinds:
        raise UnknownPlatformError(
            f'"{kind}": {unknown_name("kind", kind, PLATFORMS.kinds)}'
        )
    found = PLATFORMS.kinds[kind]()
    found.require_library()
    if found.ask is None:
        raise ConfigurationError(
            f"{kind}: has no questions; see docs/reference/configuration.md",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    return found.ask, found.copies_local_disks


def _limits(questioner: Questioner) -> dict[str, object]:
    """Return the table of limits, if the operator allows the copy of disks."""
    prompt = "Migrate guests whose disks are copied, because their storage is local?"
    if not questioner.confirm(prompt):
        return {}
    return {"limits": {"migrate_local_disks": True}}


def _require_new(name: str, text: str, output: Path) -> None:
    platforms = parse_toml(text, display_path(output)).get("platform", {})
    if isinstance(platforms, Mapping) and name in platforms:
        raise ConfigurationError(
            f"{display_path(output)}: platform.{name}: exists already; choose another "
            "name with --name",
            code=DiagnosticCode.DUPLICATE_NAME,
        )


def validated_settings(text: str, output: Path) -> Settings:
    """Return the settings in *text*, which is to become the content of *output*.

    Raises:
        ConfigurationError: The settings are not valid; with all errors.
    """
    source = display_path(output)
    settings, diagnostics = settings_and_diagnostics(
        parse_toml(text, source), source, output.parent, PLATFORMS
    )
    raise_diagnostics(source, diagnostics)
    return settings


class TerminalQuestioner:
    """Questions on the terminal, or from a pipe, one answer on each line.

    Used in a `with` statement, at the end of which the files of secrets are deleted,
    unless `keep_secrets` was called: a dialog that is not completed leaves nothing.

    Args:
        directory: Directory of the configuration.
        name: Name of the platform; part of the names of secret files.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._secrets = SecretFiles(directory, name)

    def __enter__(self) -> Self:
        self._secrets.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._secrets.__exit__(*error)

    def keep_secrets(self) -> None:
        """Keep the files of secrets, which the written configuration names."""
        self._secrets.keep()

    def text(self, prompt: str, default: str = "") -> str:
        """Return the answer to *prompt*."""
        answer: str = click.prompt(
            prompt, default=default, show_default=bool(default), err=True
        )
        return answer.strip()

    def secret(self, setting: str, prompt: str) -> Path:
        """Ask for a secret and write it to a file for the owner alone.

        Raises:
            ConfigurationError: The file exists already, or cannot be written.
        """
        secret: str = click.prompt(prompt, hide_input=True, err=True)
        return self._secrets.write(setting, secret)

    def confirm(self, prompt: str) -> bool:
        """Return whether the operator answers yes."""
        return click.confirm(prompt, err=True)
