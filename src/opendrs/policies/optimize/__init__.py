"""The policy `optimize`: fewest migrations with the greatest benefit."""

from opendrs.policies.optimize.policy import Optimize as Optimize
