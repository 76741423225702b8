"""Queries of one host over one connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from opendrs.platforms.libvirt.client import (
    RawConnection,
    RawDomain,
    error_details,
    load_library,
)
from opendrs.platforms.libvirt.errors import ErrorCode
from opendrs.platforms.libvirt.responses import (
    OPERATION_MIGRATION_OUT,
    DomainResponse,
    DomainState,
    HostResponse,
    HostSample,
    LocationReport,
    PausedReason,
)

T = TypeVar("T")

_NOT_ACTIVE = -1  # id of a domain without a process
_NOT_FOUND = frozenset({ErrorCode.NO_DOMAIN})
# A guest that leaves between two calls is at first no longer running.
_NOT_RUNNING = frozenset({ErrorCode.NO_DOMAIN, ErrorCode.OPERATION_INVALID})
# The target of a migration raises OPERATION_UNSUPPORTED for its job.
_NOT_MIGRATING_OUT = _NOT_RUNNING | {
    ErrorCode.OPERATION_UNSUPPORTED,
    ErrorCode.NO_SUPPORT,
}
_NOT_SUPPORTED = frozenset(
    {ErrorCode.NO_SUPPORT, ErrorCode.INVALID_ARG, ErrorCode.OPERATION_UNSUPPORTED}
)


def read_sample(connection: RawConnection) -> HostSample:
    """Return a sample without the XML of the domains."""
    return _sample_domains(connection, lambda _, response: response)


def read_host(connection: RawConnection, first_sample: HostSample) -> HostResponse:
    """Return the properties of the host, and a second sample with domain XML."""
    return HostResponse(
        hostname=str(connection.getHostname()),
        info=tuple(connection.getInfo()),
        memory=_none_on(_NOT_SUPPORTED, lambda: connection.getMemoryStats(-1)) or {},
        page_sharing=_none_on(_NOT_SUPPORTED, connection.getMemoryParameters) or {},
        capabilities=str(connection.getCapabilities()),
        first_sample=first_sample,
        second_sample=_sample_domains(connection, _with_description),
    )


def read_location(connection: RawConnection, uuid: str) -> LocationReport:
    """Return the domain and the migration job of the guest *uuid* on the host."""
    domain = _find_domain(connection, uuid)
    response = (
        None
        if domain is None
        else _none_on(_NOT_RUNNING, lambda: _domain_state(domain))
    )
    return LocationReport(
        domain=response, job=outgoing_migration_job(domain) if response else None
    )


def find_uuid(connection: RawConnection, name: str) -> str | None:
    """Return the uuid of the guest called *name*; None if the host lacks it."""
    domain = _none_on(_NOT_FOUND, lambda: connection.lookupByName(name))
    return None if domain is None else str(domain.UUIDString())


def abort_migration(connection: RawConnection, uuid: str) -> bool:
    """Abort the migration of *uuid* away from the host; return False without one."""
    return _while_migrating_out(connection, uuid, lambda domain: domain.abortJob())


def start_post_copy(connection: RawConnection, uuid: str) -> bool:
    """Switch the migration of *uuid* to post-copy; return False without one."""
    return _while_migrating_out(
        connection, uuid, lambda domain: domain.migrateStartPostCopy()
    )


def outgoing_migration_job(domain: RawDomain) -> Mapping[str, object] | None:
    """Return the job of a migration away from the host; None without one."""
    job: Mapping[str, object] = _none_on(_NOT_MIGRATING_OUT, domain.jobStats) or {}
    is_outgoing = job.get("type") and job.get("operation") == OPERATION_MIGRATION_OUT
    return job if is_outgoing else None


def _sample_domains(
    connection: RawConnection,
    complete: Callable[[RawDomain, DomainResponse], DomainResponse],
) -> HostSample:
    sampled_at = time.monotonic()
    cpu = _none_on(_NOT_SUPPORTED, lambda: connection.getCPUStats(-1)) or {}
    responses = (
        _none_on(_NOT_RUNNING, partial(_complete_response, domain, stats, complete))
        for domain, stats in _all_stats(connection)
    )
    domains = {
        response.uuid: response for response in responses if response is not None
    }
    return HostSample(sampled_at=sampled_at, cpu=cpu, domains=domains)


def _complete_response(
    domain: RawDomain,
    stats: Mapping[str, object],
    complete: Callable[[RawDomain, DomainResponse], DomainResponse],
) -> DomainResponse:
    return complete(domain, _domain_response(domain, stats))


def _all_stats(
    connection: RawConnection,
) -> list[tuple[RawDomain, Mapping[str, object]]]:
    # NOWAIT: a busy guest must not block the others.
    flags = load_library().VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    stats = _none_on(_NOT_SUPPORTED, lambda: connection.getAllDomainStats(0, flags))
    return list(connection.getAllDomainStats(0, 0) if stats is None else stats)


def _domain_response(domain: RawDomain, stats: Mapping[str, object]) -> DomainResponse:
    domain_id = domain.ID()
    is_active = domain_id != _NOT_ACTIVE
    response = DomainResponse(
        uuid=str(domain.UUIDString()),
        name=str(domain.name()),
        is_active=is_active,
        domain_id=domain_id if is_active else None,
        stats=stats,
    )
    return replace(response, is_incoming=_is_incoming(domain, response))


def _domain_state(domain: RawDomain) -> DomainResponse:
    state, reason = domain.state()
    return _domain_response(domain, {"state.state": state, "state.reason": reason})


def _with_description(domain: RawDomain, response: DomainResponse) -> DomainResponse:
    return replace(response, xml=str(domain.XMLDesc(0)))


def _is_incoming(domain: RawDomain, response: DomainResponse) -> bool:
    """Return True if the domain is the unfinished target of a migration.

    At its end, the source is paused for the same reason. Only the target raises an
    error for its job.
    """
    if response.state is not DomainState.PAUSED:
        return False
    if response.reason == PausedReason.STARTING_UP:
        return True
    if response.reason != PausedReason.MIGRATION:
        return False
    return _none_on({ErrorCode.OPERATION_UNSUPPORTED}, domain.jobStats) is None


def _find_domain(connection: RawConnection, uuid: str) -> RawDomain:
    return _none_on(_NOT_FOUND, lambda: connection.lookupByUUIDString(uuid))


def _while_migrating_out(
    connection: RawConnection, uuid: str, act: Callable[[RawDomain], object]
) -> bool:
    domain = _find_domain(connection, uuid)
    if domain is None or outgoing_migration_job(domain) is None:
        return False
    return _none_on(_NOT_RUNNING, lambda: (act(domain), True)[1]) or False


def _none_on(
    codes: frozenset[ErrorCode] | set[ErrorCode], call: Callable[[], T]
) -> T | None:
    """Return the result of *call*; None if it fails with one of *codes*."""
    try:
        return call()
    except load_library().libvirtError as error:
        if error_details(error).code in codes:
            return None
        raise
