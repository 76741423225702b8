"""Readers of traces, by the name of the format."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.simulation.traces.alibaba import read_alibaba as read_alibaba
from opendrs.simulation.traces.azure import read_azure as read_azure
from opendrs.simulation.traces.bitbrains import read_bitbrains as read_bitbrains
from opendrs.simulation.traces.google2011 import read_google2011 as read_google2011
from opendrs.simulation.traces.google2019 import read_google2019 as read_google2019
from opendrs.simulation.traces.native import read_native_csv as read_native_csv
from opendrs.simulation.traces.native import read_native_parquet as read_native_parquet
from opendrs.simulation.traces.planetlab import Trace as Trace
from opendrs.simulation.traces.planetlab import read_planetlab as read_planetlab
from opendrs.simulation.traces.planetlab import read_planetlab_day as read_planetlab_day
from opendrs.simulation.traces.window import TraceReader as TraceReader
from opendrs.simulation.traces.window import WindowSettings as WindowSettings

READERS: Mapping[str, TraceReader] = {
    "planetlab": read_planetlab,
    "google": read_google2011,
    "bitbrains": read_bitbrains,
    "azure": read_azure,
    "alibaba": read_alibaba,
    "google2019": read_google2019,
    "csv": read_native_csv,
    "parquet": read_native_parquet,
}
