"""Reader and writer of the HA settings in datacenter.cfg of Proxmox VE."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol, TypeVar

from opendrs.config.diagnostics import Diagnostic
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.pve_ha.config.section_config import skipped
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings

FLAGS: Mapping[str, bool] = MappingProxyType(
    dict.fromkeys(("1", "on", "yes", "true"), True)
    | dict.fromkeys(("0", "off", "no", "false"), False)
)

NUMBER = re.compile(r"\d{1,18}(\.\d{1,400})?", re.ASCII)
ValueT = TypeVar("ValueT")


class PropertyString:
    """Reader of the options of one property string.

    Args:
        text: Such as ``ha=static,ha-rebalance-on-start=1``.
        location: Location of the string, for error messages.
        whole: Value that stands for the fraction 1: 1, or 100 for percent.
    """

    def __init__(self, text: str, location: str, whole: int = 1) -> None:
        self._location = location
        self._whole = whole
        self._values: dict[str, str] = {}
        self._read_names: set[str] = set()
        self._diagnostics: list[Diagnostic] = []
        for entry in filter(None, map(str.strip, text.split(","))):
            self._add(entry)

    def choice(self, name: str, default: str, known: Collection[str]) -> str:
        """Return the option *name*, one of the *known* words, or *default*."""
        value = self._read(name)
        if value is None:
            return default
        return value if value in known else self._reject(name, value, default)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the option *name*, or *default*."""
        value = self._read(name)
        if value is None:
            return default
        known = FLAGS.get(value.lower())
        return self._reject(name, value, default) if known is None else known

    def number(self, name: str, default: float) -> float:
        """Return the option *name*, which is at least 0, or *default*."""
        return self._read_number(name, default, 1)

    def fraction(self, name: str, default: float) -> float:
        """Return the option *name* as a fraction, or *default*."""
        return self._read_number(name, default, self._whole)

    def diagnostics(self) -> Iterator[Diagnostic]:
        """Yield a warning for each invalid option, and each that was not read."""
        yield from self._diagnostics
        for name in self._values:
            if name not in self._read_names:
                yield self._warning(
                    f"unknown property {name}", DiagnosticCode.UNKNOWN_KEY
                )

    def _warning(self, message: str, code: DiagnosticCode) -> Diagnostic:
        return skipped(f"{self._location}: {message}", code)

    def _add(self, entry: str) -> None:
        name, has_value, value = (part.strip() for part in entry.partition("="))
        if not has_value:
            self._diagnostics.append(
                self._warning(f"ignored: {entry}", DiagnosticCode.INVALID_VALUE)
            )
        elif name in self._values:
            self._diagnostics.append(
                self._warning(
                    f"duplicate attribute {name}", DiagnosticCode.DUPLICATE_KEY
                )
            )
        else:
            self._values[name] = value

    def _read(self, name: str) -> str | None:
        self._read_names.add(name)
        return self._values.get(name)

    def _read_number(self, name: str, default: float, whole: int) -> float:
        value = self._read(name)
        if value is None:
            return default
        number = Decimal(value) if NUMBER.fullmatch(value) else None
        if number is None or (whole > 1 and number > whole):
            return self._reject(name, value, default)
        return float(number / whole)

    def _reject(self, name: str, value: str, default: ValueT) -> ValueT:
        self._diagnostics.append(
            self._warning(f"bad value of {name}: {value}", DiagnosticCode.INVALID_VALUE)
        )
        return default


LINE = re.compile(r"([a-z][a-z0-9_-]*):\s*(.*?)\s*", re.ASCII)
MODES = ("basic", "static", "dynamic")
METHODS = ("bruteforce", "topsis")
POLICIES = ("conditional", "freeze", "failover", "migrate")
HA, CRS = "ha", "crs"
DEFAULTS = DatacenterSettings()


class ShareUnit(IntEnum):
    """Unit of the threshold and the margin of rebalancing.

    Proxmox VE writes both in percent since pve-cluster 9.1.5 and as fractions before.
    The value is the number that stands for the fraction 1.
    """

    FRACTION = 1
    PERCENT = 100


class Options(Protocol):
    """Options by name, each of which may be missing."""

    def choice(self, name: str, default: str, known: Collection[str]) -> str:
        """Return the option *name*, one of the *known* words, or *default*."""

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the option *name*, or *default*."""

    def number(self, name: str, default: float) -> float:
        """Return the option *name*, or *default*."""

    def fraction(self, name: str, default: float) -> float:
        """Return the option *name* as a fraction, or *default*."""


@dataclass(frozen=True, slots=True)
class DatacenterFile:
    """The HA settings of a file, and warnings about skipped content."""

    settings: DatacenterSettings
    warnings: tuple[Diagnostic, ...] = ()


def datacenter_from_options(ha: Options, crs: Options) -> DatacenterSettings:
    """Return the settings defined by the options *ha* and *crs*."""
    defaults = DEFAULTS.scheduling
    return DatacenterSettings(
        CrsSettings(
            mode=crs.choice("ha", defaults.mode, MODES),
            rebalance_on_start=crs.flag(
                "ha-rebalance-on-start", default=defaults.rebalance_on_start
            ),
            auto_rebalance=crs.flag(
                "ha-auto-rebalance", default=defaults.auto_rebalance
            ),
            threshold=crs.fraction("ha-auto-rebalance-threshold", defaults.threshold),
            method=crs.choice("ha-auto-rebalance-method", defaults.method, METHODS),
            hold=crs.number("ha-auto-rebalance-hold-duration", defaults.hold),
            margin=crs.fraction("ha-auto-rebalance-margin", defaults.margin),
        ),
        ha.choice("shutdown_policy", DEFAULTS.shutdown_policy, POLICIES),
    )


def read_datacenter(text: str, unit: ShareUnit = ShareUnit.PERCENT) -> DatacenterFile:
    """Return the HA settings of *text*. Invalid content is skipped with a warning.

    Args:
        text: The file. Its other settings are ignored.
        unit: Unit of threshold and margin.
    """
    options_of = {HA: PropertyString("", HA), CRS: PropertyString("", CRS)}
    warnings: list[Diagnostic] = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = LINE.fullmatch(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                message = f"line {number}: ignored: {line.strip()}"
                warnings.append(skipped(message, DiagnosticCode.INVALID_VALUE))
        elif match[1] in options_of:
            location = f"line {number}: {match[1]}"
            options_of[match[1]] = PropertyString(match[2], location, unit)
    settings = datacenter_from_options(options_of[HA], options_of[CRS])
    for options in options_of.values():
        warnings += options.diagnostics()
    return DatacenterFile(settings, tuple(warnings))


def format_datacenter(
    settings: DatacenterSettings, text: str = "", unit: ShareUnit = ShareUnit.PERCENT
) -> str:
    """Return *text* with *settings*; all other content is unchanged.

    Args:
        settings: HA settings. Defaults are not written.
        text: The current file.
        unit: Unit of threshold and margin.

    Raises:
        ConfigurationError: A setting is invalid and could not be read again.
    """
    _validate(settings)
    kept = [line for line in text.splitlines() if not _is_ha_line(line)]
    ha_lines = (
        f"{key}: {','.join(options)}"
        for key, options in (
            (CRS, list(_crs_options(settings, unit))),
            (HA, _ha_options(settings)),
        )
        if options
    )
    return "".join(f"{line}\n" for line in (*kept, *ha_lines))


def _is_ha_line(line: str) -> bool:
    match = LINE.fullmatch(line)
    return match is not None and match[1] in (HA, CRS)


def _validate(settings: DatacenterSettings) -> None:
    crs = settings.scheduling
    words = (
        ("crs: ha", crs.mode, MODES),
        ("crs: ha-auto-rebalance-method", crs.method, METHODS),
        ("ha: shutdown_policy", settings.shutdown_policy, POLICIES),
    )
    errors = [
        f"{name}: expected one of {', '.join(known)}, got '{word}'"
        for name, word, known in words
        if word not in known
    ]
    if errors:
        raise ConfigurationError(*errors, code=DiagnosticCode.UNKNOWN_VALUE)


def _ha_options(settings: DatacenterSettings) -> list[str]:
    policy = settings.shutdown_policy
    return [] if policy == DEFAULTS.shutdown_policy else [f"shutdown_policy={policy}"]


def _crs_options(settings: DatacenterSettings, unit: ShareUnit) -> Iterator[str]:
    scheduling, defaults = settings.scheduling, DEFAULTS.scheduling
    if scheduling.mode != defaults.mode:
        yield f"ha={scheduling.mode}"
    if scheduling.rebalance_on_start:
        yield "ha-rebalance-on-start=1"
    if scheduling.auto_rebalance:
        yield "ha-auto-rebalance=1"
    if scheduling.threshold != defaults.threshold:
        threshold = _format_number(scheduling.threshold, unit)
        yield f"ha-auto-rebalance-threshold={threshold}"
    if scheduling.method != defaults.method:
        yield f"ha-auto-rebalance-method={scheduling.method}"
    if scheduling.hold != defaults.hold:
        yield f"ha-auto-rebalance-hold-duration={_format_number(scheduling.hold)}"
    if scheduling.margin != defaults.margin:
        yield f"ha-auto-rebalance-margin={_format_number(scheduling.margin, unit)}"


def _format_number(value: float, unit: ShareUnit = ShareUnit.FRACTION) -> str:
    """Return *value* as a decimal number with all digits."""
    digits = f"{Decimal(repr(value)) * unit:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
