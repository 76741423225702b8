"""Policies: decisions about the migrations of a cluster."""

from opendrs.policies.auto_rebalance import AutoRebalance as AutoRebalance
from opendrs.policies.balance import Balance as Balance
from opendrs.policies.base import Decision as Decision
from opendrs.policies.base import DecisionReason as DecisionReason
from opendrs.policies.base import Policy as Policy
from opendrs.policies.base import reason_text as reason_text
from opendrs.policies.drain import Drain as Drain
from opendrs.policies.drain import Return as Return
from opendrs.policies.drain import ReturnMemory as ReturnMemory
from opendrs.policies.drain import guests_on as guests_on
from opendrs.policies.drain import nodes_in_maintenance as nodes_in_maintenance
from opendrs.policies.first_repair import completed as completed
from opendrs.policies.first_repair import decide as decide
from opendrs.policies.first_repair import first_repair as first_repair
from opendrs.policies.first_repair import repair_for as repair_for
from opendrs.policies.first_repair import repairs_rules as repairs_rules
from opendrs.policies.forecast import forecast_horizon_of as forecast_horizon_of
from opendrs.policies.registry import BUILT_IN_POLICIES as BUILT_IN_POLICIES
