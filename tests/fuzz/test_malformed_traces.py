"""Malformed traces are read, or rejected with a clear error."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.simulation.traces import READERS
from support.traces import WRITERS, random_load

WORDS = st.sampled_from(
    [
        *(b"nan", b"-1", b"1e308", b"1e17", b"inf", b"null", b"9" * 400, b"0", b""),
        *(b"\xff", b"\x00", b"\n", b"\r", b",", b";", b'"', b"{", b"}", b"[]"),
    ]
)
LOAD = random_load(seed=1, samples=12)


@st.composite
def damages(draw: st.DrawFn) -> tuple[int, float, int, bytes]:
    """Draw which file, where in it, how many bytes of it, and what instead."""
    return (
        draw(st.integers(0, 9)),
        draw(st.floats(0, 1)),
        draw(st.sampled_from([0, 1, 3, 10, 10_000])),
        draw(WORDS | st.binary(max_size=4)),
    )


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=40, deadline=None)
@given(damage=damages(), packed=st.booleans())
def test_damaged_trace_is_read_or_reported(
    kind: str, damage: tuple[int, float, int, bytes], *, packed: bool
) -> None:
    which, where, length, instead = damage
    with tempfile.TemporaryDirectory() as folder:
        path = WRITERS[kind](Path(folder), LOAD)
        files = sorted(Path(folder).iterdir())
        file = files[which % len(files)]
        within = packed and file.suffix == ".gz"
        content = file.read_bytes()
        content = gzip.decompress(content) if within else content
        place = int(where * len(content))
        content = content[:place] + instead + content[place + length :]
        file.write_bytes(gzip.compress(content) if within else content)

        try:
            work = READERS[kind](path)
        except ConfigurationError as error:
            assert str(path) in str(error)  # noqa: PT017 - either is fine
        else:
            assert len(work.names) >= 1
