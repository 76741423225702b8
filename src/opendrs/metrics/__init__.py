"""Metrics of a placement: load, imbalance, TOPSIS, AHP, start placement."""

from opendrs.metrics.ahp import AhpMethod as AhpMethod
from opendrs.metrics.ahp import ahp as ahp
from opendrs.metrics.ahp import judgment_matrix as judgment_matrix
from opendrs.metrics.imbalance import ImbalanceMetric as ImbalanceMetric
from opendrs.metrics.imbalance import imbalance as imbalance
from opendrs.metrics.imbalance import imbalances as imbalances
from opendrs.metrics.imbalance import sum_in_order as sum_in_order
from opendrs.metrics.imbalance import sum_of_rows as sum_of_rows
from opendrs.metrics.load import WEIGHTS as WEIGHTS
from opendrs.metrics.load import LoadModel as LoadModel
from opendrs.metrics.load import NodeLoad as NodeLoad
from opendrs.metrics.load import demand as demand
from opendrs.metrics.load import format_missing as format_missing
from opendrs.metrics.load import has_known_load as has_known_load
from opendrs.metrics.load import missing_metrics as missing_metrics
from opendrs.metrics.load import node_loads as node_loads
from opendrs.metrics.load import nodes_missing_metrics as nodes_missing_metrics
from opendrs.metrics.single_moves import SingleMove as SingleMove
from opendrs.metrics.single_moves import imbalance_after as imbalance_after
from opendrs.metrics.single_moves import rank_by_imbalance as rank_by_imbalance
from opendrs.metrics.single_moves import rank_by_topsis as rank_by_topsis
from opendrs.metrics.start_placement import StartScorer as StartScorer
from opendrs.metrics.start_placement import start_scores as start_scores
from opendrs.metrics.start_placement import start_scores_array as start_scores_array
from opendrs.metrics.topsis import rank_descending as rank_descending
from opendrs.metrics.topsis import topsis_array as topsis_array
