"""How even the nodes can become at best when few units are moved.

A Lagrangian relaxation that takes the cluster apart into its nodes. What all nodes have
to agree on gets prices: what the budgets count, each arrival (as many units arrive as
leave), and load (as much arrives as leaves). At given prices each node decides for
itself who leaves it and what arrives, and what all of them come to is a bound, whatever
the prices are; those are looked for at which it is highest.

Who leaves is looked at set by set, so that whole units leave; of the smallest units of
a node only how much they can take with them at most. What arrives is n units of any
kind, mixed: n times the convex hull of what units take. Rules, the room of nodes and
which nodes are open to whom are passed over.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
"""
