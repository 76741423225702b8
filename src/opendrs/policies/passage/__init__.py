"""From moves in any order to a plan of which every interleaving is safe."""

from opendrs.policies.passage.journey import Detours as Detours
from opendrs.policies.passage.journey import Journey as Journey
from opendrs.policies.passage.way import Passage as Passage
from opendrs.policies.passage.way import passage as passage
