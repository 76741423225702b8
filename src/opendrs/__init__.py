"""Keeps virtual machines spread over their hosts, by live migration, safely."""

__version__ = "0.1.0"
