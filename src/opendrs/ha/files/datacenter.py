"""The HA settings of Proxmox VE's datacenter.cfg, or of options like its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Protocol

from opendrs.errors import ConfigurationError
from opendrs.ha.documents import Datacenter, Scheduling
from opendrs.ha.files.property_string import PropertyString

LINE = re.compile(r"([a-z][a-z0-9_-]*):\s*(.*?)\s*", re.ASCII)
MODES = ("basic", "static", "dynamic")
METHODS = ("bruteforce", "topsis")
POLICIES = ("conditional", "freeze", "failover", "migrate")
HA, CRS = "ha", "crs"
USUAL = Datacenter()


class Share(IntEnum):
    """What a share of the whole is written in: how many make up the whole.

    Proxmox VE writes the threshold and the margin of rebalancing in percent
    since pve-cluster 9.1.5, and as fractions before.
    """

    FRACTION = 1
    PERCENT = 100


class Options(Protocol):
    """Options by their names, each of which may be missing."""

    def word(self, name: str, usual: str, known: Collection[str]) -> str:
        """Return the option *name*, or *usual*; one of the *known* words."""

    def flag(self, name: str, *, usual: bool) -> bool:
        """Return the option *name*, or *usual*."""

    def number(self, name: str, usual: float) -> float:
        """Return the option *name*, or *usual*."""

    def share(self, name: str, usual: float) -> float:
        """Return the option *name* as a fraction, or *usual*."""


@dataclass(frozen=True, slots=True)
class DatacenterFile:
    """The HA settings of a file, and what was passed over in them."""

    settings: Datacenter
    warnings: tuple[str, ...] = ()


def datacenter_of(ha: Options, crs: Options) -> Datacenter:
    """Return the settings that the options *ha* and *crs* say."""
    usual = USUAL.scheduling
    return Datacenter(
        Scheduling(
            mode=crs.word("ha", usual.mode, MODES),
            rebalance_on_start=crs.flag(
                "ha-rebalance-on-start", usual=usual.rebalance_on_start
            ),
            auto_rebalance=crs.flag("ha-auto-rebalance", usual=usual.auto_rebalance),
            threshold=crs.share("ha-auto-rebalance-threshold", usual.threshold),
            method=crs.word("ha-auto-rebalance-method", usual.method, METHODS),
            hold=crs.number("ha-auto-rebalance-hold-duration", usual.hold),
            margin=crs.share("ha-auto-rebalance-margin", usual.margin),
        ),
        ha.word("shutdown_policy", USUAL.shutdown_policy, POLICIES),
    )


def read_datacenter(text: str, share: Share = Share.PERCENT) -> DatacenterFile:
    """Return the HA settings of *text*; what cannot be understood is left out.

    Args:
        text: The file; what it says of other matters is not looked at.
        share: What threshold and margin are written in.
    """
    said = {HA: PropertyString("", HA), CRS: PropertyString("", CRS)}
    warnings = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = LINE.fullmatch(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                warnings.append(f"line {number}: ignored: {line.strip()}")
        elif match[1] in said:
            place = f"line {number}: {match[1]}"
            said[match[1]] = PropertyString(match[2], place, share)
    settings = datacenter_of(said[HA], said[CRS])
    for options in said.values():
        warnings += options.complaints()
    return DatacenterFile(settings, tuple(warnings))


def datacenter_text(
    settings: Datacenter, text: str = "", share: Share = Share.PERCENT
) -> str:
    """Return *text* with *settings* in it; all else in it stays as it is.

    Args:
        settings: What is to be said of HA; nothing is said of what is usual.
        text: The file as it is.
        share: What threshold and margin are written in.

    Raises:
        ConfigurationError: A setting is none that could be read again.
    """
    _require_known(settings)
    kept = [line for line in text.splitlines() if not _is_ours(line)]
    ours = (
        f"{key}: {','.join(said)}"
        for key, said in ((CRS, list(_crs(settings, share))), (HA, _ha(settings)))
        if said
    )
    return "".join(f"{line}\n" for line in (*kept, *ours))


def _is_ours(line: str) -> bool:
    match = LINE.fullmatch(line)
    return match is not None and match[1] in (HA, CRS)


def _require_known(settings: Datacenter) -> None:
    crs = settings.scheduling
    words = (
        ("crs: ha", crs.mode, MODES),
        ("crs: ha-auto-rebalance-method", crs.method, METHODS),
        ("ha: shutdown_policy", settings.shutdown_policy, POLICIES),
    )
    complaints = [
        f"{name} must be one of {', '.join(known)}, not '{word}'"
        for name, word, known in words
        if word not in known
    ]
    if complaints:
        raise ConfigurationError(*complaints)


def _ha(settings: Datacenter) -> list[str]:
    policy = settings.shutdown_policy
    return [] if policy == USUAL.shutdown_policy else [f"shutdown_policy={policy}"]


def _crs(settings: Datacenter, share: Share) -> Iterator[str]:
    said, usual = settings.scheduling, USUAL.scheduling
    if said.mode != usual.mode:
        yield f"ha={said.mode}"
    if said.rebalance_on_start:
        yield "ha-rebalance-on-start=1"
    if said.auto_rebalance:
        yield "ha-auto-rebalance=1"
    if said.threshold != usual.threshold:
        yield f"ha-auto-rebalance-threshold={_number(said.threshold, share)}"
    if said.method != usual.method:
        yield f"ha-auto-rebalance-method={said.method}"
    if said.hold != usual.hold:
        yield f"ha-auto-rebalance-hold-duration={_number(said.hold)}"
    if said.margin != usual.margin:
        yield f"ha-auto-rebalance-margin={_number(said.margin, share)}"


def _number(value: float, share: Share = Share.FRACTION) -> str:
    """Return *value* in decimal digits, all of them."""
    digits = f"{Decimal(repr(value)) * share:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
