"""What is asked of one host over one connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from opendrs.platforms.libvirt.answers import (
    MIGRATION_OUT,
    DomainAnswer,
    HostAnswer,
    Paused,
    Sample,
    Sight,
    State,
)
from opendrs.platforms.libvirt.failures import Code
from opendrs.platforms.libvirt.library import Connection, Domain, failure, library

T = TypeVar("T")

_GONE = frozenset({Code.NO_DOMAIN})
# A guest that leaves between two questions is at first no longer running.
_OVER = frozenset({Code.NO_DOMAIN, Code.OPERATION_INVALID})
# The target of a migration says OPERATION_UNSUPPORTED of its job.
_NOT_LEAVING = _OVER | {Code.OPERATION_UNSUPPORTED, Code.NO_SUPPORT}
_NOT_OFFERED = frozenset(
    {Code.NO_SUPPORT, Code.INVALID_ARG, Code.OPERATION_UNSUPPORTED}
)


def sample(connection: Connection) -> Sample:
    """Return one reading, without descriptions."""
    return _sample(connection, lambda _, answer: answer)


def host_answer(connection: Connection, first: Sample) -> HostAnswer:
    """Return another reading, with descriptions, and what the host is."""
    return HostAnswer(
        hostname=str(connection.getHostname()),
        info=tuple(connection.getInfo()),
        memory=_unless(_NOT_OFFERED, lambda: connection.getMemoryStats(-1)) or {},
        sharing=_unless(_NOT_OFFERED, connection.getMemoryParameters) or {},
        capabilities=str(connection.getCapabilities()),
        first=first,
        second=_sample(connection, _described),
    )


def sight(connection: Connection, uuid: str) -> Sight:
    """Return what the host says about the guest *uuid*."""
    domain = _domain(connection, uuid)
    told = None if domain is None else _unless(_OVER, lambda: _stood(domain))
    return Sight(domain=told, job=leaving_job(domain) if told else None)


def uuid_of(connection: Connection, name: str) -> str | None:
    """Return the uuid of the guest called *name*, or None."""
    domain = _unless(_GONE, lambda: connection.lookupByName(name))
    return None if domain is None else str(domain.UUIDString())


def abort(connection: Connection, uuid: str) -> bool:
    """Abort the migration of *uuid* away from here; return whether there is one."""
    return _while_leaving(connection, uuid, lambda domain: domain.abortJob())


def go_on_at_target(connection: Connection, uuid: str) -> bool:
    """Switch the migration of *uuid* to post-copy; return whether there is one."""
    return _while_leaving(
        connection, uuid, lambda domain: domain.migrateStartPostCopy()
    )


def leaving_job(domain: Domain) -> Mapping[str, object] | None:
    """Return how the migration away from here stands; None without one."""
    job: Mapping[str, object] = _unless(_NOT_LEAVING, domain.jobStats) or {}
    leaving = job.get("type") and job.get("operation") == MIGRATION_OUT
    return job if leaving else None


def _sample(
    connection: Connection, finish: Callable[[Domain, DomainAnswer], DomainAnswer]
) -> Sample:
    at = time.monotonic()
    cpu = _unless(_NOT_OFFERED, lambda: connection.getCPUStats(-1)) or {}
    told = (
        _unless(_OVER, partial(_finished, domain, stats, finish))
        for domain, stats in _all_stats(connection)
    )
    domains = {answer.uuid: answer for answer in told if answer is not None}
    return Sample(at=at, cpu=cpu, domains=domains)


def _finished(
    domain: Domain,
    stats: Mapping[str, object],
    finish: Callable[[Domain, DomainAnswer], DomainAnswer],
) -> DomainAnswer:
    return finish(domain, _told(domain, stats))


def _all_stats(connection: Connection) -> list[tuple[Domain, Mapping[str, object]]]:
    # Without waiting: a guest that is busy must not hold up all the others.
    flags = library().VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    told = _unless(_NOT_OFFERED, lambda: connection.getAllDomainStats(0, flags))
    return list(connection.getAllDomainStats(0, 0) if told is None else told)


def _told(domain: Domain, stats: Mapping[str, object]) -> DomainAnswer:
    answer = DomainAnswer(
        uuid=str(domain.UUIDString()),
        name=str(domain.name()),
        active=domain.ID() != -1,
        stats=stats,
    )
    return replace(answer, arriving=_arrives(domain, answer))


def _stood(domain: Domain) -> DomainAnswer:
    state, reason = domain.state()
    return _told(domain, {"state.state": state, "state.reason": reason})


def _described(domain: Domain, answer: DomainAnswer) -> DomainAnswer:
    return replace(answer, xml=str(domain.XMLDesc(0)))


def _arrives(domain: Domain, answer: DomainAnswer) -> bool:
    """Return whether the domain is the unfinished target of a migration.

    A source stands still for the same reason at the very end; only a target
    refuses to tell of its job.
    """
    if answer.state is not State.PAUSED:
        return False
    if answer.reason == Paused.STARTING_UP:
        return True
    if answer.reason != Paused.MIGRATION:
        return False
    return _unless({Code.OPERATION_UNSUPPORTED}, domain.jobStats) is None


def _domain(connection: Connection, uuid: str) -> Domain:
    return _unless(_GONE, lambda: connection.lookupByUUIDString(uuid))


def _while_leaving(
    connection: Connection, uuid: str, act: Callable[[Domain], object]
) -> bool:
    domain = _domain(connection, uuid)
    if domain is None or leaving_job(domain) is None:
        return False
    return _unless(_OVER, lambda: (act(domain), True)[1]) or False


def _unless(codes: frozenset[Code] | set[Code], call: Callable[[], T]) -> T | None:
    """Return what *call* gives, or None when it fails for one of *codes*."""
    try:
        return call()
    except library().libvirtError as error:
        if failure(error).code in codes:
            return None
        raise
