"""Settings that locate a secret: a file, an environment variable or the keyring.

A secret NAME has the settings NAME_file, NAME_env and NAME_keyring. The setting NAME
contains the secret itself.
"""

from __future__ import annotations

from collections.abc import Iterator


def source_names(setting: str) -> tuple[str, ...]:
    """Return the names of the settings that locate the secret *setting*."""
    return tuple(f"{setting}_{suffix}" for suffix in ("file", "env", "keyring"))


def given_sources(settings: object, setting: str) -> list[str]:
    """Return the names of the settings that are set and locate the secret *setting*.

    The setting of its own name, if there is one, contains the secret itself.
    """
    names = (*source_names(setting), setting)
    return [name for name in names if getattr(settings, name, None) is not None]


def source_problems(settings: object, setting: str) -> Iterator[str]:
    """Yield a problem if more than one setting, or an invalid one, locates a secret."""
    given = given_sources(settings, setting)
    if len(given) > 1:
        names = ", ".join(source_names(setting))
        yield f"{given[1]}: expected one of {names}, got {' and '.join(given)}"
    entry = getattr(settings, f"{setting}_keyring")
    if entry is not None and not all(split_keyring_entry(entry)):
        yield f"{setting}_keyring: expected SERVICE/USER, got {entry!r}"


def split_keyring_entry(entry: str) -> tuple[str, str]:
    """Return the service and the user of *entry*, `SERVICE/USER`; empty if absent."""
    service, _, user = entry.rpartition("/")
    return service, user
