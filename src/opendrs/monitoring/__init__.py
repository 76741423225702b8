"""Observation of a running controller: metrics, health checks, service manager."""
