"""Batches: the list, and one batch as a tree that fills in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Request, Response

from ferryman.batches.model import BatchRecord
from ferryman.batches.states import BatchStatus
from ferryman.dashboard import forms, spelling
from ferryman.dashboard.explained import explained
from ferryman.dashboard.forms import PAGE, Back
from ferryman.dashboard.page import back, pages, render
from ferryman.dashboard.pictures import tree as picture
from ferryman.http.callers import Reading, Writing

router = pages()

HERE = "/batches"


@router.get("/batches")
async def batches(request: Request, visit: Reading, status: str = "", before: UUID | None = None) -> Response:
    """Show batches, the newest first, and how far each is."""
    known: Any = status if status in set(BatchStatus) else None
    found = await visit.doors.batches.list(status=known, before=before, limit=PAGE)
    counts = await visit.doors.batches.counts([each.id for each in found])
    strips = {each.id: picture.strip(counts[each.id], whole=each.task_count) for each in found}
    asked = {"status": known or ""}
    next = forms.address(HERE, {**asked, "before": found[-1].id}) if len(found) == PAGE else None
    return render(
        request, visit, "batches.html", here=HERE, batches=found, counts=counts, strips=strips, chosen=known or "",
        tabs=forms.tabs(HERE, asked, "status", [each.value for each in BatchStatus]),
        first=forms.address(HERE, asked) if before else None, next=next,
    )  # fmt: skip


@router.get("/batches/{id}")
async def batch(request: Request, visit: Reading, id: UUID) -> Response:
    """Show a batch, what its tasks came to, and what they led to."""
    tree = await visit.doors.batches.tree(id)
    found = tree.batch
    result = await visit.doors.batches.result(id)
    counts: dict[str, int] = {}
    for task in tree.tasks:
        counts[task.status] = counts.get(task.status, 0) + 1
    return render(
        request, visit, "batch.html", here=HERE, batch=found, tree=tree, subject=str(id), counts=counts,
        results={each["task_index"]: each for each in result["results"]}, picture=picture.draw(tree, now=spelling.now()),
        strip=picture.strip(counts, whole=found.task_count),
        told=await explained(visit, id, state=found.status, doing=_doing(found)),
    )  # fmt: skip


def _doing(batch: BatchRecord) -> str:
    return f"It has ended as {batch.status}." if batch.terminal else "It waits for its tasks."


@router.post("/batches/{id}/cancel")
async def cancel(request: Request, visit: Writing, id: UUID, to: Back = HERE) -> Response:
    """End the batch, and stop its children."""
    done = await visit.doors.batches.cancel(id)
    return back(request, to, "It has ended; its children are being stopped." if done else "It had ended before.")
