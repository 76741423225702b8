"""From a sweep file to a grid: the form opendrs-sweep/1.

The words are those of a scenario file; where that has one value, a list of values is
tried value by value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from opendrs.errors import InvalidFileError
from opendrs.platforms.file import (
    FileForm,
    Location,
    complain,
    parse,
    read_text,
    repeated_keys,
    require_form,
    shown,
    shown_path,
)
from opendrs.sim.consolidation.scenario.contenders import USUAL as USUAL_POLICY
from opendrs.sim.consolidation.scenario.hosts import USUAL, Pool
from opendrs.sim.consolidation.scenario.parts import DEFAULT_SEED
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Source,
    Stage,
    source_name,
)
from opendrs.sim.consolidation.sweep.alternatives import count_of
from opendrs.sim.consolidation.sweep.grid import Grid, Trial, joined, seeded, sown
from opendrs.sim.consolidation.sweep.spread import Part, Spread

FORMAT = "opendrs-sweep/1"
MOST_RUNS = 100_000
POLICY_TABLES = ("settings", "limits")


def read_sweep(path: Path) -> Grid:
    """Return the grid that the file *path* describes.

    Raises:
        InvalidFileError: It describes none; with everything that is wrong.
    """
    source = shown_path(path)
    return sweep_from(parse(read_text(path), source, path.suffix), source, path.parent)


def sweep_from(document: object, source: str, folder: Path) -> Grid:
    """Return the grid that *document* describes.

    Args:
        document: Plain values, as parsed.
        source: Where they come from, to begin complaints with.
        folder: What relative paths begin from.

    Raises:
        InvalidFileError: They describe none; with everything that is wrong.
    """
    require_form(document, source, FileForm.SWEEP)
    reading = _Reading(folder)
    trials = reading.trials(document)
    # What is wrong with one value is so in all its combinations.
    wrong = dict.fromkeys([*repeated_keys(document), *reading.complaints])
    complain(source, wrong, InvalidFileError)
    assert isinstance(document, Mapping)  # noqa: S101 - or there was a complaint
    return Grid(title=str(document.get("title", "")), trials=tuple(trials))


class _Reading(Spread):
    def trials(self, document: object) -> list[Trial]:
        tables = self.table((), document)
        self.form(tables, FORMAT)
        if self._too_many(tables):
            return []
        models = self.values("model", tables.get("model", "opendrs"), self.model)
        seeds = self.values("seed", tables.get("seed", DEFAULT_SEED), self.seed)
        stages = self._stages(tables, models)
        who = {part.value: self._contenders(tables, part.value) for part in models}
        trials = [
            _trial(stage, contender, seed.value)
            for stage in stages
            for contender in who[stage.value.model]
            for seed in seeds
        ]
        if not self.complaints:
            self._require_unlike(trials)
        return trials

    # How many --------------------------------------------------------------------

    def _too_many(self, tables: Mapping[str, object]) -> bool:
        total = 1
        for name in ("model", "seed", "workload", "guests", "behaviour", "limits"):
            total *= _choices(tables.get(name))
        hosts = tables.get("hosts")
        for pool in hosts if isinstance(hosts, list) else []:
            total *= count_of(pool)
        total *= _choices(tables.get("policies"), POLICY_TABLES)
        if total > MOST_RUNS:
            self.say((), f"{total} runs are too many: at most {MOST_RUNS} can be")
        return total > MOST_RUNS

    def _require_unlike(self, trials: Sequence[Trial]) -> None:
        keys = [
            (trial.stage.model, trial.stage.source, trial.seed, trial.label)
            for trial in trials
        ]
        for (model, source, seed, label), count in Counter(keys).items():
            if count > 1:
                what = f"{shown(label)} on {source_name(source)} in {model}"
                self.say(
                    (),
                    f"{what}, seed {seed}, would run {count} times: no value may "
                    "stand twice, and each policy needs its own label",
                )

    # Stages ----------------------------------------------------------------------

    def _stages(
        self, tables: Mapping[str, object], models: Sequence[Part[Model]]
    ) -> list[Part[Stage]]:
        parts = product(
            models,
            self._sources(tables),
            self._hosts(tables),
            self.spread(("guests",), tables.get("guests", {}), self.guests),
            self.spread(("behaviour",), tables.get("behaviour", {}), self.behaviour),
        )
        found = []
        for model, source, hosts, guests, behaviour in parts:
            stage = Stage(
                model=model.value,
                source=source.value,
                pools=hosts.value,
                guests=guests.value,
                behaviour=behaviour.value,
            )
            self.require_model(stage, tables, {"workload": source.at})
            chosen = [part.chosen for part in (model, hosts, guests, behaviour)]
            found.append(Part(stage, (), _merged(chosen)))
        return found

    def _sources(self, tables: Mapping[str, object]) -> list[Part[Source]]:
        if "workload" not in tables:
            self.say(("workload",), "is missing")
            return []
        value = tables["workload"]

        def read(at: Location, table: object) -> Source | None:
            return self.source(at, table, DEFAULT_SEED)

        if not isinstance(value, list):
            return self.spread(("workload",), value, read)
        found: list[Part[Source]] = []
        for at, each in self.tables(("workload",), value):
            found += self.spread(at, each, read)
        return found

    def _hosts(self, tables: Mapping[str, object]) -> list[Part[tuple[Pool, ...]]]:
        if "hosts" not in tables:
            return [Part(USUAL, ())]
        entries = self.tables(("hosts",), tables["hosts"])
        pools = [self.spread(at, each, self.pool) for at, each in entries]
        alone = len(pools) == 1
        return [
            Part(
                tuple(part.value for part in some),
                ("hosts",),
                _merged(
                    {
                        f"hosts.{key}" if alone else f"hosts[{number}].{key}": value
                        for key, value in part.chosen.items()
                    }
                    for number, part in enumerate(some)
                ),
            )
            for some in product(*pools)
        ]

    # Policies --------------------------------------------------------------------

    def _contenders(
        self, tables: Mapping[str, object], model: Model
    ) -> list[Part[Contender]]:
        entries = self.tables(
            ("policies",), tables.get("policies", [{"name": USUAL_POLICY[model]}])
        )
        common = self.spread(("limits",), tables.get("limits", {}), self.limits)
        found = []
        for limits in common:

            def read(at: Location, table: object) -> Contender | None:
                return self.contender(
                    at,
                    table,
                    model=model,
                    limits=limits.value,  # noqa: B023 - read at once
                    seed=DEFAULT_SEED,
                )

            for at, entry in entries:
                for part in self.spread(at, entry, read, POLICY_TABLES):
                    made = _labelled(part.value, entry, part.chosen)
                    found.append(Part(made, at, limits.chosen))
        return found


def _choices(value: object, nested: Sequence[str] = ()) -> int:
    if isinstance(value, list):
        return max(1, sum(count_of(each, nested) for each in value))
    return count_of(value, nested)


def _merged(parts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for part in parts:
        found |= part
    return found


def _labelled(
    contender: Contender, entry: object, chosen: Mapping[str, object]
) -> Contender:
    """Return *contender* with a label that tells what was chosen for it."""
    told = isinstance(entry, Mapping) and "label" in entry
    missing = {
        name.removeprefix("settings."): value
        for name, value in chosen.items()
        if told or name.startswith("limits.")
    }
    return replace(contender, label=joined(contender.label, missing))


def _trial(stage: Part[Stage], contender: Part[Contender], seed: int) -> Trial:
    return Trial(
        stage=replace(stage.value, source=seeded(stage.value.source, seed)),
        contender=sown(contender.value, seed),
        seed=seed,
        chosen={**stage.chosen, **contender.chosen},
    )
