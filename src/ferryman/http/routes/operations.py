"""What operators ask and do: how everything is, what ends what and when, and what holds for all tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ferryman.app import doctor as doctors
from ferryman.app.doctor import work
from ferryman.http.answers import Shape
from ferryman.http.bodies import Body, takes
from ferryman.http.callers import Operating, Reading
from ferryman.http.routes.queues import Queues, QueueTerms, terms
from ferryman.kernel.duration import show

router = APIRouter(tags=["operations"])


class Finding(Shape):
    """One thing looked at: how it was found, in a sentence, and what to do about it."""

    name: str
    verdict: str
    says: str
    advice: str
    details: Sequence[Mapping[str, Any]]


class Report(Shape):
    """What an examination found."""

    healthy: bool
    reachable: bool
    readings: Sequence[Finding]


class Bound(Shape):
    """What ends the live objects of one domain and state: the rule, and when it acts on the first."""

    domain: str
    state: str
    rule: str
    count: int
    soonest: datetime


class Bounds(Shape):
    """What ends everything that is live."""

    items: Sequence[Bound]


class Overdue(Shape):
    """What no rule has ended in time, by domain and rule; always empty while a watchdog lives."""

    items: Sequence[Mapping[str, Any]]


class Rule(Shape):
    """A rule of the watchdog."""

    name: str
    finds: str
    does: str
    setting: str
    every: str


class Watchdog(Shape):
    """Whether somebody watches, and the rules that are watched over."""

    verdict: str
    says: str
    advice: str
    rules: Sequence[Rule]


class PausedHandlers(Shape):
    """Handlers that no worker takes tasks of, and since when."""

    items: Mapping[str, datetime]


@router.get("/explain/{id}")
async def explain(visit: Reading, id: str) -> dict[str, Any]:
    """Say what an object of any domain is doing, why it is not running, and what ends it and when (K22)."""
    return (await visit.doors.tasks.explain(id)).as_json()


@router.get("/operations/doctor", response_model=Report)
async def doctor(
    visit: Operating, deep: Annotated[bool, Query(description="Read whole tables too.")] = False
) -> dict[str, Any]:
    """Look at everything that is worth knowing at 3 a.m. It reads, and changes nothing."""
    return (await doctors.examine(visit.app.settings, deep=deep)).as_dict()


@router.get("/operations/bounds", response_model=Bounds)
async def bounds(visit: Operating) -> dict[str, Any]:
    """Say what ends everything that is live, of all tenants, and when."""
    async with visit.app.database.session() as tx:
        [reading] = await work.bounds(tx)
    return {"items": reading.details}


@router.get("/operations/overdue", response_model=Overdue)
async def overdue(visit: Operating) -> dict[str, Any]:
    """Find what no rule has ended in time."""
    async with visit.app.database.session() as tx:
        [reading] = await work.overdue(tx)
    return {"items": reading.as_dict()["details"]}


@router.get("/operations/watchdog", response_model=Watchdog)
async def watchdog(visit: Operating) -> dict[str, Any]:
    """Say whether somebody watches, and over what."""
    async with visit.app.database.session() as tx:
        [reading] = await work.watchdog(tx, interval=visit.app.settings.worker.watchdog_pace)
    rules = [
        {"name": each.name, "finds": each.finds, "does": each.does, "setting": each.setting, "every": show(each.every)}
        for each in visit.app.rules()
    ]
    return {**reading.as_dict(), "rules": rules}


@router.patch("/operations/queues/{name}", response_model=Queues, openapi_extra=takes(QueueTerms))
async def set_terms(
    visit: Operating,
    name: str,
    asked: Body,
    new: Annotated[bool, Query(description="Make the queue if nobody knows it.")] = False,
) -> dict[str, Any]:
    """Change what is agreed for all tenants of a queue together."""
    await visit.app.queues.set(name, new=new, **terms(asked))
    return {"items": await visit.app.queues.rows(name)}


@router.post("/operations/queues/{name}/pause", response_model=Queues)
async def pause(visit: Operating, name: str) -> dict[str, Any]:
    """Let nothing of a queue start from now on, whosever it is; what runs goes on."""
    await visit.app.queues.pause(name)
    return {"items": await visit.app.queues.rows(name)}


@router.post("/operations/queues/{name}/resume", response_model=Queues)
async def resume(visit: Operating, name: str) -> dict[str, Any]:
    """Let a paused queue go on."""
    await visit.app.queues.resume(name)
    return {"items": await visit.app.queues.rows(name)}


@router.get("/operations/handlers/paused", response_model=PausedHandlers)
async def paused_handlers(visit: Operating) -> dict[str, Any]:
    """Read which handlers are paused, and since when."""
    return {"items": await visit.app.queues.paused_tasks()}


@router.post("/operations/handlers/{name}/pause", response_model=PausedHandlers)
async def pause_handler(visit: Operating, name: str) -> dict[str, Any]:
    """Let no worker take tasks of a handler."""
    await visit.app.queues.pause_task(name)
    return {"items": await visit.app.queues.paused_tasks()}


@router.post("/operations/handlers/{name}/resume", response_model=PausedHandlers)
async def resume_handler(visit: Operating, name: str) -> dict[str, Any]:
    """Let workers take tasks of a handler again."""
    await visit.app.queues.resume_task(name)
    return {"items": await visit.app.queues.paused_tasks()}
