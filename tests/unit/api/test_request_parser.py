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

from opendrs.api.request_parser import InvalidBodyError, parse_request
from opendrs.config.api_schema import (
    MAX_BODY_BYTES,
    MAX_GUESTS,
    MAX_SAMPLES,
    MAX_TOTAL_SAMPLES,
    RequestBody,
)
from opendrs.model import LoadState

FIELDS = ("interval", "guests", "host_overhead")
VALID = {
    "id": "5c6f6ad0-6f0f-4f0e-9d5b-6a4c3d1d8a11",
    "node": "h1",
    "sequence": 17,
    "taken_at": "2026-11-21T13:00:00+01:00",
    "load_state": "overloaded",
    "evict": ["vm1", 'ü\n"\\'],
    "samples": {
        "interval": 300.0,
        "guests": {"vm1": [0.3, 1, 2e-1]},
        "host_overhead": [],
    },
}
NAMES = st.one_of(st.sampled_from([*VALID, *FIELDS]), st.text(max_size=3))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.sampled_from([VALID["id"], VALID["taken_at"], *LoadState]),
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
        "host_overhead": st.lists(st.floats(0, 1e6), max_size=3) | JSON,
    }
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "id": SCALARS,
        "node": SCALARS,
        "sequence": SCALARS,
        "taken_at": SCALARS,
        "load_state": SCALARS,
        "evict": st.lists(st.text(max_size=2), max_size=3) | JSON,
        "samples": SAMPLES | JSON,
        "more": JSON,
    },
)


def unmasked(name: str) -> str:
    return name


def read(body: str | bytes) -> RequestBody:
    return parse_request(body.encode() if isinstance(body, str) else body, unmasked)


def problems(body: str | bytes) -> str:
    with pytest.raises(InvalidBodyError) as raised:
        read(body)
    return str(raised.value)


def changed(**changes: object) -> str:
    return json.dumps({**VALID, **changes})


def with_samples(**changes: object) -> str:
    samples = VALID["samples"]
    assert isinstance(samples, Mapping)
    return changed(samples={**samples, **changes})


@pytest.mark.parametrize("indent", [None, 4])
def test_parsed_request_equals_model(indent: int | None) -> None:
    body = json.dumps(VALID, indent=indent)

    assert read(body) == RequestBody.model_validate_json(body)
    assert read(body).evict[1] == 'ü\n"\\'


@given(CHANGES, st.sampled_from(["", *VALID]))
def test_parser_accepts_what_model_accepts(
    changes: dict[str, object], missing: str
) -> None:
    body = json.dumps({k: v for k, v in {**VALID, **changes}.items() if k != missing})

    try:
        expected = RequestBody.model_validate_json(body)
    except ValidationError:
        assert problems(body)
    else:
        assert read(body) == expected


@given(st.binary(max_size=40), st.integers(0, 300), st.integers(0, 5))
def test_invalid_json_is_rejected(noise: bytes, at: int, gone: int) -> None:
    whole = json.dumps(VALID).encode()
    body = whole[:at] + noise + whole[at + gone :]

    try:
        expected = RequestBody.model_validate_json(body)
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
        (changed(evict="vm1"), "evict: expected a list"),
        (changed(evict=[["vm1"]]), "evict[0]: expected a string"),
        (changed(load_state=["normal"]), "load_state: expected a single value"),
        (changed(sequence=10**70), "sequence: expected a number of up to 64 char"),
        (
            with_samples(host_overhead=[[0.1]]),
            "samples.host_overhead: expected a list of numbers",
        ),
        (
            with_samples(host_overhead=[float("nan")]),
            "host_overhead[0]: Input should be a finite number",
        ),
        (
            with_samples(host_overhead=[0, "x"]),
            "samples.host_overhead: expected a list of numbers",
        ),
        (
            with_samples(host_overhead=[True]),
            "samples.host_overhead[0]: Input should be a valid number",
        ),
        (
            with_samples(host_overhead=[10**700]),
            "samples.host_overhead: expected numbers of up to 64 char",
        ),
        (
            with_samples(host_overhead=[0] * (MAX_SAMPLES + 1)),
            "host_overhead: expected at most 1000 samp",
        ),
        (
            with_samples(guests={f"v{n}": [] for n in range(MAX_GUESTS + 1)}),
            "samples.guests: expected at most 10000 names",
        ),
        (
            changed(evict=[f"v{n}" for n in range(MAX_GUESTS + 1)]),
            "evict: expected at most 10000 names",
        ),
        (
            with_samples(
                guests={
                    f"v{n}": [0] * MAX_SAMPLES
                    for n in range(MAX_TOTAL_SAMPLES // MAX_SAMPLES + 1)
                }
            ),
            "samples: expected at most 400000 samples in all",
        ),
    ],
)
def test_invalid_body_problems_name_fields(body: str, expected: str) -> None:
    assert expected in problems(body)


def test_invalid_places_have_json_pointers() -> None:
    too_long = "n" * 1000  # it is not repeated

    with pytest.raises(InvalidBodyError) as raised:
        read(changed(sequence=-1, **{"a/b~c": 1, too_long: 1}))

    pointers = [each.pointer for each in raised.value.errors]
    assert pointers == ["/sequence", "/a~1b~0c", ""]


def test_unexpected_list_stops_parsing() -> None:
    expected = "more: Extra inputs are not permitted"

    assert problems('{"more": [[1], {}], "less": 0}') == expected


def test_parsing_stops_at_fifth_problem() -> None:
    guests = {f"v{number}": [-1] for number in range(1000)}

    found = problems(with_samples(guests=guests))

    assert found.count("greater than or equal to 0") == 5
    assert found.endswith("; there may be more")


# How a body of the largest size begins, and what it repeats.
HOSTILE = {
    "objects": ('{"samples":{"host_overhead":[', "{},"),
    "lists": ('{"samples":{"guests":{"a":[', "[],"),
    "texts": ('{"samples":{"host_overhead":[', '"",'),
    "numbers": ('{"samples":{"host_overhead":[', "-1,"),
    "names": ('{"evict":[', '"a",'),
    "guests": ('{"samples":{"guests":{', '"a":[],'),
    "fields": ("{", '"a":0,'),
    "nesting": ('{"a":', "["),
    "digits": ('{"sequence":', "9"),
    "digits of a sample": ('{"samples":{"host_overhead":[', "9"),
    "characters": ('{"node":"', "n"),
    "escapes": ('{"node":"', "\\u0041"),
    "white space": ("", " "),
}
MEASURED = """
import json, resource, sys
from opendrs.api.request_parser import InvalidBodyError, parse_request

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = None
for start, repeated, times in [["", "", 0], *json.load(sys.stdin)]:
    body = bytearray((start + repeated * times).encode())
    before = before or peak()
    try:
        parse_request(body, str)
    except InvalidBodyError:
        pass
print(peak() - before)
"""


def full(start: str, repeated: str) -> tuple[str, str, int]:
    return start, repeated, (MAX_BODY_BYTES - len(start)) // len(repeated)


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
def test_repetitive_large_body_is_rejected(what: str) -> None:
    start, repeated, times = full(*HOSTILE[what])

    assert len(problems(start + repeated * times)) < 500


def test_rejected_large_body_uses_little_memory() -> None:
    most = 3 * MAX_BODY_BYTES / 2**20  # the body, its text here, and a copy of a part

    assert memory(*(full(*each) for each in HOSTILE.values())) < most + 8


@pytest.mark.parametrize(("guests", "value"), [(400, 0.123456), (10_000, 0)])
def test_largest_request_uses_little_memory(guests: int, value: float) -> None:
    samples = [value] * ((MAX_TOTAL_SAMPLES - 1) // guests)
    body = with_samples(guests={f"vm{number}": samples for number in range(guests)})

    assert len(read(body).samples.guests) == guests
    assert len(body) <= MAX_BODY_BYTES
    assert memory((body, "", 0)) < 40
