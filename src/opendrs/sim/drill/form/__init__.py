"""A drill in one file: the form opendrs-drill/1, in TOML."""

from opendrs.sim.drill.form.reading import DrillFile as DrillFile
from opendrs.sim.drill.form.reading import drill_from as drill_from
from opendrs.sim.drill.form.reading import read_drill as read_drill
