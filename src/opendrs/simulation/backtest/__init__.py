"""Backtest: policies over the recorded load of a cluster."""

from opendrs.simulation.backtest.context import PolicyWindows as PolicyWindows
from opendrs.simulation.backtest.meter import BacktestMetrics as BacktestMetrics
from opendrs.simulation.backtest.meter import SeriesPoint as SeriesPoint
from opendrs.simulation.backtest.record import LoadRecord as LoadRecord
from opendrs.simulation.backtest.record import RecordGap as RecordGap
from opendrs.simulation.backtest.run import BacktestRow as BacktestRow
from opendrs.simulation.backtest.run import BacktestSettings as BacktestSettings
from opendrs.simulation.backtest.run import RowKind as RowKind
from opendrs.simulation.backtest.run import run_backtest as run_backtest
