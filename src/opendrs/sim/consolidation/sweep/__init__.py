"""Many runs: policies, settings, loads and seeds, in every combination."""
