"""Readers of traces, by the name of the format."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.sim.consolidation.readers.alibaba import alibaba as alibaba
from opendrs.sim.consolidation.readers.azure import azure as azure
from opendrs.sim.consolidation.readers.bitbrains import bitbrains as bitbrains
from opendrs.sim.consolidation.readers.google2011 import google as google
from opendrs.sim.consolidation.readers.google2019 import google2019 as google2019
from opendrs.sim.consolidation.readers.own import parquet as parquet
from opendrs.sim.consolidation.readers.own import plain as plain
from opendrs.sim.consolidation.readers.planetlab import planetlab as planetlab
from opendrs.sim.consolidation.readers.window import Reader as Reader
from opendrs.sim.consolidation.readers.window import Window as Window

READERS: Mapping[str, Reader] = {
    "planetlab": planetlab,
    "google": google,
    "bitbrains": bitbrains,
    "azure": azure,
    "alibaba": alibaba,
    "google2019": google2019,
    "csv": plain,
    "parquet": parquet,
}
