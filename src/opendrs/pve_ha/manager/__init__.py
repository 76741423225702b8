"""The manager of the master: nodes, rules, service states and balancing."""
