"""A scenario: a cluster, and what happens to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from opendrs.ha import Datacenter, ManagerStatus, ServiceConfig, ServiceId
from opendrs.model import NodeId, Usage
from opendrs.scoring import ImbalanceForm
from opendrs.sim.drill.failing import Failures
from opendrs.sim.drill.hosts import Host

Batch = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How time passes in a drill.

    Attributes:
        turn: Seconds that every turn of a process takes, whatever it does.
        longest_turn: Seconds a process may be busy in one turn; None for any.
        longest_pass: A cluster in which all turns take so long is refused;
            None for any.
        end: When a drill that does not come to rest is ended.
    """

    turn: int = 1
    longest_turn: int | None = 300
    longest_pass: int | None = 60
    end: int = 10_000


LIKE_PROXMOX = Timing()
AT_ONCE = Timing(turn=0, longest_turn=None, longest_pass=None)
"""All processes take their turns at the same time: for clusters of any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, and what happens to it.

    Attributes:
        hosts: Its hosts.
        services: Its services.
        batches: What is done to it: lists of commands in the words of Proxmox
            VE, one list every five passes.
        status: What a master told before.
        rules: The text of its rules.
        groups: The text of its groups.
        datacenter: Its settings.
        limits: What each service may use.
        usages: What each service uses.
        running: The services that run on each host in the beginning.
        failures: How services fail whose names do not say it.
        timing: How time passes.
        form: How uneven loads become one number.
        rechecks: Whether agents check in each round that services still run. No
            drill in which services only stop with their host differs without.
        origin: Where the commands stand, for complaints about them.
    """

    hosts: Mapping[NodeId, Host]
    services: Mapping[ServiceId, ServiceConfig]
    batches: Sequence[Batch]
    status: ManagerStatus = field(default_factory=ManagerStatus)
    rules: str = ""
    groups: str = ""
    datacenter: Datacenter = field(default_factory=Datacenter)
    limits: Mapping[ServiceId, Usage] = field(default_factory=dict)
    usages: Mapping[ServiceId, Usage] = field(default_factory=dict)
    running: Mapping[NodeId, Collection[ServiceId]] = field(default_factory=dict)
    failures: Mapping[ServiceId, Failures] = field(default_factory=dict)
    timing: Timing = LIKE_PROXMOX
    form: ImbalanceForm = ImbalanceForm.RAW
    rechecks: bool = True
    origin: str = "cmdlist"
