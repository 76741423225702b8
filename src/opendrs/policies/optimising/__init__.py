"""Planning by search: the few migrations that bring most, at any size."""
