"""Run the guests on few nodes, so that the others can be powered off.

The problem is divided as in OpenStack Neat: which nodes are overloaded, which can be
drained, which guests leave, and where they go. By default one forecast of each node's
load answers all four questions (`detector = "forecast"`); the methods of the literature
can be selected by name. Unlike in Neat, memory, rules, CPU models and mobility are
always respected, the number of drains is limited, and no guest migrates within its
cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opendrs.arrays import AllowedNodes
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    MAX_BANDWIDTH,
    MAX_DURATION,
    BytesPerSecond,
    Limits,
    NodeId,
    Seconds,
    Snapshot,
)
from opendrs.policies.base import (
    CONSOLIDATE,
    MAX_WEIGHT,
    Decision,
    DecisionReason,
    require_ratio,
)
from opendrs.policies.consolidation.agent_requests import (
    AgentInput,
    AgentRequest,
    agent_reports,
    agent_request,
    exclude_unresponsive,
    merge_samples,
)
from opendrs.policies.consolidation.algorithm import assess_nodes, plan_moves
from opendrs.policies.consolidation.decision import DecisionBuilder
from opendrs.policies.consolidation.detector import OverloadCounters, require_samples
from opendrs.policies.consolidation.history import Floats
from opendrs.policies.consolidation.input import ConsolidationInput
from opendrs.policies.consolidation.memory import (
    ConsolidationMemory,
    append_sample,
    empty_memory,
)
from opendrs.policies.consolidation.power_curve import SPECPOWER
from opendrs.policies.consolidation.settings import (
    DetectorKind,
    DetectorSettings,
    EvictionRule,
    ForecastSettings,
    PlacementStrategy,
    build_detector,
    build_guest_selector,
    build_underload_detector,
)
from opendrs.policies.preconditions import MeasuredPart, migration_in_progress
from opendrs.policies.tolerated_failures import keeps_tolerance

DETECTOR_SETTINGS = ("detector_parameter", "guest_selection", "placement")
FORECAST_SETTINGS = ("min_risk_reduction",)
# Chosen on PlanetLab 20110303 and 20110306: the least time without CPU at some 1.23
# times the least energy.
DEFAULT_FORECAST_OVERLOAD_FRACTION = 0.05
DEFAULT_MIN_RISK_REDUCTION = 0.004
DEFAULT_DETECTOR_OVERLOAD_FRACTION = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """Relieve overloaded nodes, and drain those with a low load.

    Attributes:
        detector: Detector of overloaded nodes. `forecast` also selects guests and
            targets; with any other detector the settings marked "Detectors" apply.
        max_overload_fraction: Fraction of time, in [0, 1], for which nodes may lack
            CPU on average by the forecast (default 0.05). Detectors: fraction of the
            history for which a target may have been overloaded, had the guest been
            there (default 0.1).
        min_risk_reduction: Least reduction of the summed risk that justifies a
            migration, as a fraction of time (default 0.004); only with a forecast.
        detector_parameter: Detectors: load from which a node is overloaded
            (threshold, last-n-average, otf, mhod), or the safety factor (mad, iqr, lr,
            lrr). None for the default of the detector.
        guest_selection: Detectors: rule for the guest to evict first (default
            smallest-sufficient).
        placement: Detectors: rule for the target among nodes with capacity (default
            spread).
        fill_target: Fraction of a node's CPU, in [0, 1], up to which it is filled on
            average by drains (default 1; detectors: 0.75).
        relief_target: The same for guests that leave overloaded nodes (default 1;
            detectors: 0.85).
        underload_threshold: Mean load up to which a node may be drained; 0 drains
            none (default 1; detectors: 0.75).
        overload_threshold: Fraction of a node's CPU from which it is overloaded. With
            a forecast: mean demand from which other nodes may be powered on for it.
        averaging_window: Cycles over which the demand of a guest is averaged.
        history_length: Cycles in the history.
        max_failed_drains: Consecutive failed drains after which no other is tried.
        max_drained_nodes: Most nodes drained in one cycle.
        manage_power: True to power off empty nodes, and to power them on when needed.
        power_model: Name of the power curve assumed for the nodes, as in the reference.
        interval: Seconds between cycles.
        bandwidth: Bytes per second of a migration.
        seed: Seed of the guest selection `random`.
        repair_first: True to repair violated strict rules before this policy decides.
        limits: Limits of the operator.

    Raises:
        ValueError: A setting is out of range, or has no effect with the detector.
    """

    name: ClassVar[str] = CONSOLIDATE
    detector: DetectorKind = DetectorKind.FORECAST
    max_overload_fraction: float | None = None
    min_risk_reduction: float | None = None
    detector_parameter: float | None = None
    guest_selection: EvictionRule | None = None
    placement: PlacementStrategy | None = None
    fill_target: float | None = None
    relief_target: float | None = None
    underload_threshold: float | None = None
    overload_threshold: float = 0.95
    averaging_window: int = 24
    history_length: int = 48
    max_failed_drains: int = 3
    max_drained_nodes: int = 1000
    manage_power: bool = False
    power_model: str = "ibm-x3550-x5675"
    interval: Seconds = 300.0
    bandwidth: BytesPerSecond = 62.5e6
    seed: int = 0
    repair_first: bool = True
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in (
            "max_overload_fraction",
            "fill_target",
            "relief_target",
            "overload_threshold",
            "underload_threshold",
        ):
            if (value := getattr(self, name)) is not None:
                require_ratio(name, value, 1.0)
        if self.min_risk_reduction is not None:
            require_ratio("min_risk_reduction", self.min_risk_reduction, MAX_WEIGHT)
        for name in (
            "averaging_window",
            "history_length",
            "max_failed_drains",
            "max_drained_nodes",
        ):
            require_samples(name, getattr(self, name))
        for name, most in (("interval", MAX_DURATION), ("bandwidth", MAX_BANDWIDTH)):
            require_ratio(name, getattr(self, name), most)
            if getattr(self, name) == 0:
                raise ValueError(f"{name}: expected more than 0, got 0")
        if self.power_model not in SPECPOWER:
            known = ", ".join(SPECPOWER)
            raise ValueError(
                f"power_model: unknown: {self.power_model!r}; expected one of {known}"
            )
        self._require_applicable()
        self.algorithm_settings()

    def _require_applicable(self) -> None:
        """Reject settings that have no effect with the detector."""
        uses_forecast = self.detector is DetectorKind.FORECAST
        for name in DETECTOR_SETTINGS if uses_forecast else FORECAST_SETTINGS:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}: no effect with detector {self.detector.value}; remove it"
                )

    def initial_memory(self) -> ConsolidationMemory:
        """Return the memory before the first cycle."""
        return empty_memory()

    def algorithm_settings(self, cycle: int = 0) -> DetectorSettings | ForecastSettings:
        """Return the settings of the algorithm for the cycle with that number."""
        uses_forecast = self.detector is DetectorKind.FORECAST
        return (
            self._forecast_settings()
            if uses_forecast
            else self._detector_settings(cycle)
        )

    def _forecast_settings(self) -> ForecastSettings:
        return ForecastSettings(
            max_overload_fraction=_value_or(
                self.max_overload_fraction, DEFAULT_FORECAST_OVERLOAD_FRACTION
            ),
            min_risk_reduction=_value_or(
                self.min_risk_reduction, DEFAULT_MIN_RISK_REDUCTION
            ),
            fill_target=_value_or(self.fill_target, 1.0),
            relief_target=_value_or(self.relief_target, 1.0),
            underload_threshold=_value_or(self.underload_threshold, 1.0),
            overload_threshold=self.overload_threshold,
            averaging_window=self.averaging_window,
            max_failed_drains=self.max_failed_drains,
            max_drained_nodes=self.max_drained_nodes,
        )

    def _detector_settings(self, cycle: int) -> DetectorSettings:
        max_overload_fraction, seed = (
            _value_or(self.max_overload_fraction, DEFAULT_DETECTOR_OVERLOAD_FRACTION),
            f"{self.seed}/{cycle}",
        )
        eviction_rule = self.guest_selection or EvictionRule.SMALLEST_SUFFICIENT
        return DetectorSettings(
            detector=build_detector(
                self.detector,
                self.detector_parameter,
                max_overload_fraction,
                self.averaging_window,
            ),
            underload_detector=build_underload_detector(
                _value_or(self.underload_threshold, 0.75), self.averaging_window
            ),
            guest_selector=build_guest_selector(
                eviction_rule, self.averaging_window, seed
            ),
            placement=self.placement or PlacementStrategy.SPREAD,
            fill_target=_value_or(self.fill_target, 0.75),
            relief_target=_value_or(self.relief_target, 0.85),
            overload_threshold=self.overload_threshold,
            max_overload_fraction=max_overload_fraction,
            averaging_window=self.averaging_window,
            max_failed_drains=self.max_failed_drains,
            max_drained_nodes=self.max_drained_nodes,
        )

    @keeps_tolerance
    def decide(
        self, snapshot: Snapshot, memory: ConsolidationMemory
    ) -> Decision[ConsolidationMemory]:
        """Return the migrations and power actions of this cycle.

        Args:
            snapshot: Current state of the cluster; its usage is one sample.
            memory: Memory of the previous cycles.
        """
        updated = append_sample(memory, snapshot, self.history_length)
        if (unmet := _unmet_precondition(snapshot, updated)) is not None:
            return Decision(unmet[0], updated, detail=unmet[1])
        part = MeasuredPart.of(snapshot, LoadModel.DYNAMIC)
        inputs = self._build_inputs(part.snapshot, updated)
        settings = self.algorithm_settings(updated["cycle"])
        moves = plan_moves(
            settings,
            inputs.node_arrays,
            inputs.guest_arrays,
            AllowedNodes(inputs.cluster),
            self._observations(inputs),
        )
        builder = DecisionBuilder(
            inputs, moves, settings, manage_power=self.manage_power
        )
        decision = builder.decision(inputs.updated_memory(moves.counters))
        return part.name_unmeasured(decision)

    def agent_request(
        self, snapshot: Snapshot, memory: ConsolidationMemory, node: NodeId
    ) -> tuple[AgentRequest | None, ConsolidationMemory]:
        """Return the request of the agent of *node*, and its updated memory.

        Args:
            snapshot: The node and its guests now; their usage is one sample.
            memory: Memory of the previous cycles.
            node: Node of the agent.

        Returns:
            The request, or None if the node is not online and measured; and the
            memory.
        """
        updated = append_sample(memory, snapshot, self.history_length)
        if node not in updated["nodes"]:
            return None, updated
        inputs = self._build_inputs(snapshot, updated)
        settings = self.algorithm_settings(updated["cycle"])
        reports, counters = assess_nodes(
            settings,
            inputs.node_arrays,
            inputs.guest_arrays,
            AllowedNodes(inputs.cluster),
            self._observations(inputs),
        )
        remembered: ConsolidationMemory = {
            **updated,
            "overload_counters": inputs.updated_memory(counters)["overload_counters"],
        }
        return agent_request(inputs, reports, node), remembered

    @keeps_tolerance
    def decide_requests(
        self, snapshot: Snapshot, memory: AgentInput
    ) -> Decision[AgentInput]:
        """Return the decision on the requests of all agents.

        A node without a request is unknown: it receives no guest, is not drained, and
        is not powered off.

        Args:
            snapshot: Current state of the cluster.
            memory: Samples and requests sent by the agents.
        """
        reported = exclude_unresponsive(snapshot, memory["requests"])
        pooled_memory = merge_samples(reported, memory, self.history_length)
        if (unmet := _unmet_precondition(reported, pooled_memory)) is not None:
            return Decision(unmet[0], memory, detail=unmet[1])
        part = MeasuredPart.of(reported, LoadModel.DYNAMIC)
        inputs = self._build_inputs(part.snapshot, pooled_memory)
        settings = self.algorithm_settings()
        moves = plan_moves(
            settings,
            inputs.node_arrays,
            inputs.guest_arrays,
            AllowedNodes(inputs.cluster),
            agent_reports(inputs, memory["requests"]),
        )
        builder = DecisionBuilder(
            inputs, moves, settings, manage_power=self.manage_power
        )
        return part.name_unmeasured(builder.decision(memory))

    def _build_inputs(
        self, snapshot: Snapshot, memory: ConsolidationMemory
    ) -> ConsolidationInput:
        curve = SPECPOWER[self.power_model]
        return ConsolidationInput(
            snapshot, memory, self.limits, curve, manage_power=self.manage_power
        )

    def _observations(
        self, inputs: ConsolidationInput
    ) -> tuple[OverloadCounters, Floats]:
        return (
            inputs.counters(),
            inputs.mean_guest_memory() / self.bandwidth / self.interval,
        )


def _value_or(given: float | None, default: float) -> float:
    return default if given is None else given


def _unmet_precondition(
    snapshot: Snapshot, memory: ConsolidationMemory
) -> tuple[DecisionReason, str] | None:
    """Return the reason and detail if no decision is possible now."""
    in_progress = migration_in_progress(snapshot)
    if in_progress is not None:
        return in_progress
    if not memory["nodes"]:
        return DecisionReason.METRICS_MISSING, "no node is online and measured"
    return None
