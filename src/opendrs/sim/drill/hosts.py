"""The hosts of a drill: power, network, and the cluster file system on each."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha import PowerChange
from opendrs.model import Usage
from opendrs.model.resources import NOT_MEASURED

USUAL_VERSION = "9.0.0~2"  # what a host runs that does not say, pve-ha-manager 5.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host, as it is now.

    Attributes:
        power: Whether it is switched on.
        network: Whether it is connected.
        files_readable: Whether the cluster file system answers on it.
        files_consistent: Whether that is in step with the other hosts.
        capacity: What it has, as far as it is known.
        version: The pve-manager it runs; None when it does not say.
        power_change: What it is about to do.
    """

    power: bool = False
    network: bool = False
    files_readable: bool = True
    files_consistent: bool = True
    capacity: Usage = NOT_MEASURED
    version: str | None = None
    power_change: PowerChange | None = None

    @property
    def online(self) -> bool:
        """Return whether it works and is connected."""
        return self.power and self.network
