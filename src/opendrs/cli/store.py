"""The command `opendrs store`: back up the database of a platform.

The database is only read. No lease is needed, so a controller may be running.
"""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.config import display_path
from opendrs.errors import ConfigurationError, DiagnosticCode, StoreError
from opendrs.store import backup_sqlite


@click.group(name="store")
def command() -> None:
    """Back up the database of a platform.

    \b
      opendrs store backup lab /backup/lab.sqlite
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph


@command.command(name="backup")
@click.argument("platform", metavar="PLATFORM")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@config_option
@format_option
def backup(
    *, platform: str, file: Path, config: Path | None, output_format: str
) -> None:
    """Copy the SQLite database of PLATFORM to the new FILE.

    A controller can be running meanwhile. The copy contains all that it had recorded
    when the command began. To restore it, stop the controller, replace the database by
    FILE, and remove the files beside it that end in -wal and -shm.

    A PostgreSQL database is backed up by pg_dump.

    \b
      opendrs store backup lab /backup/lab.sqlite
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    settings.connection(platform)
    path = settings.store_path(platform)
    if path is None:
        raise ConfigurationError(
            "[store] url: expected an SQLite database; back up PostgreSQL with "
            "pg_dump --format=custom --file=FILE URL",
            code=DiagnosticCode.INCONSISTENT,
        )
    if not path.exists():  # opening it would create an empty store
        raise StoreError(f"{display_path(path)}: does not exist; nothing to back up")
    backup_sqlite(path, file)
    size = file.stat().st_size
    if output_format == JSON:
        print_json({"file": str(file), "bytes": size})
        return
    console().print(f"{display_path(file)}: {size} bytes", markup=False)
