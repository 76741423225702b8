"""The numbers of libvirt that stand in the adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.platforms.libvirt import answers
from opendrs.platforms.libvirt.answers import Paused, State
from unit.platforms.libvirt.recorded import arriving, domain


def test_the_numbers_are_libvirts_own() -> None:
    libvirt = pytest.importorskip("libvirt")

    for state in State:
        assert getattr(libvirt, f"VIR_DOMAIN_{state.name}") == state
    for reason in Paused:
        assert getattr(libvirt, f"VIR_DOMAIN_PAUSED_{reason.name}") == reason
    torn = libvirt.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED
    assert torn == answers.RUNNING_POSTCOPY_FAILED
    leaving = libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
    assert leaving == answers.MIGRATION_OUT


def test_a_state_it_has_never_heard_of_is_no_state() -> None:
    assert domain(state__state=99).state is State.NOSTATE


def test_a_figure_that_is_not_told_is_unknown() -> None:
    assert domain().number("no.such") is None
    assert domain().number("dirtyrate.calc_mode") is None


def test_a_source_at_the_very_end_has_handed_over_and_a_target_has_not() -> None:
    paused = domain(state__state=3, state__reason=Paused.MIGRATION)

    assert paused.handed_over
    assert not arriving().handed_over
    assert not domain().handed_over
    assert not replace(paused, active=False).handed_over


def test_a_post_copy_that_broke_has_torn_the_guest() -> None:
    assert domain(state__state=3, state__reason=Paused.POSTCOPY_FAILED).torn
    assert domain(state__reason=answers.RUNNING_POSTCOPY_FAILED).torn
    assert not domain(state__state=3, state__reason=Paused.POSTCOPY).torn
