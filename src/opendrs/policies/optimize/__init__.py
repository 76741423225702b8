"""The policy `optimize`: few migrations with a large benefit, and a lower bound."""

from opendrs.policies.optimize.policy import Optimize as Optimize
