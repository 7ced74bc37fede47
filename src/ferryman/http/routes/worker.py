"""The worker protocol: how programs in any language claim tasks, keep them and end them (S4).

Say hello once, and keep the secret that comes back. Claim, which waits for work. While a task runs, send a heartbeat at least
every `beat_seconds`; what it says is lost is to be dropped. End each task with complete, fail or release. Every claim has an
epoch; the answer to one that is stale is 409 TASK_LEASE_LOST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import Field

from ferryman.app.remote import CLAIM_MAX, HELD_MAX, LINES_MAX, WAIT_SECONDS_MAX
from ferryman.http.answers import Asked, Shape
from ferryman.http.callers import Working
from ferryman.http.streams import staying
from ferryman.kernel import payload
from ferryman.tasks.model import Claimed, Outcome

router = APIRouter(prefix="/worker", tags=["worker protocol"])

Secret = Annotated[str, Field(max_length=200, description="The secret that hello answered with.")]
Wait = Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX, description="How many seconds to wait at most.")]
Epoch = Annotated[int, Field(ge=1, le=2**63 - 1, description="The epoch of the claim.")]


class Hello(Asked):
    """What a worker says of itself: which handlers it has, which queues it serves."""

    handlers: list[str]
    queues: list[str] = Field(default=["default"])
    host: Annotated[str, Field(max_length=200)] = ""
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    version: Annotated[str, Field(max_length=200)] = ""


class Greeted(Shape):
    """A worker that was taken in. `worker` is its secret, told once; leases last `lease_seconds`."""

    worker: str
    boot_id: UUID
    lease_seconds: float
    beat_seconds: float


class Claim(Asked):
    """How much to claim, and how long to wait for it.

    `holds` is what the worker still has: what else is leased to it is handed back. Only for one claim at a time.
    """

    worker: Secret
    limit: Annotated[int, Field(ge=1, le=CLAIM_MAX)] = 1
    wait: Wait = 0
    holds: Annotated[list[UUID], Field(max_length=HELD_MAX)] | None = None


class Work(Shape):
    """A task in a worker's hands."""

    id: UUID
    epoch: int
    task_id: str
    name: str
    queue: str
    attempt: int
    max_retries: int
    timeout_ms: int
    traceparent: str | None
    payload: Any


class Claims(Shape):
    """What was claimed; none when nothing came in time."""

    tasks: Sequence[Work]


class Holding(Asked):
    """One claim."""

    id: UUID
    epoch: Epoch


class Heartbeat(Asked):
    """What a worker holds. With a wait the answer comes when one of them is cancelled, or at its end."""

    worker: Secret
    held: list[Holding] = Field(default=[], max_length=HELD_MAX)
    wait: Wait = 0


class Kept(Shape):
    """Which claims are kept for another lease, and which are lost: drop those."""

    kept: Sequence[UUID]
    lost: Sequence[UUID]


class Completion(Asked):
    """The end of a task that was done."""

    worker: Secret
    id: UUID
    epoch: Epoch
    result: Any = None


class Failure(Asked):
    """The end of a try that failed; `retry` false: there is no other."""

    worker: Secret
    id: UUID
    epoch: Epoch
    reason: Annotated[str, Field(max_length=10_000)]
    retry: bool = True


class Release(Asked):
    """A task that was not worked on."""

    worker: Secret
    id: UUID
    epoch: Epoch


class Line(Asked):
    """A line for the task's log."""

    message: Annotated[str, Field(max_length=10_000)]
    level: str = "info"


class Word(Asked):
    """How far a task is, and what its handler says."""

    worker: Secret
    id: UUID
    epoch: Epoch
    percent: Annotated[float, Field(ge=0, le=100)] | None = None
    message: Annotated[str, Field(max_length=2000)] | None = None
    log: list[Line] = Field(default=[], max_length=LINES_MAX)


class Goodbye(Asked):
    """Who goes."""

    worker: Secret


class Left(Shape):
    """How many tasks were handed back."""

    handed_back: int


class Settled(Shape):
    """Where the task went: succeeded, failed, or ready for another try after so many seconds."""

    id: UUID
    state: str
    code: str | None
    reason: str | None
    delay_seconds: float


class Heard(Shape):
    """It was kept."""

    kept: bool = True


@router.post("", status_code=201, response_model=Greeted)
async def hello(visit: Working, asked: Hello) -> Any:
    """Say hello: name your handlers and queues, and get the secret that all other requests need."""
    return await visit.doors.remote.hello(**asked.model_dump())


@router.post("/claim", response_model=Claims)
async def claim(visit: Working, asked: Claim, request: Request) -> dict[str, Any]:
    """Claim tasks, waiting for them if there are none."""
    async with staying(request) as gone:
        tasks = await visit.doors.remote.claim(
            asked.worker, limit=asked.limit, wait=asked.wait, holds=asked.holds, unless=gone
        )
    return {"tasks": [work(task) for task in tasks]}


def work(task: Claimed) -> dict[str, Any]:
    """Return a task as it goes over the wire."""
    return {**task._asdict(), "task_id": task.task_id or str(task.id), "payload": payload.decode(task.payload)}


@router.post("/heartbeat", response_model=Kept)
async def heartbeat(visit: Working, asked: Heartbeat, request: Request) -> dict[str, Any]:
    """Keep what you hold for another lease, and hear what is lost."""
    held = {each.id: each.epoch for each in asked.held}
    async with staying(request) as gone:
        told = await visit.doors.remote.renew(asked.worker, held, wait=asked.wait, unless=gone)
    return {
        "kept": [id for id, still in told.items() if still],
        "lost": [id for id, still in told.items() if not still],
    }


@router.post("/complete", response_model=Settled)
async def complete(visit: Working, asked: Completion) -> dict[str, Any]:
    """End a task that was done, with its result. A repeat whose first answer was lost is harmless."""
    done = await visit.doors.remote.complete(asked.worker, asked.id, epoch=asked.epoch, result=asked.result)
    return settled(done)


@router.post("/fail", response_model=Settled)
async def fail(visit: Working, asked: Failure) -> dict[str, Any]:
    """End a try that failed."""
    done = await visit.doors.remote.fail(
        asked.worker, asked.id, epoch=asked.epoch, reason=asked.reason, again=asked.retry
    )
    return settled(done)


@router.post("/release", response_model=Settled)
async def release(visit: Working, asked: Release) -> dict[str, Any]:
    """Hand back a task that was not worked on; no attempt is used."""
    return settled(await visit.doors.remote.release(asked.worker, asked.id, epoch=asked.epoch))


@router.post("/progress", response_model=Heard)
async def progress(visit: Working, asked: Word) -> dict[str, Any]:
    """Tell how far a task is, and keep lines in its log."""
    await visit.doors.remote.say(
        asked.worker,
        asked.id,
        epoch=asked.epoch,
        percent=asked.percent,
        message=asked.message,
        lines=[(line.level, line.message) for line in asked.log],
    )
    return {"kept": True}


@router.post("/goodbye", response_model=Left)
async def goodbye(visit: Working, asked: Goodbye) -> dict[str, Any]:
    """Go; what you hold is handed back at once."""
    return {"handed_back": await visit.doors.remote.leave(asked.worker)}


def settled(outcome: Outcome) -> dict[str, Any]:
    """Return where a task went."""
    return {
        "id": outcome.id,
        "state": outcome.state.value,
        "code": outcome.code,
        "reason": outcome.reason,
        "delay_seconds": outcome.delay,
    }
