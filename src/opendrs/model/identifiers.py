"""Names of things in a cluster and in a plan."""

from typing import NewType

NodeId = NewType("NodeId", str)
GuestId = NewType("GuestId", str)
StepId = NewType("StepId", str)
