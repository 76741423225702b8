"""What a simulation is given: load, hosts, guests, and the policies to try."""
