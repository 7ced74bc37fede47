"""The envelope of every move, as the source shows it (T13)."""

import asyncio
import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.tasks import watch
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules.envelope import envelope
from ferryman.tasks.states import RUNNING, TASK
from ferryman.testing import plant
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

SECOND = timedelta(seconds=1)
ENVELOPE = ["type", "source", "session_key", "event_id", "payload"]
PAYLOAD = [
    "task_id",
    "from_state",
    "to_state",
    "occurred_at",
    "attempt",
    "reason_code",
    "reason_message",
    "idempotent_hit",
]


@pytest.mark.contract("T13", "T4")
async def test_the_last_timeout_is_told_as_in_the_source(make_app: MakeApp) -> None:
    app = await make_app()
    async with app.database.transaction() as tx:
        task = await plant(
            tx, TASK, RUNNING, task_id="task_20260225_0001", attempt=3, max_retries=2, timeout_ms=30_000,
            started_at=-SECOND * 31, leased_until=-SECOND,
        )  # fmt: skip
        await watchdog.tick(tx, watch.rules(Owners(), NoDoorbell(), sweep=SECOND, interval=SECOND))

    [event] = await app.tasks.events(task)

    told = envelope(event)
    assert re.fullmatch(r"evt_\d+", told.pop("event_id"))
    assert datetime.fromisoformat(told["payload"].pop("occurred_at")).utcoffset() == timedelta(0)
    assert "start_to_close timeout" in told["payload"].pop("reason_message")
    assert told == {
        "type": "task_state_changed",
        "source": "gateway.scheduler",
        "session_key": "scheduler:default",
        "payload": {
            "task_id": "task_20260225_0001",
            "from_state": "running",
            "to_state": "failed",
            "attempt": 3,
            "reason_code": "TASK_RETRY_EXHAUSTED",
            "idempotent_hit": False,
        },
    }


@pytest.mark.contract("T13")
async def test_every_envelope_has_exactly_the_fields_of_the_source(make_app: MakeApp) -> None:
    async def mail() -> None: ...

    app = await make_app(mail)
    handle = await app.tasks.create(mail, task_id="order")
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    told = [envelope(event) for event in await app.tasks.events(handle.id)]

    assert all(list(each) == ENVELOPE and list(each["payload"]) == PAYLOAD for each in told)
    assert [each["type"] for each in told] == ["task_created", "task_state_changed", "task_state_changed"]
    assert {each["payload"]["task_id"] for each in told} == {"order"}
    assert {each["payload"]["idempotent_hit"] for each in told} == {False}


@pytest.mark.contract("T13", "T12")
async def test_an_idempotent_hit_tells_nothing(make_app: MakeApp) -> None:
    async def mail() -> None: ...

    app = await make_app(mail)
    handle = await app.tasks.create(mail, idempotency_key="k")

    await app.tasks.create(mail, idempotency_key="k")

    assert len(await app.tasks.events(handle.id)) == 1


@pytest.mark.contract("T13", "K10")
async def test_each_move_has_one_event_in_order_under_load(make_app: MakeApp) -> None:
    async def fails_once(ctx: Any = None) -> None: ...

    app = await make_app(fails_once)
    handles = await app.tasks.create_many(fails_once, [{} for _ in range(300)])
    async with app.worker(), app.worker():
        await asyncio.gather(*(handle.result(timeout=PATIENCE_SECONDS) for handle in handles))

    async with app.database.session() as tx:
        rows = await tx.fetch(
            "select subject, array_agg(to_state order by id) as states from ferryman.events group by subject"
        )
    assert len(rows) == 300
    assert {tuple(row["states"]) for row in rows} == {("ready", "running", "succeeded")}
