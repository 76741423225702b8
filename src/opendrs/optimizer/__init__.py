"""Solver library for placement problems. It imports neither snapshots nor rules."""

from opendrs.optimizer.bounds.lower_bound import lower_bound as lower_bound
from opendrs.optimizer.evaluation import Solution as Solution
from opendrs.optimizer.evaluation import cost_breakdown as cost_breakdown
from opendrs.optimizer.evaluation import evaluate as evaluate
from opendrs.optimizer.exhaustive import PlacementGraph as PlacementGraph
from opendrs.optimizer.exhaustive import ReachablePlacements as ReachablePlacements
from opendrs.optimizer.exhaustive import UnitLimit as UnitLimit
from opendrs.optimizer.exhaustive import UnitMove as UnitMove
from opendrs.optimizer.exhaustive import imbalance_costs as imbalance_costs
from opendrs.optimizer.exhaustive import overfilled as overfilled
from opendrs.optimizer.exhaustive import placement_costs as placement_costs
from opendrs.optimizer.exhaustive import placement_loads as placement_loads
from opendrs.optimizer.feasibility import FEASIBILITY_SLACK as FEASIBILITY_SLACK
from opendrs.optimizer.feasibility import budget_use as budget_use
from opendrs.optimizer.feasibility import loads as loads
from opendrs.optimizer.node_cost import imbalance_distance as imbalance_distance
from opendrs.optimizer.node_cost import loss_of_return as loss_of_return
from opendrs.optimizer.node_cost import node_costs as node_costs
from opendrs.optimizer.objective import Objective as Objective
from opendrs.optimizer.objective import Term as Term
from opendrs.optimizer.objective import priority_weight as priority_weight
from opendrs.optimizer.problem import Floats as Floats
from opendrs.optimizer.problem import GroupSets as GroupSets
from opendrs.optimizer.problem import IndexLists as IndexLists
from opendrs.optimizer.problem import Indices as Indices
from opendrs.optimizer.problem import Mask as Mask
from opendrs.optimizer.problem import Problem as Problem
from opendrs.optimizer.problem import RatioTerm as RatioTerm
from opendrs.optimizer.problem import forbid_nodes as forbid_nodes
from opendrs.optimizer.problem import freeze_groups as freeze_groups
from opendrs.optimizer.search.annealing import AnnealingSearch as AnnealingSearch
from opendrs.optimizer.search.initial_solution import (
    initial_solution as initial_solution,
)
from opendrs.optimizer.search.local_search import is_small as is_small
from opendrs.optimizer.search.method import IterationLimit as IterationLimit
from opendrs.optimizer.search.method import Portion as Portion
from opendrs.optimizer.search.method import ScaledIterationLimit as ScaledIterationLimit
from opendrs.optimizer.search.method import StoppingCriterion as StoppingCriterion
from opendrs.optimizer.search.selection import SearchKind as SearchKind
from opendrs.optimizer.search.selection import (
    has_compiled_code_provider as has_compiled_code_provider,
)
from opendrs.optimizer.search.selection import (
    register_compiled_code as register_compiled_code,
)
from opendrs.optimizer.search.selection import select_search as select_search
from opendrs.optimizer.solve import solve as solve
