"""Our own connections to PostgreSQL.

Two kinds, so that user code can never starve the machinery (K24): a `Database` is the pool behind the doors (create, read,
cancel, a handler's own transactions); a `Line` is one connection held by one part of the machinery (a lane of the pump, the
lease keeper, the watchdog, the doorbell). A line that broke heals itself at its next use. No session state is relied on
(the statement of a sink is kept in one, and done without where it is lost: decision 39), so both work through PgBouncer in
transaction mode. Settings that a pooler refuses are left out at the next try, and those that
bound a transaction are given to each one instead; a line then makes one of every statement.

Cancelled does not mean uncommitted, and a connection lost during a commit does not say what became of it: every write
behind these doors is either fenced or keyed, so that it can be repeated.
"""

from ferryman.kernel.pool.database import Database
from ferryman.kernel.pool.line import Line
from ferryman.kernel.pool.said import spoken, told, translated
from ferryman.kernel.pool.session import Session
from ferryman.kernel.pool.terms import LINE_SETTINGS, POOL_SETTINGS
from ferryman.kernel.pool.turnstile import Standstill

__all__ = [
    "LINE_SETTINGS",
    "POOL_SETTINGS",
    "Database",
    "Line",
    "Session",
    "Standstill",
    "spoken",
    "told",
    "translated",
]
