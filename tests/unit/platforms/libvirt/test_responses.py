"""The numbers of libvirt that stand in the adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.platforms.libvirt import responses
from opendrs.platforms.libvirt.responses import DomainState, PausedReason
from support.libvirt_responses import domain, incoming, with_network


def test_the_numbers_are_libvirts_own() -> None:
    libvirt = pytest.importorskip("libvirt")

    for state in DomainState:
        assert getattr(libvirt, f"VIR_DOMAIN_{state.name}") == state
    for reason in PausedReason:
        assert getattr(libvirt, f"VIR_DOMAIN_PAUSED_{reason.name}") == reason
    torn = libvirt.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED
    assert torn == responses.RUNNING_POSTCOPY_FAILED
    migration_out = libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
    assert migration_out == responses.OPERATION_MIGRATION_OUT


def test_unknown_state_number_is_nostate() -> None:
    assert domain(state__state=99).state is DomainState.NOSTATE


def test_missing_figure_is_none() -> None:
    assert domain().integer("no.such") is None
    assert domain().integer("dirtyrate.calc_mode") is None


def test_network_counters_are_the_bytes_of_each_interface() -> None:
    assert with_network((700, 90), (5, 0)).network_counters == {
        "vnet0": 790,
        "vnet1": 5,
    }
    assert with_network().network_counters == {}


def test_network_counters_are_unknown_unless_all_interfaces_have_them() -> None:
    assert with_network((700, 90), None).network_counters is None
    assert domain().network_counters is None


def test_paused_source_is_handed_over_and_target_is_not() -> None:
    paused = domain(state__state=3, state__reason=PausedReason.MIGRATION)

    assert paused.is_handed_over
    assert not incoming().is_handed_over
    assert not domain().is_handed_over
    assert not replace(paused, is_active=False).is_handed_over


def test_failed_post_copy_splits_the_guest() -> None:
    assert domain(state__state=3, state__reason=PausedReason.POSTCOPY_FAILED).is_split
    assert domain(state__reason=responses.RUNNING_POSTCOPY_FAILED).is_split
    assert not domain(state__state=3, state__reason=PausedReason.POSTCOPY).is_split
