"""Queues: how much waits and runs in them, what is agreed for them, who holds their slots, pause and resume."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request, Response

from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures.share import Part, share
from ferryman.http.callers import Reading, Visit, Writing
from ferryman.kernel import errors
from ferryman.tasks.intake.queues import EVERYBODY, Queue

router = pages()

Back = Annotated[str, Form(alias="back")]


def _seen(visit: Visit, rows: list[Queue]) -> list[Queue]:
    """Return what a tenant may see: what is agreed for all, and for itself; an operator sees everything."""
    return [each for each in rows if visit.caller.operator or each.tenant in {EVERYBODY, visit.tenant}]


def slots(queue: Queue) -> object:
    """Return the bar of slots in use; None where they are not limited."""
    if not queue.concurrency:
        return None
    says = f"{queue.held} of {queue.concurrency} slots are held"
    return share([Part("held", "blue", queue.held)], whole=queue.concurrency, says=says)


@router.get("/queues")
async def queues(request: Request, visit: Reading) -> Response:
    """Show every queue."""
    rows = _seen(visit, list(await visit.doors.queues.list()))
    return render(
        request, visit, "queues.html", here="/queues", queues=rows, slots=slots,
        paused_tasks=await visit.doors.queues.paused_tasks(), everybody=EVERYBODY,
    )  # fmt: skip


@router.get("/queues/{name}")
async def queue(request: Request, visit: Reading, name: str) -> Response:
    """Show a queue: what is agreed, and who holds its slots."""
    rows = _seen(visit, list(await visit.doors.queues.rows(name)))
    return render(
        request, visit, "queue.html", here="/queues", name=name, queue=rows[0], rows=rows, slots=slots, everybody=EVERYBODY,
        holders=await visit.doors.queues.holders(name), tasks=await visit.doors.tasks.list(queue=name, limit=10),
    )  # fmt: skip


@router.post("/queues/{name}/{action}")
async def act(
    request: Request, visit: Writing, name: str, action: str, tenant: Annotated[str, Form()] = "", to: Back = "/queues"
) -> Response:
    """Pause or resume a queue: for all tenants, for this one, or, if an operator asks, for the one of the row."""
    whom = None if tenant == EVERYBODY else tenant if tenant and visit.caller.operator else visit.tenant
    if whom is None and not visit.caller.operator:
        raise errors.Forbidden("This concerns all tenants, and needs a token for all of them.", scope="operator")
    door = visit.app.queues if visit.caller.operator else visit.doors.queues
    match action:
        case "pause":
            await door.pause(name, tenant=whom)
            said = f"{name} is paused: what runs goes on, nothing starts."
        case "resume":
            await door.resume(name, tenant=whom)
            said = f"{name} goes on."
        case _:
            raise errors.RouteUnknown
    return back(request, to, said)


@router.post("/handlers/{action}")
async def handler(
    request: Request, visit: Writing, action: str, name: Annotated[str, Form()], to: Back = "/queues"
) -> Response:
    """Let no worker take tasks of a handler, or let them take it again; for all tenants."""
    if not visit.caller.operator:
        raise errors.Forbidden("This concerns all tenants, and needs a token for all of them.", scope="operator")
    match action:
        case "pause":
            await visit.app.queues.pause_task(name)
        case "resume":
            await visit.app.queues.resume_task(name)
        case _:
            raise errors.RouteUnknown
    return back(request, to, f"{name} {'is paused' if action == 'pause' else 'goes on'}.")
