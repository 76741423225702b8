"""Numbers that say how good a placement is."""
