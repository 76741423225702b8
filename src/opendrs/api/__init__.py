"""HTTP API of the controller for host agents."""
