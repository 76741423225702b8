"""How even the nodes can become at best, with a price for each guest.

A Lagrangian relaxation, as `opendrs.policies.optimising.decomposition` is one, which
takes the cluster apart into its nodes. There nodes agree on how much arrives; here on
who does: each guest has a price, which the node that it leaves gets and the node where
it arrives pays. So no node can have a mix of what would suit it best, only whole
guests, and of a guest that many nodes would like to have the price rises. Besides,
budgets have prices, and the mean of the shares.

At given prices each node chooses for itself who leaves and who arrives, and what all
choices come to is a bound, whatever the prices are. Rules and the room of nodes are
passed over.

Sources:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
    Barahona, Anbil, The volume algorithm (2000).
"""
