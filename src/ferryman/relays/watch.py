"""What is repaired: rules that end deliveries nobody took, and let old ones go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ferryman.kernel import open_transactions, telemetry
from ferryman.kernel.db import Row, Tx
from ferryman.kernel.invariants import Invariant, declare
from ferryman.kernel.watchdog import Rule, far_leases
from ferryman.relays.rules import ending
from ferryman.relays.store import deliveries, relays

log = telemetry.logger("relays")

_HERE = "ferryman.relays"

RELAY_INVARIANTS: tuple[Invariant, ...] = (
    declare(_HERE, "deliveries_have_one_tenant", "A delivery belongs to the tenant of its webhook.", deep=True),
    declare(_HERE, "delivery_and_log_agree", "A delivery's row and its last event tell the same state.", deep=True),
    declare(_HERE, "webhook_and_log_agree", "A webhook's row and its last event tell the same state.", deep=True),
)


def set_back(*, every: timedelta, lease: timedelta, call: timedelta) -> list[Rule]:
    """Return the rules for relays and deliveries whose leases are of a time before the clock was set back."""
    return [
        far_leases("K5-relays", relays.shorten, every=every, lease=lease),
        far_leases("K5-deliveries", deliveries.shorten, every=every, lease=ending.lease(call)),
    ]


def rules(*, interval: timedelta, kept: timedelta, dead_kept: timedelta) -> list[Rule]:
    """Return the rules of relays."""

    async def expire(tx: Tx, owed: Sequence[Row]) -> int:
        ended = await deliveries.expire(tx, [row["id"] for row in owed])
        telemetry.called("dead", ended)
        log.warning("deliveries of webhooks are dead: their time is over", extra={"count": ended})
        return ended

    async def forget(tx: Tx, past: Sequence[Row]) -> int:
        return await deliveries.forget(tx, [row["id"] for row in past])

    return [
        Rule(
            name="K10-dead",
            finds="a delivery that is owed still at its ends_at",
            does="makes it a dead letter, as WEBHOOK_UNDELIVERED",
            setting="worker.watchdog_interval_seconds",
            every=interval,
            find=deliveries.expired,
            act=expire,
            only_bound=True,
        ),
        Rule(
            name="K10-kept",
            finds="a delivery that ended longer ago than such are kept",
            does="deletes it",
            setting="worker.watchdog_interval_seconds",
            every=timedelta(minutes=1),
            find=partial(deliveries.past, kept=kept, dead_kept=dead_kept),
            act=forget,
        ),
        Rule(
            name="K19-relays",
            finds="how far the readers of the log are, which open transactions hold them up, and how much webhooks are owed",
            does="shows it as metrics",
            setting="worker.watchdog_interval_seconds",
            every=timedelta(seconds=30),
            find=_count,
        ),
    ]


async def _count(tx: Tx, _limit: int) -> Sequence[Row]:
    telemetry.behind((each.name, each.behind) for each in await relays.standings(tx))
    telemetry.blocked(
        ((str(each.pid or each.prepared), each.application, each.role, "yes" if each.wrote else "no"), each.seconds)
        for each in await open_transactions.long_open(tx)
    )
    owed = await deliveries.depth(tx)
    telemetry.depth("webhook", [("", "pending", owed["waiting"]), ("", "sending", owed["sending"])])
    return ()
