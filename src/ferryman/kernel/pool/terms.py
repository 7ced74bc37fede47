"""What our own connections ask of the server, and how long they wait for it."""

from collections.abc import Mapping
from datetime import timedelta

CONNECT_TIMEOUT_SECONDS = 5.0
PATIENCE = timedelta(seconds=60)  # with a statement of a caller, or of a part that has no hurry

STATEMENTS_KEPT = 100
# Whoever refuses our settings is a pooler, and may give the next statement to another server, which knows of none.
STATEMENTS_KEPT_BY_A_POOLER = 0

# Plans: hot statements find their rows by index whatever the statistics say
# (a plan made while the table was empty must not scan it when it is full), and jit would be switched on by the price that
# the planner puts on what is forbidden. Life: a peer that vanished is noticed in seconds, a transaction that was left
# open (a worker frozen inside it) is ended so that it does not hide its rows. Durability is raised afterwards (commits.py).
LINE_SETTINGS = {
    "application_name": "ferryman",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# A lane has all that ended, and all that could be claimed, behind it. Who holds a row for longer than this has left something
# open: what must be written there is sent again later.
LANE_LOCK_TIMEOUT = "500ms"
# What bounds a transaction. A pooler that refuses all of the above takes these at the beginning of each one; a statement that
# stands alone has them where it is a line's, which sends it again, and not in the pool, whose callers each wait for their own.
WITHIN = ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")


def within(settings: Mapping[str, str]) -> str:
    """Write the statements by which a transaction is given its bounds."""
    return ";".join(f"set local {name} = '{settings[name]}'" for name in WITHIN if name in settings)


# A handler's own transaction may think for longer than ours, but not for ever.
POOL_SETTINGS = {
    "application_name": "ferryman",
    "jit": "off",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
