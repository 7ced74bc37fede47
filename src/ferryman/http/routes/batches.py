"""Batches over HTTP: fork_join, in the JSON of the source (B1, B9, B10)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from ferryman.app.batches import Batches
from ferryman.batches.intake import read
from ferryman.batches.model import BatchRecord, TaskRecord
from ferryman.batches.states import BatchStatus, TaskStatus
from ferryman.http.answers import LIMIT, Asked, Limit, Page, Shape, also, page
from ferryman.http.bodies import Body, RepeatKey, takes
from ferryman.http.callers import Reading, Writing
from ferryman.http.fields import Before, Wait
from ferryman.kernel import payload

router = APIRouter(prefix="/batches", tags=["batches"])

# A batch that is asked for with a key has an id made of it, so that a repeat meets it.
KEYED = UUID("0f3a1c52-8f0b-5d0e-b0a4-1d1a7c0a9c3e")


class NewTask(Asked):
    """One task of a batch: a turn of a new agent of a profile, of an agent that exists, or of a clone of one."""

    target_strategy: Literal["new", "reuse", "clone"]
    target_ref: str
    instruction: str
    context_box_id: UUID | None = None


class NewBatch(Asked):
    """A batch to be forked, in the form of the source."""

    tasks: list[NewTask]
    fail_fast: bool | None = None
    deadline_seconds: float | None = None


class Batch(Shape):
    """A batch: how far it is, or how it ended."""

    id: UUID
    tenant: str
    status: BatchStatus
    task_count: int
    fail_fast: bool
    deadline_at: datetime
    created_at: datetime
    finished_at: datetime | None
    reason: str | None
    parent_agent_id: str | None
    parent_agent_turn_id: UUID | None
    parent_tool_call_id: str | None
    recursion_depth: int
    metadata: dict[str, Any]


class Task(Shape):
    """A task of a batch, with what is kept of its result in `metadata`."""

    id: UUID
    batch_id: UUID
    task_index: int
    status: TaskStatus
    agent_id: str
    profile: str
    attempt_count: int
    retryable: bool
    next_retry_at: datetime
    current_agent_turn_id: UUID | None
    current_turn_epoch: int | None
    context_box_id: UUID
    output_box_id: UUID | None
    error_detail: str | None
    created_at: datetime
    dispatched_at: datetime | None
    finished_at: datetime | None
    metadata: dict[str, Any]


class Branch(Task):
    """A task, with the batches that its turn forked."""

    batches: list[Tree]


class Tree(Shape):
    """A batch with its tasks, and what they led to."""

    batch: Batch
    tasks: list[Branch]


Branch.model_rebuild()


class Outcome(Shape):
    """What became of one task."""

    task_index: int
    status: TaskStatus
    summary: str | None = None
    output_box_id: UUID | None = None
    error: str | None = None


class Result(Shape):
    """What a batch came to, or has come to so far: one of `results` for each task, in order."""

    status: BatchStatus
    results: list[Outcome]


class Forked(Shape):
    """The answer to a fork: the batch, whether it was there before, and its result if it was waited for and has ended."""

    idempotent_hit: bool
    batch: Batch
    result: Result | None


class Cancelled(Shape):
    """Whether the batch was ended now, and how it stands."""

    cancelled: bool
    status: BatchStatus


def told(batch: BatchRecord) -> dict[str, Any]:
    """Return a batch with its metadata as values."""
    return batch._asdict() | {"metadata": payload.decode(batch.metadata)}


def _task(task: TaskRecord) -> dict[str, Any]:
    return task._asdict() | {"metadata": payload.decode(task.metadata)}


def _tree(tree: read.Tree) -> dict[str, Any]:
    tasks = [_task(task) | {"batches": [_tree(each) for each in tree.under.get(task.id, ())]} for task in tree.tasks]
    return {"batch": told(tree.batch), "tasks": tasks}


@router.post(
    "",
    status_code=201,
    response_model=Forked,
    responses=also(200, Forked),
    response_model_exclude_unset=True,
    openapi_extra=takes(NewBatch),
    summary="Fork a batch",
)
async def fork(visit: Writing, asked: Body, key: RepeatKey, response: Response, wait: Wait = 0) -> dict[str, Any]:
    """Ask several agents for turns at once; with `wait` also wait for the join, so long at most.

    With an Idempotency-Key a repeat answers with the batch that is there (200).
    """
    door = visit.doors.batches
    id = None if key is None else uuid.uuid5(KEYED, f"{visit.tenant}/{key}")
    forked = await door.accept(asked, id=id)
    if forked.idempotent_hit:
        response.status_code = 200
    response.headers["Location"] = f"/v1/batches/{forked.id}"
    found = await _ended(door, forked.id, wait)
    result = await door.result(found.id) if wait and found.terminal else None
    return {"idempotent_hit": forked.idempotent_hit, "batch": told(found), "result": result}


async def _ended(door: Batches, batch: UUID, seconds: float) -> BatchRecord:
    if seconds:
        try:
            return await door.wait(batch, timeout=seconds)
        except TimeoutError:
            pass  # it goes on: told as it is now
    return await door.get(batch)


@router.get("", response_model=Page[Batch], summary="List batches")
async def list_page(
    visit: Reading,
    status: Annotated[
        BatchStatus | None,
        Query(description="Of this status only; one that has ended is found by walking, newest first."),
    ] = None,
    before: Before = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """List batches, newest first, a page at a time."""
    found = await visit.doors.batches.list(status=status, before=before, limit=limit)  # type: ignore[arg-type]
    return page(found, limit=limit) | {"items": [told(each) for each in found]}


@router.get("/{batch_id}", response_model=Batch, summary="Read a batch")
async def get(visit: Reading, batch_id: UUID) -> dict[str, Any]:
    """Read a batch: how far it is, or how it ended."""
    return told(await visit.doors.batches.get(batch_id))


@router.get("/{batch_id}/tasks", response_model=list[Task], summary="Read the tasks of a batch")
async def tasks(visit: Reading, batch_id: UUID) -> list[dict[str, Any]]:
    """Read the tasks of a batch, in order."""
    return [_task(each) for each in await visit.doors.batches.tasks(batch_id)]


@router.get("/{batch_id}/tree", response_model=Tree, summary="Read a batch as a tree")
async def tree(visit: Reading, batch_id: UUID) -> dict[str, Any]:
    """Read a batch with its tasks, and the batches that their turns forked, down to the last."""
    return _tree(await visit.doors.batches.tree(batch_id))


@router.get(
    "/{batch_id}/result",
    response_model=Result,
    responses=also(202, Result),
    response_model_exclude_unset=True,
    summary="Wait for what a batch comes to",
)
async def result(visit: Reading, batch_id: UUID, response: Response, wait: Wait = 0) -> Mapping[str, Any]:
    """Read what a batch came to, or has come to so far; with `wait` wait for its end, so long at most. 202 while it runs."""
    found = await _ended(visit.doors.batches, batch_id, wait)
    if not found.terminal:
        response.status_code = 202
    return await visit.doors.batches.result(batch_id)


@router.post("/{batch_id}/cancel", response_model=Cancelled, summary="Cancel a batch")
async def cancel(visit: Writing, batch_id: UUID) -> dict[str, Any]:
    """End a batch, stop its children and all that they forked."""
    done = await visit.doors.batches.cancel(batch_id)
    return {"cancelled": done, "status": (await visit.doors.batches.get(batch_id)).status}
