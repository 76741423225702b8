"""One run as it is handed to whoever does it: this process, another, a cluster."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache

from opendrs import __version__
from opendrs.errors import InvalidFileError, UnsupportedError
from opendrs.sim.consolidation.scenario.running import (
    Load,
    Metrics,
    digest_of,
    load_of,
    metrics_of,
)
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Source,
    Stage,
    source_name,
)

Done = Generator[tuple["Task", Metrics], None, None]
"""What comes of tasks, as they are done; to be closed, which stops the others."""
KEPT = 2  # loads a process keeps; runs of one load come one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A run that is to be done.

    Attributes:
        identity: What tells it from any other.
        stage: All that it needs but the policy.
        contender: The policy.
        digest: That of its load.
        version: Which opendrs is to do it.
    """

    identity: str
    stage: Stage
    contender: Contender
    digest: str
    version: str = __version__


def done(task: Task) -> Metrics:
    """Return what comes of *task*, whose load is read or drawn here.

    Raises:
        InvalidFileError: The load is not what it was when the sweep began.
    """
    return metrics_of(task.stage, task.contender, own_load(task))


def own_load(task: Task) -> Load:
    """Return the load of *task*, read or drawn here.

    Raises:
        InvalidFileError: It is not what it was when the sweep began.
    """
    return _kept(task.stage.source, task.stage.model, task.digest)


@lru_cache(maxsize=KEPT)
def _kept(source: Source, model: Model, digest: str) -> Load:
    load = load_of(source, model)
    if digest_of(load) != digest:
        raise InvalidFileError(
            f"{source_name(source)} is not what it was when the sweep began"
        )
    return load


def done_with(task: Task, load: Load) -> Metrics:
    """Return what comes of *task* with a *load* that is at hand.

    Raises:
        UnsupportedError: Another version of opendrs is to do it.
    """
    if task.version != __version__:
        raise UnsupportedError(
            f"a worker has opendrs {__version__}, not {task.version}: install the same"
        )
    return metrics_of(task.stage, task.contender, load)
