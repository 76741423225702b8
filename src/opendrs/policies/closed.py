"""Nodes that would be better than the one that was chosen, but are closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opendrs.model import first_few


def closed_nodes(
    choices: Iterable[tuple[str, str]], merit: str = "would be better"
) -> Iterator[str]:
    """Yield one sentence for all nodes that one reason closes.

    Args:
        choices: Nodes, the best first, each with the reason why it is closed.
        merit: What makes them better.
    """
    alike: dict[str, list[str]] = {}
    for node, why in choices:
        alike.setdefault(why, []).append(node)
    for why, nodes in alike.items():
        each = "each of " if len(nodes) > 1 else ""
        yield f"{each}{first_few(nodes, joint=' and ')} {merit}, but {why}"
