"""Losses of one node after the other, simulated by several processes at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

from opendrs.errors import OpenDRSError
from opendrs.model import NodeId
from opendrs.sim.drill.losing import AfterLoss, LossSimulation
from opendrs.sim.drill.losses import Loss

MANY_SERVICES = 400  # from here on, more processes are worth it


@contextmanager
def simulated_losses(
    simulation: LossSimulation, nodes: Sequence[NodeId], processes: int | None = None
) -> Iterator[Iterator[Loss]]:
    """Give what follows from the loss of each node, in order.

    The processes are copies of this one, with the common beginning of all losses
    done. They have to be made before this process has threads, such as that of a
    progress bar: so they are made at once.

    Args:
        simulation: What simulates a loss.
        nodes: The nodes.
        processes: How many simulate losses; None for as many as there are cores, or
            this one alone where the cluster is small or the platform is not Linux.

    Raises:
        OpenDRSError: One of the processes was killed.
    """
    count = _usual_count(simulation) if processes is None else processes
    if min(count, len(nodes)) < 2:
        yield (simulation.loss_of([node]) for node in nodes)
        return
    kept, held = Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(count, len(nodes)), get_context("fork"), _begin, (simulation, kept, held)
    )
    try:
        ends = pool.map(_after_loss, nodes)
        yield (
            simulation.loss_from([node], end)
            for node, end in zip(nodes, ends, strict=True)
        )
    except BrokenProcessPool as error:
        raise OpenDRSError(
            "drill: a process that simulates losses was killed, probably for lack of "
            "memory; try again, or simulate the loss of one node: --fail NODE"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        kept.close()
        held.close()


def _usual_count(simulation: LossSimulation) -> int:
    if simulation.service_count < MANY_SERVICES or sys.platform != "linux":
        return 1
    return len(os.sched_getaffinity(0))


_simulation: LossSimulation


def _begin(simulation: LossSimulation, kept: Connection, held: Connection) -> None:
    """Prepare a process; it ends when the one that made it ends, however that is."""
    global _simulation  # noqa: PLW0603 - the only state of the process
    _simulation = simulation
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    held.close()
    threading.Thread(target=_end_with, args=(kept,), daemon=True).start()


def _end_with(kept: Connection) -> None:
    kept.poll(None)
    os._exit(1)


def _after_loss(node: NodeId) -> AfterLoss:
    return _simulation.after_loss([node])
