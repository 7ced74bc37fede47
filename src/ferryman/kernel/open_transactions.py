"""Names the open transactions that hold up every reader of the log (K10).

A reader passes a gap between ids when no older transaction is open in the server. A program that writes events in a
transaction of its own and leaves it open makes such a gap, and so does a prepared transaction that nobody finishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from ferryman.kernel import db, duration
from ferryman.kernel.db import Tx

# Readers look every second or sooner; shorter transactions are everyday life.
LONG: Final = timedelta(seconds=10)
MOST: Final = 5

_OLDER = db.load("ferryman.kernel", "open_transactions/older")


class OpenTransaction(NamedTuple):
    """A transaction that is open for long, and the session that holds it."""

    pid: int | None  # None for a prepared transaction
    prepared: str | None  # the identifier of a prepared transaction
    application: str
    role: str
    database: str
    address: str | None
    state: str | None
    seconds: float
    exact: bool  # False: at least so old; the role that looked may not see more
    wrote: bool  # to the log

    @property
    def says(self) -> str:
        """Say who holds it and since when."""
        if self.prepared is None:
            told = (self.application or "no application_name", f"role {self.role}", f"database {self.database}")
            who = f"Process {self.pid} ({', '.join([*told, *filter(None, (self.address, self.state))])})"
        else:
            who = f"Prepared transaction {self.prepared} (role {self.role}, database {self.database})"
        age = f"{'' if self.exact else 'at least '}{duration.show(timedelta(seconds=round(self.seconds)))}"
        return f"{who} has been open for {age}" if self.prepared else f"{who} has had a transaction open for {age}"

    @property
    def advice(self) -> str:
        """Say how to end it."""
        if self.prepared is not None:
            name = self.prepared.replace("'", "''")
            return f"In database {self.database}: commit prepared '{name}'; or rollback prepared '{name}';"
        return f"Commit it or roll it back there; or end it here: select pg_terminate_backend({self.pid});"


async def long_open(tx: Tx) -> Sequence[OpenTransaction]:
    """Return the transactions that are open for longer than LONG, the oldest first, a few at most."""
    return [
        OpenTransaction(
            row["pid"], row["prepared"], row["application_name"] or "", row["role"] or "", row["database"] or "",
            row["address"], row["state"], row["seconds"], row["exact"], row["wrote"],
        )
        for row in await db.many(tx, _OLDER, older_than=LONG, limit=MOST)
    ]  # fmt: skip
