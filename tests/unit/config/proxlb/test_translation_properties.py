"""Any document is translated to a valid configuration, or rejected with its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.cli.import_configuration import configuration_text
from opendrs.cli.platforms import PLATFORMS
from opendrs.config.parsing import parse_toml
from opendrs.config.proxlb import Translation, translate
from opendrs.config.proxlb.schema import ProxlbConfiguration
from opendrs.config.settings_reading import settings_and_diagnostics

API = {"hosts": ["n1"], "user": "lb@pve", "token_id": "mover", "token_secret": "s"}
TEXTS = st.sampled_from(
    ["n1", "n2:8006", "fd00::1", "lb@pve", "memory", "psi", "affinity", "hours", ""]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 200) | st.floats() | TEXTS | st.text()
)
FLAGS = st.booleans() | st.sampled_from([0, 1])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner),
    max_leaves=6,
)


def _section(name: str) -> st.SearchStrategy[dict[str, Any]]:
    model: Any = ProxlbConfiguration.model_fields[name].annotation
    keys = [field.alias or key for key, field in model.model_fields.items()]
    return st.dictionaries(st.sampled_from(keys), VALUES, max_size=2)


def assert_valid(result: Translation) -> None:
    """Check that OpenDRS reads what was translated, without any error."""
    document = parse_toml(configuration_text(result, "lab"), "x")
    _, diagnostics = settings_and_diagnostics(document, "x", Path(), PLATFORMS)
    assert [str(each) for each in diagnostics] == []


@settings(max_examples=100)
@given(st.data())
def test_any_document_is_translated_or_rejected(data: st.DataObject) -> None:
    document = {
        name: data.draw(_section(name)) for name in ProxlbConfiguration.model_fields
    }
    document["proxmox_api"] = API | document["proxmox_api"]

    result, problems = translate(document, trusted=False)

    if problems:
        assert result.settings == []
    else:
        assert_valid(result)


NAMES = st.lists(st.text(), max_size=3)
POOLS = st.dictionaries(
    st.text(),
    st.fixed_dictionaries(
        {}, optional={"type": st.just("affinity"), "pin": NAMES, "strict": FLAGS}
    ),
    max_size=3,
)


@given(NAMES, NAMES, NAMES, POOLS)
def test_any_names_are_translated(
    drained: list[str],
    ignored: list[str],
    guests: list[str],
    pools: dict[str, object],
) -> None:
    cluster = {
        "maintenance_nodes": drained,
        "ignore_nodes": [each for each in ignored if each not in drained],
        "ignore_guests": guests,
    }
    document = {
        "proxmox_api": API,
        "proxmox_cluster": cluster,
        "balancing": {"pools": pools},
    }

    result, problems = translate(document, trusted=False)

    assert problems == ()
    assert_valid(result)
