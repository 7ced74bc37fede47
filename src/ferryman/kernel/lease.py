"""How long a claim is held (K5).

The end of a lease is the earlier of two times, by the database's clock: one lease from now, so that a dead worker's claim
falls soon; and the attempt's timeout plus a margin, so that a living worker cannot hold it for ever. One column therefore
serves one sweep. The margin lets the worker end its own attempt before the sweep does. The statements compute it; the view
`bounds` counts on the same margin.
"""

from datetime import timedelta

SHORTEST = timedelta(seconds=2)
MARGIN = timedelta(seconds=5)
LEAST_PATIENCE = timedelta(seconds=1)


def patience(lease: timedelta) -> timedelta:
    """Return how long a holder waits for the database before it tries anew: two more tries fit into the lease.

    However short the lease, a busy machine is given a second to answer.
    """
    return max(lease / 3, LEAST_PATIENCE)
