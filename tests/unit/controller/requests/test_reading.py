"""A body is read up to the first few problems, and as the model would read it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import ValidationError

from opendrs.controller.requests.reading import BodyError, read_request
from opendrs.controller.requests.wire import (
    LARGEST_BODY,
    MOST_GUESTS,
    MOST_SAMPLES,
    MOST_SAMPLES_IN_ALL,
    Request,
    Verdict,
)

FIELDS = ("interval", "guests", "own")
VALID = {
    "id": "5c6f6ad0-6f0f-4f0e-9d5b-6a4c3d1d8a11",
    "node": "h1",
    "sequence": 17,
    "taken_at": "2026-11-21T13:00:00+01:00",
    "verdict": "overloaded",
    "leaving": ["vm1", 'ü\n"\\'],
    "samples": {"interval": 300.0, "guests": {"vm1": [0.3, 1, 2e-1]}, "own": []},
}
NAMES = st.one_of(st.sampled_from([*VALID, *FIELDS]), st.text(max_size=3))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from([VALID["id"], VALID["taken_at"], *Verdict]),
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)
SAMPLES = st.fixed_dictionaries(
    {
        "interval": st.just(60) | SCALARS,
        "guests": st.dictionaries(NAMES, st.lists(SCALARS, max_size=3) | JSON),
        "own": st.lists(st.floats(0, 1e6), max_size=3) | JSON,
    }
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "id": SCALARS,
        "node": SCALARS,
        "sequence": SCALARS,
        "taken_at": SCALARS,
        "verdict": SCALARS,
        "leaving": st.lists(st.text(max_size=2), max_size=3) | JSON,
        "samples": SAMPLES | JSON,
        "more": JSON,
    },
)


def unmasked(name: str) -> str:
    return name


def read(body: str | bytes) -> Request:
    return read_request(body.encode() if isinstance(body, str) else body, unmasked)


def problems(body: str | bytes) -> str:
    with pytest.raises(BodyError) as raised:
        read(body)
    return str(raised.value)


def changed(**changes: object) -> str:
    return json.dumps({**VALID, **changes})


def with_samples(**changes: object) -> str:
    samples = VALID["samples"]
    assert isinstance(samples, Mapping)
    return changed(samples={**samples, **changes})


@pytest.mark.parametrize("indent", [None, 4])
def test_a_request_is_read_as_the_model_reads_it(indent: int | None) -> None:
    body = json.dumps(VALID, indent=indent)

    assert read(body) == Request.model_validate_json(body)
    assert read(body).leaving[1] == 'ü\n"\\'


@given(CHANGES, st.sampled_from(["", *VALID]))
def test_whatever_is_sent_is_taken_where_the_model_takes_it(
    changes: dict[str, object], missing: str
) -> None:
    body = json.dumps({k: v for k, v in {**VALID, **changes}.items() if k != missing})

    try:
        expected = Request.model_validate_json(body)
    except ValidationError:
        assert problems(body)
    else:
        assert read(body) == expected


@given(st.binary(max_size=40), st.integers(0, 300), st.integers(0, 5))
def test_what_is_no_json_is_never_taken_and_never_fails(
    noise: bytes, at: int, gone: int
) -> None:
    whole = json.dumps(VALID).encode()
    body = whole[:at] + noise + whole[at + gone :]

    try:
        expected = Request.model_validate_json(body)
    except ValidationError:
        assert problems(body)
    else:
        assert read(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"node": "h1", "node": "h2"}', "node: expected each name only once"),
        (with_samples().replace('"vm1": [', '"vm1": [], "vm1": ['), "only once"),
        (changed() + "{}", "expected nothing after the request"),
        (changed(node="n" * 256), "node: String should have at most 255 characters"),
        ('{"node": "\\ud800"}', "node: Invalid JSON; id: Field required"),
        (changed(leaving="vm1"), "leaving: expected a list"),
        (changed(leaving=[["vm1"]]), "leaving[0]: expected a string"),
        (changed(verdict=["calm"]), "verdict: expected a single value"),
        (changed(sequence=10**70), "sequence: expected a number of up to 64 char"),
        (with_samples(own=[[0.1]]), "samples.own: expected a list of numbers"),
        (with_samples(own=[float("nan")]), "own[0]: Input should be a finite number"),
        (with_samples(own=[0, "x"]), "samples.own: expected a list of numbers"),
        (with_samples(own=[True]), "samples.own[0]: Input should be a valid number"),
        (with_samples(own=[10**700]), "samples.own: expected numbers of up to 64 char"),
        (with_samples(own=[0] * (MOST_SAMPLES + 1)), "own: expected at most 1000 samp"),
        (
            with_samples(guests={f"v{n}": [] for n in range(MOST_GUESTS + 1)}),
            "samples.guests: expected at most 10000 names",
        ),
        (
            changed(leaving=[f"v{n}" for n in range(MOST_GUESTS + 1)]),
            "leaving: expected at most 10000 names",
        ),
        (
            with_samples(
                guests={
                    f"v{n}": [0] * MOST_SAMPLES
                    for n in range(MOST_SAMPLES_IN_ALL // MOST_SAMPLES + 1)
                }
            ),
            "samples: expected at most 400000 samples in all",
        ),
    ],
)
def test_says_what_is_wrong(body: str, expected: str) -> None:
    assert expected in problems(body)


def test_a_list_that_is_not_wanted_ends_reading_with_one_problem() -> None:
    expected = "more: Extra inputs are not permitted"

    assert problems('{"more": [[1], {}], "less": 0}') == expected


def test_stops_at_the_fifth_problem() -> None:
    guests = {f"v{number}": [-1] for number in range(1000)}

    found = problems(with_samples(guests=guests))

    assert found.count("greater than or equal to 0") == 5
    assert found.endswith("; there may be more")


# How a body of the largest size begins, and what it repeats.
HOSTILE = {
    "objects": ('{"samples":{"own":[', "{},"),
    "lists": ('{"samples":{"guests":{"a":[', "[],"),
    "texts": ('{"samples":{"own":[', '"",'),
    "numbers": ('{"samples":{"own":[', "-1,"),
    "names": ('{"leaving":[', '"a",'),
    "guests": ('{"samples":{"guests":{', '"a":[],'),
    "fields": ("{", '"a":0,'),
    "nesting": ('{"a":', "["),
    "digits": ('{"sequence":', "9"),
    "digits of a sample": ('{"samples":{"own":[', "9"),
    "characters": ('{"node":"', "n"),
    "escapes": ('{"node":"', "\\u0041"),
    "white space": ("", " "),
}
MEASURED = """
import json, resource, sys
from opendrs.controller.requests.reading import BodyError, read_request

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = None
for start, repeated, times in [["", "", 0], *json.load(sys.stdin)]:
    body = bytearray((start + repeated * times).encode())
    before = before or peak()
    try:
        read_request(body, str)
    except BodyError:
        pass
print(peak() - before)
"""


def full(start: str, repeated: str) -> tuple[str, str, int]:
    return start, repeated, (LARGEST_BODY - len(start)) // len(repeated)


def memory(*bodies: tuple[str, str, int]) -> float:
    """Return how much memory a process needs to make and read *bodies*, in MiB."""
    process = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", MEASURED],
        input=json.dumps(bodies),
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout) / 1024


@pytest.mark.parametrize("what", HOSTILE)
def test_what_repeats_the_same_in_4_mib_is_no_request(what: str) -> None:
    start, repeated, times = full(*HOSTILE[what])

    assert len(problems(start + repeated * times)) < 500


def test_what_is_no_request_takes_little_memory_whatever_it_repeats() -> None:
    most = 3 * LARGEST_BODY / 2**20  # the body, its text here, and a copy of a part

    assert memory(*(full(*each) for each in HOSTILE.values())) < most + 8


@pytest.mark.parametrize(("guests", "value"), [(400, 0.123456), (10_000, 0)])
def test_the_largest_request_is_read_in_little_memory(
    guests: int, value: float
) -> None:
    samples = [value] * ((MOST_SAMPLES_IN_ALL - 1) // guests)
    body = with_samples(guests={f"vm{number}": samples for number in range(guests)})

    assert len(read(body).samples.guests) == guests
    assert len(body) <= LARGEST_BODY
    assert memory((body, "", 0)) < 40
