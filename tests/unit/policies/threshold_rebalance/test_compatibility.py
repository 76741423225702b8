"""Scores of nodes, in the arithmetic of Incus and corrected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GIB
from opendrs.policies.threshold_rebalance import IncusVersion, ScoredNode, to_uint8

MIB = 1 << 20
ORIGINAL = [compatibility for compatibility in IncusVersion if compatibility.is_incus]


def host(
    percent: int, load: float, threads: float = 16, size: int = 16 * GIB
) -> ScoredNode:
    used = -(-percent * size // 100)  # the least that counts as so many percent
    return ScoredNode(memory=size, used=used, threads=threads, load=load)


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_score_is_the_mean_of_memory_and_load_in_percent(
    compatibility: IncusVersion,
) -> None:
    # The worked example, checked on Incus 7.0.2.
    assert host(20, 1.6).score(compatibility) == 15
    assert host(30, 3.2).score(compatibility) == 25
    assert host(80, 8.0).score(compatibility) == 65


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_parts_of_percents_and_of_scores_do_not_count(
    compatibility: IncusVersion,
) -> None:
    almost = ScoredNode(memory=1000, used=199.0, threads=16, load=2.399)

    assert almost.score(compatibility) == (19 + 14) // 2


@pytest.mark.parametrize("compatibility", ORIGINAL)
@pytest.mark.parametrize(
    ("memory", "cpu", "score"),
    [
        # Seen on Incus 6.0.4 and 7.0.2; 80 and 300 is (80 + 44) / 2.
        (80, 180, 2),
        (80, 250, 37),
        (80, 300, 62),
        (0, 300, 22),
    ],
)
def test_in_incus_a_host_that_is_loaded_beyond_measure_looks_idle(
    compatibility: IncusVersion, memory: int, cpu: int, score: int
) -> None:
    assert host(memory, cpu / 100, threads=1).score(compatibility) == score


@pytest.mark.parametrize(
    ("memory", "cpu", "score"), [(80, 180, 130), (80, 250, 165), (100, 10_000, 5050)]
)
def test_no_sum_overflows_in_the_corrected_form(
    memory: int, cpu: int, score: int
) -> None:
    assert host(memory, cpu / 100, threads=1).score(IncusVersion.CORRECTED) == score


@pytest.mark.parametrize(
    "compatibility", [IncusVersion.CORRECTED, IncusVersion.INCUS_7_0_2]
)
@pytest.mark.parametrize(
    ("cpu", "memory", "score"),
    [
        # The worked example: 63 and 16, 64 and 16, 20 and 60, 20 and 53 percent.
        (1, 7 * GIB, 39),
        (1, 7372 * MIB, 40),
        (8, 128 * MIB, 40),
        (7, 128 * MIB, 36),
    ],
)
def test_what_a_guest_needs_is_added_before_it_is_counted(
    compatibility: IncusVersion, cpu: float, memory: int, score: int
) -> None:
    assert (
        host(20, 1.6).with_guest(cpu, memory, compatibility).score(compatibility)
        == score
    )


@pytest.mark.parametrize(
    "compatibility", [IncusVersion.INCUS_6_0, IncusVersion.INCUS_7_3]
)
def test_in_older_forms_cores_are_added_to_the_memory_and_bytes_to_the_load(
    compatibility: IncusVersion,
) -> None:
    # 64 GiB is so much load that nothing is left of it in eight bits, and 32
    # bytes more are in use: (20 + 0) / 2.
    full = host(20, 1.6).with_guest(32, 64 * GIB, compatibility)

    assert full.used == host(20, 1.6).used + 32
    assert full.load == 1.6 + 64 * GIB
    assert full.score(compatibility) == 10


@pytest.mark.parametrize(
    "compatibility", [IncusVersion.INCUS_6_0, IncusVersion.INCUS_7_3]
)
def test_in_older_forms_a_small_guest_adds_what_is_in_the_lowest_byte(
    compatibility: IncusVersion,
) -> None:
    # By hand: 100 * 16 MiB / 16 is 104857600, whose lowest byte is 0; one byte
    # more is 6.25 percent of 16 threads.
    small = host(20, 0.0).with_guest(1, 16 * MIB, compatibility)
    odd = host(20, 0.0).with_guest(1, 16 * MIB + 1, compatibility)

    assert small.score(compatibility) == (20 + 0) // 2
    assert odd.score(compatibility) == (20 + 6) // 2


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0.0, 0),
        (99.9, 99),
        (255.9, 255),
        (256.0, 0),
        (300.0, 44),
        (2**31 - 1.0, 255),
        (2.0**31, 0),
        (1e30, 0),
    ],
)
def test_eight_bits_are_kept_of_what_fits_into_31_and_else_none(
    value: float, kept: int
) -> None:
    assert to_uint8(value) == kept


AMOUNTS = st.floats(0, 1e18)


@given(st.integers(1, 10**18), st.integers(0, 10**18), st.floats(0.001, 1e6), AMOUNTS)
def test_score_never_falls_when_more_is_in_use(
    memory: int, used: int, threads: float, load: float
) -> None:
    before = ScoredNode(memory=memory, used=used, threads=threads, load=load)
    after = before.with_guest(1.5, GIB, IncusVersion.CORRECTED)

    assert after.score(IncusVersion.CORRECTED) >= before.score(IncusVersion.CORRECTED)
    for compatibility in ORIGINAL:
        assert 0 <= after.score(compatibility) <= 127


def test_a_guest_that_leaves_never_leaves_less_than_nothing() -> None:
    left = host(20, 1.6).without_guest(3.0, 16 * GIB)

    assert (left.used, left.load) == (0, 0.0)
