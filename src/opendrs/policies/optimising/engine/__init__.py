"""Searching for assignments that cost less: what they cost, and how to find them."""

from opendrs.policies.optimising.engine.evaluation import CostParts as CostParts
from opendrs.policies.optimising.engine.evaluation import cost as cost
from opendrs.policies.optimising.engine.evaluation import cost_parts as cost_parts
from opendrs.policies.optimising.engine.evaluation import faults as faults
from opendrs.policies.optimising.engine.evaluation import loads as loads
from opendrs.policies.optimising.engine.searching import Search as Search
from opendrs.policies.optimising.engine.searching import Solution as Solution
