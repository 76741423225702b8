from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import NodeLoad, StartScorer, start_scores, start_scores_array
from opendrs.metrics.load import criteria
from opendrs.model import GIB, Resources

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
    assert start_scores_array(nodes, limit) == start_scores(nodes, limit)


@given(loads.filter(len), amounts)
def test_rounded_scores_of_starts_prefer_what_is_clearly_better(
    nodes: list[NodeLoad], limit: Resources
) -> None:
    exact, rounded = start_scores(nodes, limit), StartScorer(nodes).scores(limit)

    worst = max(exact) - exact[max(range(len(nodes)), key=rounded.__getitem__)]

    assert worst < 1e-6 or _have_nearly_equal_scores(nodes, limit)


def _have_nearly_equal_scores(nodes: list[NodeLoad], limit: Resources) -> bool:
    """Return whether it is but for rounding the same where the guest starts."""
    futures = [
        criteria([*nodes[:i], node.with_started_guest(limit), *nodes[i + 1 :]])
        for i, node in enumerate(nodes)
    ]
    return all(max(c) - min(c) < 1e-6 for c in zip(*futures, strict=True))


@given(st.builds(NodeLoad, capacities, amounts), st.integers(2, 40), amounts)
def test_rounded_scores_of_equal_nodes_are_equal(
    node: NodeLoad, count: int, limit: Resources
) -> None:
    scores = StartScorer([node] * count).scores(limit)

    assert len(set(scores)) == 1


@given(loads.filter(len), amounts, st.data())
def test_a_load_that_was_put_counts(
    nodes: list[NodeLoad], limit: Resources, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(nodes) - 1))
    board = StartScorer(nodes)
    board.scores(limit)
    nodes[at] = nodes[at].with_started_guest(limit)
    board.update(at, nodes[at])

    assert board.scores(limit) == StartScorer(nodes).scores(limit)
