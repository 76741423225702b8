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
from opendrs.pve_ha.simulator.failure_impact import FailureImpact
from opendrs.pve_ha.simulator.node_failure import FailureRun, NodeFailureSimulation

MIN_SERVICES_FOR_POOL = 400  # from here on, more processes are worth it


@contextmanager
def simulate_failures(
    simulation: NodeFailureSimulation,
    nodes: Sequence[NodeId],
    processes: int | None = None,
) -> Iterator[Iterator[FailureImpact]]:
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
    count = _default_process_count(simulation) if processes is None else processes
    if min(count, len(nodes)) < 2:
        yield (simulation.simulate([node]) for node in nodes)
        return
    reader, writer = Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        min(count, len(nodes)),
        get_context("fork"),
        _initialize_process,
        (simulation, reader, writer),
    )
    try:
        failure_runs = pool.map(_run_failure, nodes)
        yield (
            simulation.impact_of([node], failure_run)
            for node, failure_run in zip(nodes, failure_runs, strict=True)
        )
    except BrokenProcessPool as error:
        raise OpenDRSError(
            "drill: a process that simulates losses was killed, probably for lack of "
            "memory; try again, or simulate the loss of one node: --fail NODE"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        reader.close()
        writer.close()


def _default_process_count(simulation: NodeFailureSimulation) -> int:
    if simulation.service_count < MIN_SERVICES_FOR_POOL or sys.platform != "linux":
        return 1
    return len(os.sched_getaffinity(0))


_simulation: NodeFailureSimulation


def _initialize_process(
    simulation: NodeFailureSimulation, reader: Connection, writer: Connection
) -> None:
    """Prepare a process; it ends when the one that made it ends, however that is."""
    global _simulation  # noqa: PLW0603 - the only state of the process
    _simulation = simulation
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer.close()
    threading.Thread(target=_exit_with_parent, args=(reader,), daemon=True).start()


def _exit_with_parent(reader: Connection) -> None:
    reader.poll(None)
    os._exit(1)


def _run_failure(node: NodeId) -> FailureRun:
    return _simulation.run_failure([node])
