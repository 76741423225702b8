"""Lagrangian bound of the imbalance with a multiplier for each guest; an experiment.

`opendrs.optimizer.bounds.lagrangian` decomposes the cluster into its nodes, which agree
on how much load arrives. Here they agree on which guests arrive: the node that a guest
leaves receives its multiplier, and the node where it arrives pays it. A node selects
whole guests, not a mix of those that suit it best, and the multiplier of a guest that
many nodes select rises. Budgets and the mean of the fractions have multipliers too.

At given multipliers each node selects its departures and arrivals by itself. The sum of
all nodes is a bound at any multipliers. Rules and capacities are ignored.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
    Barahona and Anbil, The volume algorithm (2000).
"""
