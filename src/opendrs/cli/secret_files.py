"""Files with the secrets of platforms, beside the configuration that names them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from opendrs.errors import ConfigurationError, DiagnosticCode

_DEVICES = Path("/dev")  # /dev/stdout can be a regular file


class SecretFiles:
    """Files with secrets, readable by their owner alone.

    Used in a `with` statement, at the end of which new files are deleted, unless `keep`
    was called: a command that is not completed leaves none.

    Args:
        directory: Directory of the configuration.
        name: Name of the platform; part of the names of the files.
        replace: Whether existing files are replaced.
    """

    def __init__(self, directory: Path, name: str, *, replace: bool = False) -> None:
        self._directory = directory
        self._name = name
        self._replace = replace
        self._new: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for path in self._new:
            path.unlink(missing_ok=True)

    def keep(self) -> None:
        """Keep the files, which the written configuration names."""
        self._new.clear()

    def write(self, setting: str, secret: str) -> Path:
        """Write *secret* to a file and return its path relative to the directory.

        Args:
            setting: Name of the secret; part of the name of the file.
            secret: The secret, one line.

        Raises:
            ConfigurationError: The file exists already, or cannot be written.
        """
        name = Path(f"{self._name}-{setting}")
        path = self._directory / name
        if _DEVICES in path.absolute().parents:
            raise ConfigurationError(
                f"{name}: a configuration with secrets must be written to a file",
                code=DiagnosticCode.UNUSABLE_FILE,
            )
        try:
            if self._replace and path.is_file():
                temporary = path.with_name(f".{name}.{os.getpid()}")
                _create(temporary, secret)
                temporary.replace(path)
            else:
                _create(path, secret)
                self._new.append(path)
        except OSError as error:
            raise ConfigurationError(
                f"{name}: cannot be created: {error.strerror}",
                code=DiagnosticCode.UNUSABLE_FILE,
            ) from None
        return name


def _create(path: Path, secret: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
