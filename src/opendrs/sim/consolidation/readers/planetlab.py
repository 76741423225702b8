"""Days of PlanetLab."""

from __future__ import annotations

from pathlib import Path

from opendrs.sim.consolidation.readers.window import WHOLE, Window, cut, limited
from opendrs.sim.consolidation.traces import PERCENT, read_planetlab
from opendrs.sim.consolidation.workload import Workload

STEP = 300.0  # s


def planetlab(path: Path, window: Window = WHOLE) -> Workload:
    """Return a day of PlanetLab, of which memory was not recorded.

    Args:
        path: A directory with a file per guest, or an archive of one; each file
            holds 288 whole percentages, one a line, every 300 s.
        window: Which part of it.

    Raises:
        InvalidFileError: There is nothing, or not what there should be.
        InvalidSettingError: The window does not suit it.

    Source:
        Park and Pai, CoMon (2006); published with CloudSim, Beloglazov and Buyya
        (CCPE 2012).
    """
    trace = read_planetlab(path)
    cpu, interval = cut(path, trace.percent / PERCENT, window, STEP)
    return Workload(
        names=trace.names[: len(cpu)],
        cpu=cpu,
        interval=interval,
        notes=limited(window, len(trace.names)),
    )
