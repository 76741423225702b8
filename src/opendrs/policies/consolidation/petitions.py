"""What each host says of itself, and what follows for the cluster.

OpenStack Neat's division of labour: on its host an agent tells whether the host is
overloaded or has little to do, and who should leave it; where they go is decided for
all hosts together. Unlike there, an overload goes before little to do, a host whose
agent says nothing is unknown, and requests of one cycle are decided about together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TypedDict

import numpy as np

from opendrs.model import GuestId, NodeId, NodeState, Snapshot
from opendrs.policies.consolidation.fleet import Told
from opendrs.policies.consolidation.memories import Memory, no_memory, with_sample
from opendrs.policies.consolidation.scene import Scene


class Verdict(StrEnum):
    """What an agent finds of its host."""

    CALM = "calm"
    UNDERLOADED = "underloaded"
    OVERLOADED = "overloaded"


class Petition(TypedDict):
    """What an agent asks for; JSON-able.

    Attributes:
        verdict: A `Verdict`.
        leaving: Who should leave an overloaded host, the first first.
    """

    verdict: str
    leaving: list[str]


class Petitions(TypedDict):
    """What all agents that can be heard have sent; JSON-able.

    Attributes:
        guests: The CPU each guest used, in cores, the oldest sample first.
        nodes: The CPU each node used outside its guests.
        petitions: What the agent of each node asks for. A node without one is
            unknown.
    """

    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    petitions: dict[str, Petition]


def heard(snapshot: Snapshot, petitions: Mapping[str, Petition]) -> Snapshot:
    """Return *snapshot* with the nodes unknown whose agents are silent."""
    silent = {
        name: replace(node, state=NodeState.UNKNOWN)
        for name, node in snapshot.nodes.items()
        if node.online and name not in petitions
    }
    return replace(snapshot, nodes={**snapshot.nodes, **silent})


def pooled(snapshot: Snapshot, memory: Petitions, length: int) -> Memory:
    """Return what is known of all hosts and guests, each with one sample at least.

    Of whom no agent has told, what is measured now is the first sample.

    Args:
        snapshot: The cluster now.
        memory: What the agents have told.
        length: How many samples are kept.
    """
    now = with_sample(no_memory(), snapshot, 1)
    return {
        **now,
        "guests": _told(memory["guests"], now["guests"], length),
        "nodes": _told(memory["nodes"], now["nodes"], length),
    }


def _told(
    told: Mapping[str, list[float]], now: Mapping[str, list[float]], length: int
) -> dict[str, list[float]]:
    return {name: (told.get(name) or here)[-length:] for name, here in now.items()}


def told(scene: Scene, petitions: Mapping[str, Petition]) -> Told:
    """Return what the agents ask for as columns.

    Who should leave and is not on that host any more, or may not be moved, is
    passed over.
    """
    verdicts = [_verdict(petitions, name) for name in scene.nodes]
    units = {guest.id: place for place, us in enumerate(scene.guests) for guest in us}
    return Told(
        overloaded=np.array([each is Verdict.OVERLOADED for each in verdicts], bool),
        underloaded=np.array([each is Verdict.UNDERLOADED for each in verdicts], bool),
        leaving={
            scene.index[NodeId(name)]: _leaving(scene, units, NodeId(name), petition)
            for name, petition in petitions.items()
            if name in scene.index
        },
    )


def _verdict(petitions: Mapping[str, Petition], node: NodeId) -> Verdict:
    petition = petitions.get(node)
    return Verdict.CALM if petition is None else Verdict(petition["verdict"])


def _leaving(
    scene: Scene, units: Mapping[GuestId, int], node: NodeId, petition: Petition
) -> list[int]:
    here = scene.index[node]
    found = [units.get(GuestId(name)) for name in petition["leaving"]]
    places = [place for place in found if place is not None]
    return [place for place in dict.fromkeys(places) if scene.crowd.host[place] == here]


def petition(scene: Scene, said: Told, node: NodeId) -> Petition:
    """Return what *node* says of itself, with the names of its guests."""
    here = scene.index[node]
    if said.overloaded[here]:
        verdict = Verdict.OVERLOADED
    elif said.underloaded[here]:
        verdict = Verdict.UNDERLOADED
    else:
        verdict = Verdict.CALM
    leaving = [
        g.id for place in said.leaving.get(here, ()) for g in scene.guests[place]
    ]
    return {"verdict": verdict.value, "leaving": [*leaving]}
