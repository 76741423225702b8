"""Scenarios: workload, hosts, guests and the policies to compare."""
