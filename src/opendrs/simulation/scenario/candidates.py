"""Policies to simulate, built from a name and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from opendrs.config import Diagnostic, DiagnosticCode, KeyPath
from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.policy_loading import bind_policy, policy_type
from opendrs.errors import ConfigurationError, UnknownPolicyError
from opendrs.escapes import repr_value
from opendrs.model import Limits
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.baselines import FAMILIES, BaselinePolicy, baseline_policy
from opendrs.simulation.cloudsim import parse_scheme
from opendrs.simulation.scenario.definition import PolicyRun, SimulationModel

NO_POLICY = "none"
DEFAULT_POLICIES = {
    SimulationModel.OPENDRS: Consolidate.name,
    SimulationModel.CLOUDSIM: "thr-mmt",
}
POLICY_FIELDS = ("name", "label", "settings", "limits")
NO_BASELINE = BaselinePolicy({}, {})


class PolicyRunParser:
    """Parser of one policy entry that collects all errors.

    Attributes:
        diagnostics: All errors of the entry.
        policy_run: The policy; None if there are errors.
    """

    def __init__(
        self,
        entry: object,
        location: KeyPath,
        *,
        model: SimulationModel,
        limits: Mapping[str, object],
        seed: int,
    ) -> None:
        """Parse *entry*.

        Args:
            entry: Table with the name of a policy, its label, settings and limits.
            location: Key path of the entry in its file.
            model: Simulation model.
            limits: Limits for all policies; those of the entry override them.
            seed: Seed of random choices.
        """
        self._location, self._model, self._limits, self._seed = (
            location,
            model,
            limits,
            seed,
        )
        self.diagnostics: list[Diagnostic] = []
        self.policy_run: PolicyRun | None = None
        if isinstance(entry, Mapping):
            self.policy_run = self._parse(entry)
        else:
            message = f"expected a table of named values, got {repr_value(entry)}"
            self._diagnose((), message, DiagnosticCode.WRONG_TYPE)

    def _diagnose(self, location: KeyPath, message: str, code: DiagnosticCode) -> None:
        path = (*self._location, *location)
        self.diagnostics.append(Diagnostic(path, message, code=code))

    def _parse(self, entry: Mapping[str, object]) -> PolicyRun | None:
        for key in entry:
            if key not in POLICY_FIELDS:
                message = unknown_name("field", key, POLICY_FIELDS)
                self._diagnose((key,), message, DiagnosticCode.UNKNOWN_KEY)
        name = self._text(entry, "name")
        label = self._text(entry, "label") if "label" in entry else None
        settings = self._table(entry, "settings")
        limits = self._table(entry, "limits")
        if self.diagnostics or name is None:
            return None
        policy_run = PolicyRun(
            label=label or label_with_settings(name, settings),
            name=name,
            settings=settings,
            policy=None,
        )
        return self._with_policy(policy_run, limits)

    def _text(self, entry: Mapping[str, object], key: str) -> str | None:
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value
        found, code = f"got {repr_value(value)}", DiagnosticCode.WRONG_TYPE
        if key not in entry:
            found, code = "which is missing", DiagnosticCode.MISSING_KEY
        self._diagnose((key,), f"expected a text, {found}", code)
        return None

    def _table(self, entry: Mapping[str, object], key: str) -> dict[str, object]:
        value = entry.get(key, {})
        if isinstance(value, Mapping):
            return dict(value)
        message = f"expected a table of named values, got {repr_value(value)}"
        self._diagnose((key,), message, DiagnosticCode.WRONG_TYPE)
        return {}

    def _with_policy(
        self, policy_run: PolicyRun, limits: Mapping[str, object]
    ) -> PolicyRun | None:
        try:
            if self._model is SimulationModel.CLOUDSIM:
                return self._cloudsim_run(policy_run, limits)
            if policy_run.name == NO_POLICY:
                return self._run_without_policy(policy_run, limits)
            return self._built_in_run(policy_run, limits)
        except ConfigurationError as error:
            is_unknown = isinstance(error, UnknownPolicyError)
            code = (
                DiagnosticCode.UNKNOWN_NAME
                if is_unknown
                else DiagnosticCode.INVALID_VALUE
            )
            self._diagnose(("name",), str(error), code)
            return None

    def _cloudsim_run(
        self, policy_run: PolicyRun, limits: Mapping[str, object]
    ) -> PolicyRun | None:
        if policy_run.settings or limits:
            self._diagnose(
                (),
                f"{SimulationModel.CLOUDSIM}: expected neither settings nor limits; "
                "give parameters in the name, as in lr-mmt-1.2",
                DiagnosticCode.INCONSISTENT,
            )
            return None
        chosen = parse_scheme(policy_run.name, self._seed)
        label = str(chosen) if policy_run.label == policy_run.name else policy_run.label
        return PolicyRun(label=label, name=policy_run.name, policy=chosen)

    def _run_without_policy(
        self, policy_run: PolicyRun, limits: Mapping[str, object]
    ) -> PolicyRun | None:
        if policy_run.settings or limits:
            message = f"{NO_POLICY}: expected neither settings nor limits"
            self._diagnose((), message, DiagnosticCode.INCONSISTENT)
            return None
        return policy_run

    def _built_in_run(
        self, policy_run: PolicyRun, limits: Mapping[str, object]
    ) -> PolicyRun | None:
        is_built_in = policy_run.name in BUILT_IN_POLICIES
        base = NO_BASELINE if is_built_in else _baseline(policy_run.name)
        name = policy_run.name if is_built_in else Consolidate.name
        limits_table = TableBinder(
            Limits,
            {**self._limits, **base.limits, **limits},
            (*self._location, "limits"),
        )
        self.diagnostics += limits_table.diagnostics
        if limits_table.value is None:
            return None
        seed = {"seed": self._seed} if hasattr(policy_type(name), "seed") else {}
        values = {**seed, **base.settings, **policy_run.settings}
        location = (*self._location, "settings")
        table = bind_policy(name, values, limits_table.value, location)
        self.diagnostics += table.diagnostics
        if table.value is None:
            return None
        return PolicyRun(
            label=policy_run.label,
            name=policy_run.name,
            settings=policy_run.settings,
            policy=table.value,
        )


def _baseline(name: str) -> BaselinePolicy:
    try:
        return baseline_policy(name)
    except UnknownPolicyError as error:
        if name.partition("-")[0] in FAMILIES:
            raise
        raise UnknownPolicyError(
            f"expected {', '.join(sorted(BUILT_IN_POLICIES))}, {NO_POLICY}, or a "
            "policy of CloudSim or Neat as in lr-mmt-1.2 or neat-mhod-0.1, got "
            f"{repr_value(name)}"
        ) from error


def label_with_settings(label: str, settings: Mapping[str, object]) -> str:
    """Return *label* with the given settings, as a policy is labeled by default."""
    return " ".join(
        [label, *(f"{key}={_format_value(settings[key])}" for key in settings)]
    )


def _format_value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def policy_settings(policy: Consolidate) -> Iterator[tuple[str, object]]:
    """Yield the settings of *policy* by name, without its limits."""
    for each in fields(policy):
        if each.name != "limits":
            yield each.name, getattr(policy, each.name)
