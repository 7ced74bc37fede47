"""Webhooks and deliveries put into their tables in any state, and what became of them."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ferryman.kernel.db import Tx
from ferryman.kernel.event_id import EventId
from ferryman.kernel.pool import Session
from ferryman.relays.model import Claimed, NewDelivery, Outcome
from ferryman.relays.states import ACTIVE, DISABLED, PENDING, DeliveryState, WebhookState
from ferryman.relays.store import deliveries

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
OWNER, OTHER = UUID(int=1), UUID(int=2)
EPOCH = 7
TENANT = "default"


async def now_of(tx: Session) -> datetime:
    [row] = await tx.fetch("select ferryman.clock() as now")
    now: datetime = row["now"]
    return now


async def put(tx: Session, table: str, row: dict[str, Any]) -> UUID:
    """Put one row into a table, past the guard of births; nothing is logged."""
    now = await now_of(tx)
    told = {name: now + value if isinstance(value, timedelta) else value for name, value in row.items()}
    text = json.dumps(told, default=lambda each: each.isoformat() if isinstance(each, datetime) else str(each))
    await tx.execute("set local session_replication_role = replica")
    await tx.fetch(
        f"insert into ferryman.{table} select * from jsonb_populate_record(null::ferryman.{table}, $1::jsonb)", text
    )
    await tx.execute("set local session_replication_role = origin")
    id: UUID = row["id"]
    return id


async def hook(tx: Session, state: WebhookState = ACTIVE, **columns: Any) -> UUID:
    row = {
        "id": uuid4(), "tenant": TENANT, "url": "https://example.com/", "state": state.value, "after_id": 0, "key_id": "k",
        "secret_version": 1, "created_at": -DAY, "updated_at": -DAY, "disabled_at": -HOUR if state is DISABLED else None,
    }  # fmt: skip
    return await put(tx, "webhooks", row | columns)


async def owed(tx: Session, webhook: UUID, state: DeliveryState = PENDING, **columns: Any) -> UUID:
    row = {
        "id": uuid4(), "webhook_id": webhook, "event_id": uuid4().int % 2**60, "event_token": 0, "epoch": 0,
        "next_at": -SECOND, "ends_at": DAY, "created_at": -HOUR, "attempts": 0, "state": state.value, "tenant": TENANT,
        "kind": "task", "body": "{}",
        "finished_at": None if state is PENDING else -HOUR,
    }  # fmt: skip
    return await put(tx, "webhook_deliveries", row | columns)


LEASED: dict[str, Any] = {"lease_owner": OWNER, "leased_until": HOUR, "next_at": HOUR, "epoch": EPOCH, "attempts": 2}


async def row_of(tx: Session, table: str, id: UUID) -> dict[str, Any]:
    [row] = await tx.fetch(f"select to_jsonb(row)::text as row from ferryman.{table} as row where id = $1", id)
    found: dict[str, Any] = json.loads(row["row"])
    return found


async def told_of(tx: Session, id: UUID) -> list[tuple[Any, ...]]:
    rows = await tx.fetch(
        "select kind, from_state, to_state, reason_code, reason_message, tenant from ferryman.events where subject = $1"
        " order by id",
        id,
    )
    return [tuple(row) for row in rows]  # type: ignore[arg-type]  # a record is a sequence


async def claim(tx: Tx, *held: UUID, each: int = 9, limit: int = 9) -> list[Claimed]:
    return await deliveries.claim(tx, held, owner=OWNER, each=each, limit=limit, lease=timedelta(seconds=15))


async def settle(tx: Tx, id: UUID, word: str = "delivered", *, epoch: int = EPOCH, **more: Any) -> dict[UUID, str]:
    settled, _busy = await deliveries.settle(tx, [Outcome(id, epoch, word, **more)], owner=more.pop("owner", OWNER))
    return settled


def new(webhook: UUID, event_id: int = 1, token: int = 1) -> NewDelivery:
    return NewDelivery(uuid4(), webhook, EventId(event_id, token), TENANT, "task", "{}")
