"""The configuration file of a command, and the store of a platform that it names."""

from __future__ import annotations

import shlex
from pathlib import Path

from opendrs.cli.console import warn
from opendrs.cli.platforms import PLATFORMS
from opendrs.config import DiagnosticCode, KeyPath, display_path, raise_diagnostics
from opendrs.config.settings import NO_SETTINGS, Settings
from opendrs.config.settings_reading import read_settings, read_valid_settings
from opendrs.errors import UnknownPlatformError

DEFAULT_CONFIG = Path("opendrs.toml")
_UNRELATED_TABLES = frozenset(
    {"agent", "api", "limits", "metrics", "notifications", "protection", "rules"}
)
"""Tables that neither locate the store of a platform nor determine its mode."""


def load_settings(config: Path | None) -> Settings:
    """Return the settings of the configuration file.

    Args:
        config: The file; None for `./opendrs.toml`, which is optional.

    Raises:
        ConfigurationError: The file is invalid; with all errors.
    """
    path = _config_path(config)
    return NO_SETTINGS if path is None else read_settings(path, PLATFORMS)


def load_store_settings(config: Path | None, platform: str) -> Settings:
    """Return the settings for a command that needs only the store of *platform*.

    A controller goes on with its former configuration while the file is invalid. Errors
    that concern neither the store nor the mode are warnings.

    Args:
        config: The file; None for `./opendrs.toml`, which is optional.
        platform: Name of the platform.

    Raises:
        ConfigurationError: The file is invalid otherwise; with all errors.
    """
    return load_valid_store_settings(config, platform)[0]


def load_valid_store_settings(
    config: Path | None, platform: str
) -> tuple[Settings, frozenset[str]]:
    """Return the settings as `load_store_settings`, and the names of invalid tables.

    The settings of these tables are the defaults.
    """
    path = _config_path(config)
    if path is None:
        return NO_SETTINGS, frozenset()
    settings, diagnostics = read_valid_settings(path, PLATFORMS)
    if not all(_is_unrelated(each.path, platform) for each in diagnostics):
        raise_diagnostics(display_path(path), diagnostics)
    for each in diagnostics:
        warn(f"warning: {display_path(path)}: {each}")
    return settings, frozenset(str(each.path[0]) for each in diagnostics)


def has_store(name: str, settings: Settings) -> bool:
    """Return False if the platform *name* has no store; True if that is unknown."""
    path = settings.store_path(name)
    try:
        return path is None or path.exists()
    except (OSError, ValueError):  # opening the store reports the error
        return True


def _is_unrelated(path: KeyPath, platform: str) -> bool:
    """Return True if an error at *path* concerns neither the store nor the mode."""
    table, *keys = path or ("",)
    if table == "platform":
        return bool(keys) and keys[0] != platform
    if table == "policy":
        return bool(keys) and keys[0] != "name"
    return table in _UNRELATED_TABLES


def _config_path(config: Path | None) -> Path | None:
    """Return the configuration file; None if none is given and the default is absent.

    The use of the default is printed.
    """
    if config is not None:
        return config
    if not _exists(DEFAULT_CONFIG):
        return None
    warn(f"using ./{DEFAULT_CONFIG}")
    return DEFAULT_CONFIG


def _exists(config: Path) -> bool:
    try:
        return config.exists()
    except OSError:  # no permission for the working directory
        return False


def only_platform(settings: Settings, config: Path) -> str:
    """Return the name of the only configured platform.

    Raises:
        UnknownPlatformError: There is none, or more than one.
    """
    if len(settings.platforms) != 1:
        names = ", ".join(sorted(settings.platforms)) or "none but demo"
        raise UnknownPlatformError(
            f"{display_path(config)}: platform: expected one, got "
            f"{len(settings.platforms)}; select it with --platform NAME "
            f"(configured: {names})",
            code=DiagnosticCode.INCONSISTENT,
        )
    (name,) = settings.platforms
    return name


def command_target(platform: str, config: Path) -> str:
    """Return *platform* and the option `--config` if *config* is not the default."""
    options = [] if config == DEFAULT_CONFIG else ["--config", str(config.absolute())]
    return shlex.join([platform, *options])
