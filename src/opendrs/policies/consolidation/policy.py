"""Pack guests onto few hosts, so that the others can sleep.

OpenStack Neat's division of the problem: which hosts are overloaded, which could
be emptied, who leaves, and where they go. By default all four are answered by one
forecast of each host's load (`foreseeing`); the answers of the literature can be
chosen by name. Unlike there, memory, rules, processors and what may move always
bind, hosts are emptied with restraint, and no guest is moved within its cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from opendrs.policies.base import MAX_WEIGHT, Decision, DecisionReason, require_ratio
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
from opendrs.policies.consolidation.rule_filter import RuleFilter
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
from opendrs.policies.preconditions import migration_in_progress

DETECTOR_SETTINGS = ("detector_parameter", "guest_selection", "placement")
FORECAST_SETTINGS = ("min_risk_reduction",)
# Chosen on 20110303 and 20110306 of PlanetLab: with them the least time without CPU
# where some 1.23 times the least energy is needed.
DEFAULT_FORECAST_OVERLOAD_FRACTION = 0.05
DEFAULT_MIN_RISK_REDUCTION = 0.004
DEFAULT_DETECTOR_OVERLOAD_FRACTION = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """Relieve overloaded hosts, and empty those that have little to do.

    Attributes:
        detector: How an overloaded host is told. With a forecast also who leaves
            and where to; with any other the settings that begin with "Detectors".
        max_overload_fraction: Part of the time for which hosts may lack CPU on average, by the
            forecast (usually 0.05). Detectors: part of the remembered time that a
            host which receives a guest may have been overloaded, had the guest been
            there (usually 0.1).
        min_risk_reduction: How much a migration has to take off the sum of what hosts lack, as
            part of the time (usually 0.004); only with a forecast.
        detector_parameter: Detectors: the load from which a host is overloaded (threshold,
            last-n-average, otf, mhod), or the safety (mad, iqr, lr, lrr).
        guest_selection: Detectors: which guest leaves it first; least-sufficient unless
            given.
        placement: Detectors: which of the hosts with room receives; spread unless
            given.
        fill_target: Part of a host's CPU, in [0, 1], up to which it is filled on average
            when others are emptied (usually 1; detectors: 0.75).
        relief_target: The same with guests that leave overloaded hosts (usually 1;
            detectors: 0.85).
        underload_threshold: Mean load up to which a host is emptied if it can be; 0 for none
            (usually 1; detectors: 0.75).
        overload_threshold: Part of a host's CPU from which it is overloaded: by the forecast if it
            needs so much on average, and others may be woken for its guests.
        averaging_window: Cycles over which the need of a guest is averaged.
        history_length: Cycles that are remembered.
        max_failed_drains: Hosts in a row that cannot be emptied, after which none is tried.
        max_drained_nodes: Hosts that are emptied at most in one cycle.
        manage_power: Whether hosts are put to sleep once empty, and woken when needed.
        power_model: Whose power curve hosts are taken to have, of those in the reference.
        interval: Seconds from one cycle to the next.
        bandwidth: Bytes a second at which guests migrate.
        seed: Of a random selection.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range, or of no account with that detector.
    """

    name: ClassVar[str] = "consolidate"
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
                raise ValueError(f"{name} must be above 0")
        if self.power_model not in SPECPOWER:
            known = ", ".join(SPECPOWER)
            raise ValueError(
                f"power_model: no power curve {self.power_model!r} ({known})"
            )
        self._require_applicable()
        self.algorithm_settings()

    def _require_applicable(self) -> None:
        """Refuse settings that the detector would pass over."""
        uses_forecast = self.detector is DetectorKind.FORECAST
        for name in DETECTOR_SETTINGS if uses_forecast else FORECAST_SETTINGS:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is of no account with the detector {self.detector.value}"
                )

    def initial_memory(self) -> ConsolidationMemory:
        """Return the memory of who has seen nothing."""
        return empty_memory()

    def algorithm_settings(self, cycle: int = 0) -> DetectorSettings | ForecastSettings:
        """Return how to decide in the cycle of that number."""
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

    def decide(
        self, snapshot: Snapshot, memory: ConsolidationMemory
    ) -> Decision[ConsolidationMemory]:
        """Return who should move where, and which hosts to wake or put to sleep.

        Args:
            snapshot: The cluster now; its usage is one sample.
            memory: What was seen in the cycles before.
        """
        updated = append_sample(memory, snapshot, self.history_length)
        if (unmet := _unmet_precondition(snapshot, updated)) is not None:
            return Decision(unmet[0], updated, detail=unmet[1])
        inputs = self._build_inputs(snapshot, updated)
        settings = self.algorithm_settings(updated["cycle"])
        moves = plan_moves(
            settings,
            inputs.node_arrays,
            inputs.guest_arrays,
            RuleFilter(inputs),
            self._observations(inputs),
        )
        builder = DecisionBuilder(
            inputs, moves, settings, manage_power=self.manage_power
        )
        return builder.decision(inputs.updated_memory(moves.counters))

    def agent_request(
        self, snapshot: Snapshot, memory: ConsolidationMemory, node: NodeId
    ) -> tuple[AgentRequest | None, ConsolidationMemory]:
        """Return what *node* asks for, by what its own agent knows.

        Args:
            snapshot: The node and its guests now; their usage is one sample.
            memory: What was seen in the cycles before.
            node: Whose agent asks.

        Returns:
            That, or None where the node is not online and measured; and what to
            remember.
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
            RuleFilter(inputs),
            self._observations(inputs),
        )
        remembered: ConsolidationMemory = {
            **updated,
            "overload_counters": inputs.updated_memory(counters)["overload_counters"],
        }
        return agent_request(inputs, reports, node), remembered

    def decide_requests(
        self, snapshot: Snapshot, memory: AgentInput
    ) -> Decision[AgentInput]:
        """Return what to do about what the agents of all nodes ask for.

        A node without a petition is unknown: it is not filled, not emptied, and
        not put to sleep.

        Args:
            snapshot: The cluster now.
            memory: What the agents have sent.
        """
        reported = exclude_unresponsive(snapshot, memory["requests"])
        pooled_memory = merge_samples(reported, memory, self.history_length)
        if (unmet := _unmet_precondition(reported, pooled_memory)) is not None:
            return Decision(unmet[0], memory, detail=unmet[1])
        inputs = self._build_inputs(reported, pooled_memory)
        settings = self.algorithm_settings()
        moves = plan_moves(
            settings,
            inputs.node_arrays,
            inputs.guest_arrays,
            RuleFilter(inputs),
            agent_reports(inputs, memory["requests"]),
        )
        builder = DecisionBuilder(
            inputs, moves, settings, manage_power=self.manage_power
        )
        return builder.decision(memory)

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
    """Return why nothing can be decided now."""
    in_progress = migration_in_progress(snapshot)
    if in_progress is not None:
        return in_progress
    if not memory["nodes"]:
        return DecisionReason.METRICS_MISSING, "no node is online and measured"
    return None
