from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GIB, Resources
from opendrs.scoring import NodeLoad, start_scores, start_scores_columns

cores = st.floats(0, 32) | st.integers(0, 8).map(float)
sizes = st.integers(0, 64 * GIB) | st.integers(0, 8).map(lambda n: n * 8 * GIB)
amounts = st.builds(Resources, cores, sizes)
capacities = st.builds(
    Resources, st.integers(1, 128).map(float), st.integers(1 * GIB, 1024 * GIB)
)
loads = st.lists(st.builds(NodeLoad, capacities, amounts), max_size=12)


@given(loads, amounts)
def test_all_starts_at_once_score_as_one_after_the_other(
    nodes: list[NodeLoad], limit: Resources
) -> None:
    assert start_scores_columns(nodes, limit) == start_scores(nodes, limit)
