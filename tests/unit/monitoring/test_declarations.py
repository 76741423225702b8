"""Declared metrics: conventions of Prometheus, and the published reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.monitoring.declarations import (
    METRICS,
    MetricDeclaration,
    MetricType,
    main,
)

PUBLISHED = Path(__file__).parents[3] / "docs/reference/metrics.md"


def test_published_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    main()

    assert capsys.readouterr().out == PUBLISHED.read_text(), "run: make metrics"


@pytest.mark.parametrize("declared", METRICS, ids=lambda each: each.name)
def test_name_follows_conventions(declared: MetricDeclaration) -> None:
    assert re.fullmatch(r"opendrs(_[a-z]+)+", declared.name)
    assert declared.name.endswith("_total") == (declared.type is MetricType.COUNTER)
    assert declared.help.endswith(".")
    assert not {"guest", "le", "job", "instance"} & set(declared.labels)


def test_names_are_unique() -> None:
    assert len({each.name for each in METRICS}) == len(METRICS)
