"""An app with a past: work that has run, runs, waits and failed, for pictures of the dashboard and tests of its pages.

Everything is done by a real worker on a real database. What must last as long as somebody looks waits for an event that is
never sent, so nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from ferryman import Context, Ferryman
from ferryman.app.handle import Handle
from ferryman.testing import travel


@dataclass
class Scene:
    """An opened app whose worker runs, and some of its objects by the part they play."""

    app: Ferryman
    parts: dict[str, UUID]


def make(database_url: str) -> Ferryman:
    """Return the app with its handlers; nothing is connected yet."""
    app = Ferryman(database_url)

    @app.task(queue="mail", backoff=0.01)
    async def send_invoice(ctx: Context, customer: str, amount: int = 0) -> dict[str, object]:
        ctx.log(f"rendering the invoice of {customer}")
        ctx.log("handed to the mail server")
        return {"customer": customer, "sent": True, "amount": amount, "message_id": f"<{customer}@mail.example>"}

    @app.task(queue="images", backoff=0.02, max_retries=2)
    async def resize_image(ctx: Context, path: str, broken: bool = False) -> dict[str, object]:
        ctx.progress(40, "decoding")
        if broken or (ctx.attempt == 1 and path.endswith("7.png")):
            ctx.log("the decoder gave up", level="warning")
            raise ValueError(f"{path}: not a picture that can be read (bad marker at byte 4132)")
        ctx.progress(100, "done")
        return {"path": path, "sizes": [320, 640, 1280]}

    @app.task(queue="orders", backoff=0.01)
    async def fulfil_order(ctx: Context, order: str) -> str:
        await ctx.step("reserve-stock", _after, f"reservation of {order}")
        await ctx.step("charge-card", _after, 4200)
        ctx.log(f"{order} is paid, waiting for somebody to release it")
        answer = await ctx.wait_event("released", timeout=timedelta(days=3))
        await ctx.step("print-label", _after, f"label of {order}")
        return f"{order} released by {(answer or {}).get('by', 'somebody')}"

    @app.task(queue="reports")
    async def build_report(ctx: Context, month: str) -> str:
        for percent in range(0, 60, 10):
            ctx.progress(percent, f"{percent // 10} of 10 chapters")
            ctx.log(f"chapter {percent // 10 + 1} of {month} is written")
        await _held.wait()
        return month

    _held = asyncio.Event()
    return app


async def _after(value: object) -> object:
    await asyncio.sleep(0.02)
    return value


@asynccontextmanager
async def playing(
    database_url: str, *, rounds: int = 0, also: Callable[[Ferryman], None] | None = None
) -> AsyncIterator[Scene]:
    """Open an app, let it work, and keep its worker running as long as the block lasts.

    With rounds it has worked for ten minutes before: the clock of its database is set back, and moved on after each round.
    `also` adds handlers.
    """
    app = make(database_url)
    if also is not None:
        also(app)
    async with app:
        await app.queues.set("images", new=True, concurrency=4)
        await app.queues.set("orders", new=True, concurrency=10, rate="50/s")
        await app.queues.set("imports", new=True, rate="5/m")
        async with app.worker(queues=QUEUES, grace=timedelta(seconds=0.1)):
            await _before(app, rounds)
            yield Scene(app, await _past(app))


async def _before(app: Ferryman, rounds: int) -> None:
    if rounds:
        await _travel(app, -LATELY)
    for number in range(rounds):
        some = 6 + number * 7 % 11 + (9 if number % 13 > 8 else 0)
        mails = [{"customer": NAMES[place % len(NAMES)]} for place in range(some)]
        made = [*await app.tasks.create_many("send_invoice", mails)]
        if number % 7 == 3:
            made.append(await app.tasks.create("resize_image", path="scan.bmp", broken=True))
        await asyncio.gather(*(app.tasks.end(each.id) for each in made))
        await _travel(app, LATELY / rounds)


async def _travel(app: Ferryman, by: timedelta) -> None:
    async with app.database.transaction() as tx:
        await travel(tx, by)


async def _past(app: Ferryman) -> dict[str, UUID]:
    mails = [{"customer": name, "amount": 100 + 7 * place} for place, name in enumerate(NAMES * 4)]
    sent = await app.tasks.create_many("send_invoice", mails)
    pictures = [{"path": f"uploads/{place:03}.png"} for place in range(24)]
    resized = await app.tasks.create_many("resize_image", pictures)
    broken = await app.tasks.create("resize_image", path="uploads/holiday.tiff", broken=True, task_id="holiday-photo")
    order = await app.tasks.create("fulfil_order", order="order-1042", task_id="order-1042")
    report = await app.tasks.create("build_report", month="October", priority=-2)
    later = await app.tasks.create("send_invoice", customer="Hopper", at=_in(timedelta(hours=6)))
    unknown = await app.tasks.accept({"name": "send_invoice", "payload": {"customer": "Lovelace"}, "queue": "archive"})
    await app.queues.pause("imports")
    waiting = [await app.tasks.create("send_invoice", customer=name, queue="imports") for name in NAMES[:5]]
    schedule = await app.schedules.create("build_report", cron="0 6 * * mon", schedule_id="weekly-report", month="last")
    ticking = await app.schedules.create("send_invoice", every="5m", schedule_id="reminders", customer="Noether")
    resting = await app.schedules.create("resize_image", daily="03:30", schedule_id="thumbnails", path="all")
    await app.schedules.pause(resting.id, reason="the disk is full")
    fired = await ticking.trigger()
    gone = await app.tasks.create("send_invoice", customer="Turing", queue="imports")
    await app.tasks.cancel(gone.id, reason="the customer left")
    await _ended([*sent, *resized, fired])
    await app.tasks.end(broken.id)
    return {
        "sent": sent[0].id, "resized": resized[7].id, "broken": broken.id, "order": order.id, "report": report.id,
        "later": later.id, "unknown": unknown.id, "waiting": waiting[0].id, "schedule": schedule.id,
        "ticking": ticking.id, "resting": resting.id, "fired": fired.id, "gone": gone.id,
    }  # fmt: skip


async def _ended(handles: list[Handle]) -> None:
    await asyncio.gather(*(each.result(timeout=30) for each in handles))


def _in(wait: timedelta) -> datetime:
    return datetime.now(UTC) + wait


LATELY = timedelta(minutes=9)
QUEUES = ["default", "mail", "images", "orders", "reports", "imports"]
NAMES = ["Ada", "Babbage", "Curie", "Dijkstra", "Euler", "Franklin", "Gauss", "Hopper"]
