"""Solver library for placement problems. It imports neither snapshots nor rules."""

from opendrs.optimizer.bounds.lagrangian.dual import (
    lagrangian_bound as lagrangian_bound,
)
from opendrs.optimizer.bounds.polytope import nearest_point as nearest_point
from opendrs.optimizer.evaluation import Solution as Solution
from opendrs.optimizer.evaluation import cost_breakdown as cost_breakdown
from opendrs.optimizer.evaluation import infeasibilities as infeasibilities
from opendrs.optimizer.evaluation import loads as loads
from opendrs.optimizer.node_cost import imbalance_distance as imbalance_distance
from opendrs.optimizer.node_cost import loss_of_return as loss_of_return
from opendrs.optimizer.node_cost import node_costs as node_costs
from opendrs.optimizer.problem import Floats as Floats
from opendrs.optimizer.problem import GroupSets as GroupSets
from opendrs.optimizer.problem import IndexLists as IndexLists
from opendrs.optimizer.problem import Indices as Indices
from opendrs.optimizer.problem import Mask as Mask
from opendrs.optimizer.problem import Problem as Problem
from opendrs.optimizer.problem import freeze_groups as freeze_groups
from opendrs.optimizer.problem_arrays import CAPACITY_SLACK as CAPACITY_SLACK
from opendrs.optimizer.search.annealing import AnnealingSearch as AnnealingSearch
from opendrs.optimizer.search.block_search import BlockSearch as BlockSearch
from opendrs.optimizer.search.block_search import needs_blocks as needs_blocks
from opendrs.optimizer.search.budgeted_annealing import (
    BudgetedAnnealing as BudgetedAnnealing,
)
from opendrs.optimizer.search.initial_solution import (
    initial_solution as initial_solution,
)
from opendrs.optimizer.search.lagrangian import BINDING_USE as BINDING_USE
from opendrs.optimizer.search.lagrangian import LagrangianSearch as LagrangianSearch
from opendrs.optimizer.search.local_search import LocalSearch as LocalSearch
from opendrs.optimizer.search.local_search import is_small as is_small
from opendrs.optimizer.search.method import IterationLimit as IterationLimit
from opendrs.optimizer.search.method import SearchMethod as SearchMethod
from opendrs.optimizer.search.method import StoppingCriterion as StoppingCriterion
from opendrs.optimizer.search.selection import SearchKind as SearchKind
from opendrs.optimizer.search.selection import (
    has_compiled_code_provider as has_compiled_code_provider,
)
from opendrs.optimizer.search.selection import (
    register_compiled_code as register_compiled_code,
)
from opendrs.optimizer.search.selection import select_search as select_search
from opendrs.optimizer.search.selection import start_search as start_search
from opendrs.optimizer.solve import choose_method as choose_method
from opendrs.optimizer.solve import solve as solve
