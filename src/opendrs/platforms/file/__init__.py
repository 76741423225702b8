"""A snapshot in a file, as a platform."""
