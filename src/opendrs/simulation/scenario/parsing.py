"""Parser of the scenario file, the format opendrs-scenario/1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from opendrs.config import (
    Diagnostic,
    DiagnosticCode,
    FileFormat,
    KeyPath,
    display_path,
    duplicate_key_diagnostics,
    parse,
    raise_diagnostics,
    read_text,
    require_format,
)
from opendrs.config.binding import TableBinder, unknown_name
from opendrs.errors import InvalidFileError
from opendrs.escapes import repr_value
from opendrs.model import Limits
from opendrs.simulation.hardware import SimulationBehavior
from opendrs.simulation.scenario.candidates import DEFAULT_POLICIES as USUAL_POLICY
from opendrs.simulation.scenario.candidates import PolicyRunParser
from opendrs.simulation.scenario.definition import (
    PolicyRun,
    RecordedWorkload,
    SimulationEnvironment,
    SimulationModel,
    SimulationScenario,
    WorkloadSource,
)
from opendrs.simulation.scenario.guests import GuestOptions, GuestProfile
from opendrs.simulation.scenario.hosts import DEFAULT_HOSTS, HostPool
from opendrs.simulation.traces import READERS, WindowSettings
from opendrs.simulation.traces.window import WHOLE_TRACE
from opendrs.simulation.workload import SyntheticSettings

SCENARIO_FORMAT = "opendrs-scenario/1"


def read_scenario(
    path: Path, changes: Mapping[str, object] | None = None
) -> SimulationScenario:
    """Return the scenario in the file *path*.

    Args:
        path: File in TOML or JSON.
        changes: Fields that replace those of the file.

    Raises:
        InvalidFileError: The file is invalid; with all errors.
    """
    source = display_path(path)
    document = parse(read_text(path), source, path.suffix)
    if isinstance(document, Mapping) and changes:
        document = {**document, **changes}
    return parse_scenario(document, source, path.parent)


def parse_scenario(document: object, source: str, folder: Path) -> SimulationScenario:
    """Return the scenario in *document*.

    Args:
        document: Parsed plain values.
        source: Prefix of error messages.
        folder: Base of relative paths.

    Raises:
        InvalidFileError: The document is invalid; with all errors.
    """
    require_format(document, source, FileFormat.SCENARIO)
    scenario, diagnostics = scenario_and_diagnostics(document, folder)
    raise_diagnostics(source, diagnostics, InvalidFileError)
    assert scenario is not None  # noqa: S101 - else there are diagnostics
    return scenario


def scenario_and_diagnostics(
    document: object, folder: Path
) -> tuple[SimulationScenario | None, tuple[Diagnostic, ...]]:
    """Return the scenario in *document* and all errors.

    Args:
        document: Parsed plain values.
        folder: Base of relative paths.
    """
    reader = _ScenarioReader(folder)
    scenario = reader.scenario(document)
    return scenario, (*duplicate_key_diagnostics(document), *reader.diagnostics)


class ScenarioParser:
    """Parser of the parts of one document that collects all errors.

    Attributes:
        diagnostics: Errors found so far.
    """

    def __init__(self, folder: Path) -> None:
        """Create a parser.

        Args:
            folder: Base of relative paths.
        """
        self._folder = folder
        self.diagnostics: list[Diagnostic] = []

    def diagnose(self, location: KeyPath, message: str, code: DiagnosticCode) -> None:
        """Add an error."""
        self.diagnostics.append(Diagnostic(location, message, code=code))

    def diagnose_type(self, location: KeyPath, expected: str, value: object) -> None:
        """Add an error about the type of *value*."""
        message = f"expected {expected}, got {repr_value(value)}"
        self.diagnose(location, message, DiagnosticCode.WRONG_TYPE)

    def check_format(self, tables: Mapping[str, object], expected: str) -> None:
        """Check the format, the title and the names of the top-level fields."""
        if tables.get("format") != expected:
            found, code = "nothing", DiagnosticCode.MISSING_KEY
            if "format" in tables:
                found = repr_value(tables["format"])
                code = DiagnosticCode.UNKNOWN_VALUE
            self.diagnose(("format",), f'expected "{expected}", got {found}', code)
        for name in tables:
            if name not in SCENARIO_FIELDS:
                message = unknown_name("field", name, SCENARIO_FIELDS)
                self.diagnose((name,), message, DiagnosticCode.UNKNOWN_KEY)
        title = tables.get("title", "")
        if not isinstance(title, str):
            self.diagnose_type(("title",), "a text", title)

    def table(self, location: KeyPath, value: object) -> Mapping[str, object]:
        """Return *value* if it is a table, else an empty one and an error."""
        if isinstance(value, Mapping):
            return value
        self.diagnose_type(location, "a table of named values", value)
        return {}

    def tables(self, location: KeyPath, value: object) -> list[tuple[KeyPath, object]]:
        """Return the entries of a non-empty list of tables with their key paths."""
        if isinstance(value, list) and value:
            return [((*location, index), each) for index, each in enumerate(value)]
        message = f"expected a list of tables, got {repr_value(value)}"
        is_list = isinstance(value, list)
        code = DiagnosticCode.OUT_OF_RANGE if is_list else DiagnosticCode.WRONG_TYPE
        self.diagnose(location, message, code)
        return []

    def model(self, location: KeyPath, value: object) -> SimulationModel | None:
        """Return the model named *value*."""
        if isinstance(value, str) and value in list(SimulationModel):
            return SimulationModel(value)
        known = " or ".join(f'"{each}"' for each in SimulationModel)
        message = f"expected {known}, got {repr_value(value)}"
        self.diagnose(location, message, DiagnosticCode.UNKNOWN_VALUE)
        return None

    def seed(self, location: KeyPath, value: object) -> int | None:
        """Return *value* if it is a valid seed."""
        if type(value) is int and 0 <= value <= MAX_SEED:
            return value
        expected = f"a whole number from 0 to {MAX_SEED}"
        self._diagnose_number(location, expected, value)
        return None

    def workload_source(
        self, location: KeyPath, value: object, seed: int
    ) -> WorkloadSource | None:
        """Return the source of the workload."""
        if not isinstance(value, Mapping):
            self.diagnose_type(location, "a table of named values", value)
            return None
        table = dict(value)
        kind = table.pop("kind", None)
        if kind == SYNTHETIC:
            return self._synthetic_source(location, table, seed)
        if not isinstance(kind, str) or kind not in READERS:
            expected = f"one of {', '.join(WORKLOAD_KINDS)}"
            code = DiagnosticCode.UNKNOWN_VALUE
            self._diagnose_field((*location, "kind"), expected, kind, code)
            return None
        return self._recorded_source(location, kind, table)

    def _synthetic_source(
        self, location: KeyPath, table: Mapping[str, object], seed: int
    ) -> SyntheticSettings | None:
        settings = self._value(SyntheticSettings, location, table, {"seed": seed})
        if settings is None:
            return None
        for name, maximum in (("guests", MAX_GUESTS), ("days", MAX_DAYS)):
            if getattr(settings, name) > maximum:
                value = getattr(settings, name)
                message = f"expected at most {maximum}, got {value}"
                code = DiagnosticCode.OUT_OF_RANGE
                self.diagnose((*location, name), message, code)
        return settings

    def _recorded_source(
        self, location: KeyPath, kind: str, table: Mapping[str, object]
    ) -> RecordedWorkload | None:
        window_table = {name: value for name, value in table.items() if name != "path"}
        window = self._value(WindowSettings, location, window_table)
        path = table.get("path")
        if not isinstance(path, str) or not path:
            code = DiagnosticCode.WRONG_TYPE
            self._diagnose_field((*location, "path"), "a file or directory", path, code)
            return None
        try:
            resolved = self._folder / Path(path).expanduser()
        except RuntimeError as error:  # the home directory of an unknown user
            message = f"{repr_value(path)}: {error}"
            code = DiagnosticCode.UNUSABLE_FILE
            self.diagnose((*location, "path"), message, code)
            return None
        return RecordedWorkload(kind=kind, path=resolved, window=window or WHOLE_TRACE)

    def host_pool(self, location: KeyPath, value: object) -> HostPool | None:
        """Return a pool of hosts."""
        return self._value(HostPool, location, value)

    def guests(self, location: KeyPath, value: object) -> GuestOptions | None:
        """Return the options of the guests."""
        table = self.table(location, value)
        for name in table:
            if name not in GUEST_FIELDS:
                message = unknown_name("field", name, GUEST_FIELDS)
                code = DiagnosticCode.UNKNOWN_KEY
                self.diagnose((*location, name), message, code)
        options = GuestOptions(
            anti_affinity_groups=self._anti_affinity_groups(
                (*location, "anti_affinity_groups"),
                table.get("anti_affinity_groups", 0),
            )
        )
        if "kinds" not in table:
            return options
        entries = self.tables((*location, "kinds"), table["kinds"])
        kinds = [
            self._value(GuestProfile, entry_location, each)
            for entry_location, each in entries
        ]
        return replace(options, kinds=tuple(kind for kind in kinds if kind is not None))

    def _anti_affinity_groups(
        self, location: KeyPath, value: object
    ) -> int | tuple[tuple[str, ...], ...]:
        if type(value) is int and 0 <= value <= MAX_GUESTS:
            return value
        if isinstance(value, list) and all(_is_group(each) for each in value):
            names = [name for group in value for name in group]
            duplicates = sorted({name for name in names if names.count(name) > 1})
            for name in duplicates:
                message = f"{repr_value(name)}: duplicate; expected one group each"
                self.diagnose(location, message, DiagnosticCode.DUPLICATE_NAME)
            return tuple(tuple(group) for group in value)
        expected = "a whole number of 0 or more, or lists of two or more names"
        self._diagnose_number(location, expected, value)
        return 0

    def behavior(self, location: KeyPath, value: object) -> SimulationBehavior | None:
        """Return the duration and cost of power actions and migrations."""
        return self._value(SimulationBehavior, location, value)

    def limits(self, location: KeyPath, value: object) -> Mapping[str, object]:
        """Return *value* if it contains valid limits, else an empty table."""
        limits = self._value(Limits, location, value)
        return value if limits is not None and isinstance(value, Mapping) else {}

    def policy_run(
        self,
        location: KeyPath,
        value: object,
        *,
        model: SimulationModel,
        limits: Mapping[str, object],
        seed: int,
    ) -> PolicyRun | None:
        """Return the policy to run."""
        parser = PolicyRunParser(value, location, model=model, limits=limits, seed=seed)
        self.diagnostics += parser.diagnostics
        return parser.policy_run

    def check_model_support(
        self,
        environment: SimulationEnvironment,
        tables: Mapping[str, object],
        locations: Mapping[str, KeyPath],
    ) -> None:
        """Add an error for each part that the CloudSim model does not support.

        Args:
            environment: Environment of the runs.
            tables: Tables of the document.
            locations: Key paths of the parts of *environment* whose key path is not
                their name.
        """
        if environment.model is not SimulationModel.CLOUDSIM:
            return
        if (
            not isinstance(environment.source, RecordedWorkload)
            or environment.source.kind != PLANETLAB
        ):
            location = (*locations.get("workload", ("workload",)), "kind")
            message = f'{environment.model}: only "{PLANETLAB}" is supported'
            self.diagnose(location, message, DiagnosticCode.INCONSISTENT)
        elif environment.source.window != WHOLE_TRACE:
            location = locations.get("workload", ("workload",))
            message = f"{environment.model}: only a whole day is supported"
            self.diagnose(location, message, DiagnosticCode.INCONSISTENT)
        if len(environment.pools) != 1 or not environment.pools[0].is_default:
            self.diagnose(
                locations.get("hosts", ("hosts",)),
                f"{environment.model}: only HP ML110 G4 and G5 are supported; "
                "give their count only",
                DiagnosticCode.INCONSISTENT,
            )
        for name in UNSUPPORTED_IN_CLOUDSIM:
            if name in tables:
                message = f"{environment.model}: not supported; remove it"
                self.diagnose((name,), message, DiagnosticCode.INCONSISTENT)

    def _diagnose_number(self, location: KeyPath, expected: str, value: object) -> None:
        """Add an error about the range of a whole number, or about the type."""
        is_whole = type(value) is int
        code = DiagnosticCode.OUT_OF_RANGE if is_whole else DiagnosticCode.WRONG_TYPE
        self.diagnose(location, f"expected {expected}, got {repr_value(value)}", code)

    def _diagnose_field(
        self, location: KeyPath, expected: str, value: object, code: DiagnosticCode
    ) -> None:
        """Add an error with *code*; if *value* is None, that the field is missing."""
        found = f"got {repr_value(value)}"
        if value is None:
            found, code = "which is missing", DiagnosticCode.MISSING_KEY
        self.diagnose(location, f"expected {expected}, {found}", code)

    def _value(
        self,
        kind: type[T],
        location: KeyPath,
        value: object,
        defaults: Mapping[str, object] | None = None,
    ) -> T | None:
        table = TableBinder(kind, value, location, defaults)
        self.diagnostics += table.diagnostics
        return table.value


class _ScenarioReader(ScenarioParser):
    def scenario(self, document: object) -> SimulationScenario | None:
        tables = self.table((), document)
        self.check_format(tables, SCENARIO_FORMAT)
        model = self.model(
            ("model",), tables.get("model", SimulationModel.OPENDRS.value)
        )
        seed = self.seed(("seed",), tables.get("seed", DEFAULT_SEED))
        model_or_default = model or SimulationModel.OPENDRS
        environment = self._environment(tables, model_or_default, seed or 0)
        policy_runs = self._policy_runs(tables, model_or_default, seed or 0)
        if environment is None or model is None:
            return None
        self.check_model_support(environment, tables, {})
        title = str(tables.get("title", ""))
        return SimulationScenario(
            title=title, environment=environment, policy_runs=tuple(policy_runs)
        )

    def _environment(
        self, tables: Mapping[str, object], model: SimulationModel, seed: int
    ) -> SimulationEnvironment | None:
        if "workload" not in tables:
            code = DiagnosticCode.MISSING_KEY
            self.diagnose(("workload",), "is missing", code)
            return None
        source = self.workload_source(("workload",), tables["workload"], seed)
        located = self.tables(("hosts",), tables["hosts"]) if "hosts" in tables else []
        pools = [self.host_pool(location, each) for location, each in located]
        guests = self.guests(("guests",), tables.get("guests", {}))
        behavior = self.behavior(("behavior",), tables.get("behavior", {}))
        if source is None:
            return None
        return SimulationEnvironment(
            model=model,
            source=source,
            pools=pools_or_default(pools),
            guests=guests or GuestOptions(),
            behavior=behavior or SimulationBehavior(),
        )

    def _policy_runs(
        self, tables: Mapping[str, object], model: SimulationModel, seed: int
    ) -> list[PolicyRun]:
        limits = self.limits(("limits",), tables.get("limits", {}))
        default = [{"name": USUAL_POLICY[model]}]
        entries = self.tables(("policies",), tables.get("policies", default))
        parsed = [
            (
                location,
                self.policy_run(location, entry, model=model, limits=limits, seed=seed),
            )
            for location, entry in entries
        ]
        valid = [(location, each) for location, each in parsed if each is not None]
        labels = Counter(each.label for _, each in valid)
        for location, each in valid:
            if labels[each.label] > 1:
                message = f"duplicate: {repr_value(each.label)}"
                message += "; give each policy its own"
                code = DiagnosticCode.DUPLICATE_NAME
                self.diagnose((*location, "label"), message, code)
        return [each for _, each in valid]


SCENARIO_FIELDS = (
    *("format", "title", "model", "seed"),
    *("workload", "hosts", "guests", "behavior", "limits", "policies"),
)

SYNTHETIC = "synthetic"
PLANETLAB = "planetlab"
WORKLOAD_KINDS = (*READERS, SYNTHETIC)
MAX_SEED = 2**32 - 1
MAX_GUESTS = 10**6
MAX_DAYS = 366
DEFAULT_SEED = 1
GUEST_FIELDS = ("anti_affinity_groups", "kinds")
UNSUPPORTED_IN_CLOUDSIM = ("guests", "behavior", "limits")
T = TypeVar("T")


def pools_or_default(pools: list[HostPool | None]) -> tuple[HostPool, ...]:
    """Return *pools* without None; the default hosts if it is empty."""
    return tuple(pool for pool in pools if pool is not None) or DEFAULT_HOSTS


def _is_group(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(name, str) for name in value)
    )
