"""From moves to a plan of which every interleaving is safe."""

from opendrs.policies.passage.journey import Detours as Detours
from opendrs.policies.passage.journey import Journey as Journey
from opendrs.policies.passage.journey import Switch as Switch
from opendrs.policies.passage.turns import in_turn as in_turn
from opendrs.policies.passage.way import Passage as Passage
from opendrs.policies.passage.way import passage as passage
