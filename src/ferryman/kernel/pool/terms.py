"""What our own connections ask of the server, and how long they wait for it."""

from collections.abc import Mapping
from datetime import timedelta

from ferryman.kernel.db import READ_COMMITTED
from ferryman.kernel.locks import written

CONNECT_TIMEOUT_SECONDS = 5.0
PATIENCE = timedelta(seconds=60)  # with a statement of a caller, or of a part that has no hurry
# Of the patience of a line: what the server has for a statement, and for each lock that it meets. A row that somebody holds is
# told from a database that is slow by which of the two runs out, so the second is well below the first.
SERVER_SHARE = 0.8
LOCK_SHARE = 0.4
LOCK = timedelta(seconds=10)  # at most

STATEMENTS_KEPT = 100
# Whoever refuses our settings is a pooler, and may give the next statement to another server, which knows of none.
STATEMENTS_KEPT_BY_A_POOLER = 0

# Plans: hot statements find their rows by index whatever the statistics say
# (a plan made while the table was empty must not scan it when it is full), and jit would be switched on by the price that
# the planner puts on what is forbidden. Life: a peer that vanished is noticed in seconds, a transaction that was left
# open (a worker frozen inside it) is ended so that it does not hide its rows. No setting ends one that was frozen between two
# messages of a statement: the watchdog does, which knows by the name what it may end when (kernel/watchdog/still.py).
# Durability is raised afterwards (commits.py). Isolation: every statement is written for read committed. A claim locks a row
# that another transaction has just changed, and needs the new version of that row. default_transaction_read_only is not
# overridden: operators and platforms set it to stop all writes, and work then waits (K24).
LINE_SETTINGS = {
    "default_transaction_isolation": READ_COMMITTED,
    "application_name": "ferryman",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": written(LOCK),
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# A pooler that refuses all of the above takes these, and the isolation level, at the beginning of each transaction. A statement
# that stands alone gets a transaction for that.
WITHIN = ("application_name", "idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")


def bounds(patience: timedelta | None, *, lock: timedelta = LOCK) -> dict[str, str]:
    """Return the settings by which the server gives up a statement within a patience, and earlier where it waits for a lock."""
    if patience is None:
        return {"lock_timeout": written(lock)}
    lock = min(lock, patience * LOCK_SHARE)
    return {"lock_timeout": written(lock), "statement_timeout": written(patience * SERVER_SHARE)}


def within(settings: Mapping[str, str]) -> str:
    """Write the statements by which a transaction is given its isolation level and its bounds."""
    told = [f"set local {name} = '{settings[name]}'" for name in WITHIN if name in settings]
    return ";".join([f"set transaction isolation level {READ_COMMITTED}", *told])


# A handler's own transaction may think for longer than ours, but not for ever.
POOL_SETTINGS = {
    "default_transaction_isolation": READ_COMMITTED,
    "application_name": "ferryman pool",
    "jit": "off",
    "lock_timeout": written(LOCK),
    "idle_in_transaction_session_timeout": "60s",
}
