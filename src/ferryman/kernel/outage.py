"""Which failures are the database's own, and pass (K24).

PostgreSQL says by the class of its code whether what it was given is at fault, or whether it cannot do anything of the kind
now: it is out of disk, cannot read a page, ends connections, waits for a lock, was made read-only. The first is told to whoever
gave it. The second is no word about what was to be written: that is kept, and tried again until it is stored or its lease ends.

Some of the second are narrow: they may be about a few rows, and what stands beside those can go on. Others come in the middle
of a statement, because it took longer than it may or its connection was cut: that may be the database's trouble, or there is
too much in it for its time, as in a set of large things over a slow wire. Whoever can sends less at a time then.
"""

from __future__ import annotations

from ferryman.kernel import errors, telemetry

log = telemetry.logger("database")

# Connections, states of transactions, rollbacks, resources, states of objects, interventions, the system, and what PostgreSQL
# did not foresee.
_PASSING = ("08", "25", "40", "53", "55", "57", "58", "XX")
_NARROW = ("55", "58", "XX")
# Somebody else holds a row, or a table.
LOCKED = "55P03"
# Cut, or given up by the server.
_UNFINISHED = ("08003", "08006", "57014", "57P01")
# A page of a table, or of an index, is not what was written there.
_DAMAGED = ("XX001", "XX002")
# Somebody went on in a transaction that had failed: what it failed by is not known here, and may be what was written.
FAILED_BEFORE = "25P02"


def passing(sqlstate: str) -> bool:
    """Tell whether PostgreSQL says by this code that it cannot do it now."""
    return sqlstate.startswith(_PASSING) and sqlstate != FAILED_BEFORE


def few(sqlstate: str) -> bool:
    """Tell whether a code that passes may be about a few rows: a lock that somebody holds, a page that cannot be read."""
    return sqlstate.startswith(_NARROW)


def told(sqlstate: str, message: str) -> errors.DatabaseUnavailable:
    """Say by its own code what PostgreSQL cannot do now: a damaged page passes only when somebody mends it."""
    kind = errors.DatabaseDamaged if sqlstate in _DAMAGED else errors.DatabaseUnavailable
    return kind(message, narrow=few(sqlstate), locked=sqlstate == LOCKED, unfinished=sqlstate in _UNFINISHED)


def theirs(sqlstate: str) -> bool:
    """Tell whether a code that passes may be about a statement of the user's, or the table that it is for.

    A type of an extension refuses what it was given as something unforeseen; a published table without a key is in no state to
    be updated; some statements want no transaction around them. None of these passes, and a lock that somebody holds does.
    """
    return sqlstate.startswith(("55", "58", "XX", "25001")) and sqlstate != LOCKED


def passes(error: BaseException) -> bool:
    """Tell whether a failure says nothing about what was to be written, so that it can be written later."""
    return isinstance(error, errors.DatabaseUnavailable | errors.DatabaseRefused | errors.DatabaseNotMigrated)


def narrow(error: BaseException) -> bool:
    """Tell whether a failure that passes may be that of a few, so that those beside them should not wait with them."""
    return isinstance(error, errors.DatabaseUnavailable | errors.DatabaseRefused) and error.narrow


def tell(error: BaseException) -> None:
    """Say aloud that something does not pass by itself."""
    if isinstance(error, errors.DatabaseDamaged):
        log.error("nothing gets past a damaged page: %s", error, extra={"code": error.code})


def unfinished(error: BaseException) -> bool:
    """Tell whether a statement was broken off in the middle, so that a smaller one may come through."""
    return isinstance(error, errors.DatabaseUnavailable) and error.unfinished


def of_all(error: BaseException) -> bool:
    """Tell whether a failure passes and is nobody's in particular."""
    return passes(error) and not narrow(error)


def of_any_set(error: BaseException) -> bool:
    """Tell whether a smaller set would meet it as well: it is of all, and nothing was broken off in the middle."""
    return of_all(error) and not unfinished(error)


def of_one(error: BaseException) -> bool:
    """Tell whether a failure may be that of one thing in a set, and does not pass in a moment: each should go by itself."""
    if isinstance(error, errors.FerrymanError):
        return isinstance(error, errors.StatementRefused) or (narrow(error) and not locked(error))
    return isinstance(error, Exception)


def locked(error: BaseException) -> bool:
    """Tell whether somebody else held what was wanted for longer than could be waited."""
    return isinstance(error, errors.DatabaseUnavailable) and error.locked
