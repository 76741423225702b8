from .beam import BeamLimits as BeamLimits
from .beam import BeamPlacements as BeamPlacements
from .bounds.lower_bound import lower_bound as lower_bound
from .evaluation import Solution as Solution
from .evaluation import cost_breakdown as cost_breakdown
from .evaluation import evaluate as evaluate
from .exhaustive import PlacementGraph as PlacementGraph
from .exhaustive import ReachablePlacements as ReachablePlacements
from .exhaustive import UnitLimit as UnitLimit
from .exhaustive import UnitMove as UnitMove
from .exhaustive import imbalance_costs as imbalance_costs
from .exhaustive import overfilled as overfilled
from .exhaustive import placement_costs as placement_costs
from .exhaustive import placement_loads as placement_loads
from .feasibility import FEASIBILITY_SLACK as FEASIBILITY_SLACK
from .feasibility import budget_use as budget_use
from .feasibility import loads as loads
from .node_cost import imbalance_distance as imbalance_distance
from .node_cost import loss_of_return as loss_of_return
from .node_cost import node_costs as node_costs
from .objective import Objective as Objective
from .objective import Term as Term
from .objective import priority_weight as priority_weight
from .problem import Floats as Floats
from .problem import GroupSets as GroupSets
from .problem import IndexLists as IndexLists
from .problem import Indices as Indices
from .problem import Mask as Mask
from .problem import Problem as Problem
from .problem import RatioTerm as RatioTerm
from .problem import forbid_nodes as forbid_nodes
from .problem import freeze_groups as freeze_groups
from .search.annealing import AnnealingSearch as AnnealingSearch
from .search.initial_solution import (
    initial_solution as initial_solution,
)
from .search.local_search import is_small as is_small
from .search.method import END_OF_SEARCH as END_OF_SEARCH
from .search.method import IterationLimit as IterationLimit
from .search.method import Portion as Portion
from .search.method import ScaledIterationLimit as ScaledIterationLimit
from .search.method import StoppingCriterion as StoppingCriterion
from .search.selection import SearchKind as SearchKind
from .search.selection import (
    has_compiled_code_provider as has_compiled_code_provider,
)
from .search.selection import (
    register_compiled_code as register_compiled_code,
)
from .search.selection import select_search as select_search
from .solve import solve as solve
