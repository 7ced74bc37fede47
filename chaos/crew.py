"""What the workers of a run can do, in every domain; each handler tells its own history what it does.

Outside effects are lines of the history, each with its key. Effects in the database are rows that count how often they were
made.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any

from chaos import terms
from chaos.history import History
from ferryman import Command, Context, Fact, Ferryman, Message, Result, Turn, current
from ferryman.ingest.ports import Item, Page, Request, Written
from ferryman.kernel import telemetry
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import Doorbell, NoDoorbell
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.tasks.model import Ended
from ferryman.tasks.work import handlers
from ferryman.testing import Doubled, Late, Lossy

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
# What an oar is told that is to fail.
BROKEN = "break"
# Between the number of an oar and how many seconds its first claim is to take.
SLOW = " slow "
# Of so many windows the first page of one takes that many of its leases, when it is asked for the first time.
SLOW_WINDOWS, SLOW_OF_LEASE = 4, 1.3
# How long children of batches, and steps and capabilities of commands, take: long enough to be met by a death.
STROKE_SECONDS = 0.7
STEP_SECONDS = 0.2
LEGS = ("Leg.Load", "Leg.Cross", "Leg.Unload")


def load() -> None:
    """Load what a life would load at its first use: all are forked from the process that calls this."""
    handlers.prepare()
    telemetry.registry()


def bell(kind: str, url: str, seed: int) -> Doorbell:
    """Make the doorbell of one life."""
    match kind:
        case "nats":
            return NatsDoorbell(os.environ["FERRYMAN_NATS_URL"])
        case "none":
            return NoDoorbell()
        case "lossy":
            return Lossy(PostgresDoorbell(url), share=0.6, seed=seed)
        case "doubled":
            return Doubled(PostgresDoorbell(url))
        case "late":
            return Late(PostgresDoorbell(url), behind=3)
        case _:
            return PostgresDoorbell(url)


class Debts:
    """An owner of callbacks: counts how often each end was told, in the transaction that ends the task."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        """Lock what is owed, in order."""
        await tx.fetch("select from public.owed where ref = any($1) order by ref for update", list(refs))

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        """Count."""
        refs = [each.callback_ref for each in ended]
        await tx.fetch("update public.owed set ends = ends + 1 where ref = any($1) returning ref", refs)


class Cargo:
    """A table beside the product's, which counts how often each record was written."""

    same_database = True

    async def write(self, tx: Tx | None, items: Sequence[Item], *, batch_key: str) -> Written:
        """Write a page."""
        assert tx is not None
        await tx.fetch(
            "insert into public.cargo (id, batch) select (item ->> 'id')::bigint, $2"
            " from jsonb_array_elements($1::jsonb) as item"
            " on conflict (id) do update set writes = cargo.writes + 1, batch = excluded.batch",
            json.dumps(list(items)),
            batch_key,
        )
        return Written(len(items), [])


def build(url: str, history: History, *, doorbell: str, seed: int, pool: int) -> Ferryman:
    """Make an app that knows all of it."""
    # Behind a pooler the doorbell has an address of its own.
    listen = os.environ.get("FERRYMAN_LISTEN_URL", url)
    app = Ferryman(url, doorbell=bell(doorbell, listen, seed), pool={"size": pool})
    app.on_end("debt", Debts())
    _tasks(app, history)
    _hogs(app, history, pool=pool)
    _voyages(app, history)
    _agents(app, history)
    _commands(app, history)
    _ingestion(app, history)
    return app


def _word(ctx: Context, key: str) -> str:
    """Return what a task comes to: each claim another word, so that it shows whose was kept."""
    return f"{key} of claim {ctx.task.epoch}"


def _tasks(app: Ferryman, history: History) -> None:
    @app.task(backoff=0.05)
    async def job(ctx: Context, key: str, hold: float = 0.0) -> str:
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        await asyncio.sleep(hold)
        history.write("effect", key=key, **told)
        return _word(ctx, key)

    @app.task(backoff=0.05)
    def plain(ctx: Context, key: str, hold: float = 0.0) -> str:
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        time.sleep(hold)
        history.write("effect", key=key, **told)
        return _word(ctx, key)

    @app.task(backoff=0.05)
    async def shaky(ctx: Context, key: str) -> str:
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        if ctx.attempt == 1:
            raise ConnectionError("not yet")
        history.write("effect", key=key, **told)
        return _word(ctx, key)

    @app.task(backoff=0.05)
    async def tick(ctx: Context, key: str) -> str:
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        history.write("effect", key=key, **told)
        return _word(ctx, key)

    @app.task(backoff=0.05)
    async def lag(ctx: Context, key: str, hold: float) -> str:
        """The first claim takes longer than a lease; those after it do not, or it would be started for ever."""
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        if ctx.task.epoch == 1:
            await asyncio.sleep(hold)
        history.write("effect", key=key, **told)
        return _word(ctx, key)


def _hogs(app: Ferryman, history: History, *, pool: int) -> None:
    hogs: set[str] = set()

    @app.task(backoff=0.05)
    async def hog(ctx: Context, key: str, hold: float) -> str:
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)
        async with app.database.session():
            hogs.add(key)
            history.write("hogs", held=len(hogs), pool=pool)
            try:
                await asyncio.sleep(hold)
            finally:
                hogs.discard(key)
        history.write("effect", key=key, **told)
        return _word(ctx, key)


def _voyages(app: Ferryman, history: History) -> None:
    @app.task(backoff=0.05)
    async def voyage(ctx: Context, key: str) -> list[str]:
        """Steps, a sleep and children: each step returns a word that no other run of it would."""
        told: dict[str, Any] = {"task": str(ctx.id), "epoch": ctx.task.epoch, "attempt": ctx.attempt}
        history.write("start", **told, key=key)

        async def ran(name: str) -> str:
            word = f"{name} {ctx.task.epoch} {os.getpid()}"
            history.write("ran", task=told["task"], epoch=told["epoch"], step=name, word=word)
            return word

        words = [await ctx.step(name, ran, name) for name in ("load", "cast-off")]
        await ctx.sleep(0.05)
        legs = [ctx.child("job", {"key": f"{key}-{n}"}) for n in range(2)]
        words += await ctx.join(legs)
        words.append(await ctx.step("unload", ran, "unload"))
        history.write("effect", key=key, **told)
        return words


def _speak(history: History, what: str) -> None:
    """Say that the task that runs here has begun."""
    here = current()
    history.write(what, task=str(here.id), epoch=here.task.epoch)


def _claim(turn: Turn) -> int:
    """Say which claim of a turn speaks; a user has no need of it."""
    return turn._memory.taken.epoch  # noqa: SLF001


def _agents(app: Ferryman, history: History) -> None:
    @app.tool(backoff=0.05, retries=terms.RETRIES)
    async def knot(number: int) -> str:
        _speak(history, "ties")
        return f"knot {number} of claim {current().task.epoch}"

    @app.agent
    async def oar(turn: Turn) -> dict[str, str]:
        history.write("stroke", turn=str(turn.id), epoch=_claim(turn))
        if turn.instruction == BROKEN:  # at once, so that the others are under way
            raise RuntimeError("the oar broke")
        _, _, slow = turn.instruction.partition(SLOW)
        await asyncio.sleep(float(slow) if slow and _claim(turn) == 1 else STROKE_SECONDS)
        return {"summary": f"stroke {turn.instruction} of claim {_claim(turn)}"}

    @app.agent
    async def sailor(turn: Turn) -> list[str]:
        history.write("sails", turn=str(turn.id), epoch=_claim(turn))

        async def ran(name: str) -> str:
            word = f"{name} {os.getpid()} {time.monotonic()}"
            history.write("ran", turn=str(turn.id), epoch=_claim(turn), step=name, word=word)
            return word

        words = [await turn.step("look", ran, "look")]
        words += await asyncio.gather(turn.call_tool("knot", number=1), turn.call_tool("knot", number=2))
        words.append(await turn.step("steer", ran, "steer"))
        return words


def _commands(app: Ferryman, history: History) -> None:
    @app.on_command("Voyage.Request", backoff=0.05)
    async def request(command: Command) -> list[Message]:
        _speak(history, "maps")
        await asyncio.sleep(STEP_SECONDS)
        return [Message(leg, {}, max_retries=terms.RETRIES) for leg in LEGS]

    async def sail(ctx: Context) -> dict[str, int]:
        _speak(history, "leg")
        await asyncio.sleep(STEP_SECONDS)
        return {"epoch": ctx.task.epoch}

    for leg in LEGS:
        app.capability(leg, backoff=0.05)(sail)

    @app.on_result("Leg.Load.Completed", backoff=0.05)
    async def loaded(result: Result) -> list[Message | Fact]:
        _speak(history, "maps")
        await asyncio.sleep(STEP_SECONDS)
        return [Fact("Voyage.Loaded"), Message("Leg.Check", {}, max_retries=terms.RETRIES)]

    app.capability("Leg.Check", backoff=0.05)(sail)


def _ingestion(app: Ferryman, history: History) -> None:
    """A source with a record for every minute since the dawn, and pages of ten."""

    async def depot(request: Request) -> Page:
        assert request.window is not None
        first = round((request.window.since - DAWN) / timedelta(minutes=1))
        last = round((request.window.until - DAWN) / timedelta(minutes=1))
        at = first if request.position == "start" else int(request.position)
        history.write("asked", first=first, place=at)
        if at == first and _is_slow(first // terms.RECORDS_OF_A_WINDOW, history):
            lease = os.environ.get("FERRYMAN_INGEST__LEASE", "0s")
            await asyncio.sleep(float(lease.removesuffix("s")) * SLOW_OF_LEASE)
        page = [{"id": n} for n in range(at, min(at + terms.PAGE, last))]
        after = at + terms.PAGE
        watermark = DAWN + timedelta(minutes=page[-1]["id"]) if page else None
        more = after < last
        stats = {"headers": _quota()}
        return Page(page, str(after) if more else None, more, watermark=watermark, size=len(page) * 10, stats=stats)

    app.source(depot, name=terms.SOURCE, sink=Cargo(), ordered=True, safety_lag=timedelta(0))


def _is_slow(nth: int, history: History) -> bool:
    """Say whether a window is to be slow: once only, whoever asks for it, or it would be begun for ever."""
    if nth % SLOW_WINDOWS != SLOW_WINDOWS - 1:
        return False
    try:
        history.path.with_name(f"slow-{nth}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _quota() -> dict[str, str]:
    """Say what is left until when, and what the time is here: to whom has a wrong clock, and does not look, that is an hour."""
    now = int(time.time())
    return {
        "Date": formatdate(now, usegmt=True),
        "X-RateLimit-Remaining": str(terms.QUOTA),
        "X-RateLimit-Reset": str(now + terms.QUOTA_SECONDS),
    }
