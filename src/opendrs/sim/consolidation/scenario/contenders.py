"""From the name of a policy and its settings to who is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from opendrs.controller.selection import policy_table
from opendrs.controller.tables import Table, no_such
from opendrs.errors import ConfigurationError, InvalidSettingError
from opendrs.model import Limits
from opendrs.platforms.file import Complaint, Location, shown
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.classics import FAMILIES, Classic, classic
from opendrs.sim.consolidation.scenario.scenario import Contender, Model
from opendrs.sim.consolidation.schemes import scheme

NONE = "none"
USUAL = {Model.OPENDRS: Consolidate.name, Model.CLOUDSIM: "thr-mmt"}
FIELDS = ("name", "label", "settings", "limits")
NO_CLASSIC = Classic({}, {})


class Reading:
    """The reading of one policy, which goes on after a complaint.

    Attributes:
        complaints: Everything that is wrong with it.
        contender: Who is tried; None when something is wrong.
    """

    def __init__(
        self,
        entry: object,
        at: Location,
        *,
        model: Model,
        limits: Mapping[str, object],
        seed: int,
    ) -> None:
        """Read *entry*.

        Args:
            entry: A table with the name of a policy, its label, settings and limits.
            at: Where it is in its file.
            model: In which model it is tried.
            limits: What every policy keeps to, unless it says otherwise.
            seed: Of what is drawn by chance.
        """
        self._at, self._model, self._limits, self._seed = at, model, limits, seed
        self.complaints: list[Complaint] = []
        self.contender: Contender | None = None
        if isinstance(entry, Mapping):
            self.contender = self._read(entry)
        else:
            self._say((), f"expected a table of named values, found {shown(entry)}")

    def _say(self, at: Location, message: str) -> None:
        self.complaints.append(Complaint((*self._at, *at), message))

    def _read(self, entry: Mapping[str, object]) -> Contender | None:
        for key in entry:
            if key not in FIELDS:
                self._say((key,), no_such("field", key, FIELDS))
        name = self._text(entry, "name")
        label = self._text(entry, "label") if "label" in entry else None
        settings = self._table(entry, "settings")
        limits = self._table(entry, "limits")
        if self.complaints or name is None:
            return None
        made = Contender(
            label=label or label_of(name, settings),
            name=name,
            settings=settings,
            policy=None,
        )
        return self._with_policy(made, limits)

    def _text(self, entry: Mapping[str, object], key: str) -> str | None:
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value
        found = "which is missing" if key not in entry else f"found {shown(value)}"
        self._say((key,), f"expected a text, {found}")
        return None

    def _table(self, entry: Mapping[str, object], key: str) -> dict[str, object]:
        value = entry.get(key, {})
        if isinstance(value, Mapping):
            return dict(value)
        self._say((key,), f"expected a table of named values, found {shown(value)}")
        return {}

    def _with_policy(
        self, made: Contender, limits: Mapping[str, object]
    ) -> Contender | None:
        try:
            if self._model is Model.CLOUDSIM:
                return self._scheme(made, limits)
            if made.name == NONE:
                return self._nobody(made, limits)
            return self._consolidating(made, limits)
        except ConfigurationError as error:
            self._say(("name",), str(error))
            return None

    def _scheme(
        self, made: Contender, limits: Mapping[str, object]
    ) -> Contender | None:
        if made.settings or limits:
            self._say(
                (),
                f"in {Model.CLOUDSIM} policies take neither settings nor "
                "limits: their name says all, as in lr-mmt-1.2",
            )
            return None
        chosen = scheme(made.name, self._seed)
        label = str(chosen) if made.label == made.name else made.label
        return Contender(label=label, name=made.name, policy=chosen)

    def _nobody(
        self, made: Contender, limits: Mapping[str, object]
    ) -> Contender | None:
        if made.settings or limits:
            self._say((), f"{NONE} has neither settings nor limits")
            return None
        return made

    def _consolidating(
        self, made: Contender, limits: Mapping[str, object]
    ) -> Contender | None:
        known = made.name == Consolidate.name
        base = NO_CLASSIC if known else _classic(made.name)
        kept = Table(
            Limits,
            {**self._limits, **base.limits, **limits},
            (*self._at, "limits"),
        )
        self.complaints += kept.complaints
        if kept.value is None:
            return None
        values = {"seed": self._seed, **base.settings, **made.settings}
        at = (*self._at, "settings")
        table = policy_table(Consolidate.name, values, kept.value, at)
        self.complaints += table.complaints
        if table.value is None:
            return None
        assert isinstance(table.value, Consolidate)  # noqa: S101 - that is its name
        return Contender(
            label=made.label,
            name=made.name,
            settings=made.settings,
            policy=table.value,
        )


def _classic(name: str) -> Classic:
    try:
        return classic(name)
    except InvalidSettingError as error:
        if name.partition("-")[0] in FAMILIES:
            raise
        raise InvalidSettingError(
            f"expected {Consolidate.name}, {NONE}, or a policy of CloudSim or Neat as "
            f"in lr-mmt-1.2 or neat-mhod-0.1, found {shown(name)}"
        ) from error


def label_of(name: str, settings: Mapping[str, object]) -> str:
    """Return what a policy is called, with the settings it was given."""
    return " ".join([name, *(f"{key}={_word(settings[key])}" for key in settings)])


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(policy: Consolidate) -> Iterator[tuple[str, object]]:
    """Yield the settings of *policy* by name, limits left out."""
    for each in fields(policy):
        if each.name != "limits":
            yield each.name, getattr(policy, each.name)
