"""From a scenario file to a scenario: the form opendrs-scenario/1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from opendrs.errors import InvalidFileError
from opendrs.platforms.file import (
    FileForm,
    complain,
    parse,
    read_text,
    repeated_keys,
    require_form,
    shown,
    shown_path,
)
from opendrs.sim.consolidation.machines import Behaviour
from opendrs.sim.consolidation.scenario.contenders import USUAL as USUAL_POLICY
from opendrs.sim.consolidation.scenario.guests import Guests
from opendrs.sim.consolidation.scenario.parts import (
    DEFAULT_SEED,
    Parts,
    pools_or_usual,
)
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Scenario,
    Stage,
)

FORMAT = "opendrs-scenario/1"


def read_scenario(path: Path, changes: Mapping[str, object] | None = None) -> Scenario:
    """Return the scenario that the file *path* describes.

    Args:
        path: The file, TOML or JSON.
        changes: Fields that are to be otherwise than it says.

    Raises:
        InvalidFileError: It describes none; with everything that is wrong.
    """
    source = shown_path(path)
    document = parse(read_text(path), source, path.suffix)
    if isinstance(document, Mapping) and changes:
        document = {**document, **changes}
    return scenario_from(document, source, path.parent)


def scenario_from(document: object, source: str, folder: Path) -> Scenario:
    """Return the scenario that *document* describes.

    Args:
        document: Plain values, as parsed.
        source: Where they come from, to begin complaints with.
        folder: What relative paths begin from.

    Raises:
        InvalidFileError: They describe none; with everything that is wrong.
    """
    require_form(document, source, FileForm.SCENARIO)
    reading = _Reading(folder)
    found = reading.scenario(document)
    wrong = [*repeated_keys(document), *reading.complaints]
    complain(source, wrong, InvalidFileError)
    assert found is not None  # noqa: S101 - or there was a complaint
    return found


class _Reading(Parts):
    def scenario(self, document: object) -> Scenario | None:
        tables = self.table((), document)
        self.form(tables, FORMAT)
        model = self.model(("model",), tables.get("model", Model.OPENDRS.value))
        seed = self.seed(("seed",), tables.get("seed", DEFAULT_SEED))
        known = model or Model.OPENDRS
        stage = self._stage(tables, known, seed or 0)
        contenders = self._contenders(tables, known, seed or 0)
        if stage is None or model is None:
            return None
        self.require_model(stage, tables, {})
        title = str(tables.get("title", ""))
        return Scenario(title=title, stage=stage, contenders=tuple(contenders))

    def _stage(
        self, tables: Mapping[str, object], model: Model, seed: int
    ) -> Stage | None:
        if "workload" not in tables:
            self.say(("workload",), "is missing")
            return None
        source = self.source(("workload",), tables["workload"], seed)
        places = self.tables(("hosts",), tables["hosts"]) if "hosts" in tables else []
        pools = [self.pool(place, each) for place, each in places]
        guests = self.guests(("guests",), tables.get("guests", {}))
        behaviour = self.behaviour(("behaviour",), tables.get("behaviour", {}))
        if source is None:
            return None
        return Stage(
            model=model,
            source=source,
            pools=pools_or_usual(pools),
            guests=guests or Guests(),
            behaviour=behaviour or Behaviour(),
        )

    def _contenders(
        self, tables: Mapping[str, object], model: Model, seed: int
    ) -> list[Contender]:
        limits = self.limits(("limits",), tables.get("limits", {}))
        usual = [{"name": USUAL_POLICY[model]}]
        entries = self.tables(("policies",), tables.get("policies", usual))
        read = [
            (at, self.contender(at, entry, model=model, limits=limits, seed=seed))
            for at, entry in entries
        ]
        found = [(at, each) for at, each in read if each is not None]
        labels = Counter(each.label for _, each in found)
        for at, each in found:
            if labels[each.label] > 1:
                what = f"{shown(each.label)} stands more than once"
                self.say((*at, "label"), f"{what}; give each policy its own")
        return [each for _, each in found]
