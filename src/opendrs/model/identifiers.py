"""Identifiers of nodes, guests and steps."""

from typing import NewType

NodeId = NewType("NodeId", str)
GuestId = NewType("GuestId", str)
StepId = NewType("StepId", str)
