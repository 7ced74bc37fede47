"""What a child's end comes to (B6), and what the parent is told of all of them (B9)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from uuid import UUID

from ferryman.batches.model import View
from ferryman.batches.states import SUCCESS, BatchStatus
from ferryman.kernel import errors, payload

AUTHOR = "batches"
SHOWN_FIELDS = 5
# How long each summary may be; where all together do not fit into a card, the next shorter.
CUTS = (4000, 1000, 200, 40, 0)


def view_of(content: Any) -> View:
    """Return what is kept of a deliverable: its fields, and a summary of it."""
    fields = [each for each in _fields(content) if each["value"] not in (None, "", [], {})]
    said = next((each["value"] for each in fields if each["name"] == "summary"), None)
    if said is not None:
        summary = _plain(said)
    elif fields:
        summary = "; ".join(f"{each['name']}: {_plain(each['value'])}" for each in fields[:SHOWN_FIELDS])
    else:
        summary = "" if content is None else _plain(content)
    return View(summary=summary[: CUTS[0]] or None, fields=tuple(fields[:SHOWN_FIELDS]))


def _fields(content: Any) -> list[dict[str, Any]]:
    """Read fields: a list of {name, value}, by itself or under `fields` or `result_fields`; else what an object has."""
    listed: Any = content
    if isinstance(content, Mapping):
        if "summary" in content:
            return [{"name": str(name), "value": value} for name, value in content.items()]
        listed = content.get("fields", content.get("result_fields"))
        if listed is None:
            return [{"name": str(name), "value": value} for name, value in content.items()]
    if isinstance(listed, Mapping):
        return [{"name": str(name), "value": value} for name, value in listed.items()]
    if not isinstance(listed, list):
        return []
    return [
        {"name": str(each["name"]), "value": each.get("value")}
        for each in listed
        if isinstance(each, Mapping) and "name" in each
    ]


def _plain(value: Any) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What the parent is told (B9)


class Row(Protocol):
    """A task as far as its parent is told of it."""

    @property
    def task_index(self) -> int:
        """Its place."""

    @property
    def status(self) -> str:
        """How it ended."""

    @property
    def output_box_id(self) -> UUID | None:
        """What it wrote."""

    @property
    def error_detail(self) -> str | None:
        """Why it did not succeed."""

    @property
    def metadata(self) -> str:
        """What is kept of it, as JSON text."""


def result(status: str, tasks: Iterable[Row], *, limit: int) -> dict[str, Any]:
    """Return what a batch came to, one result for each task, in order; summaries are cut until all of it fits a card."""
    known = [(each, json.loads(each.metadata).get("result_view") or {}) for each in tasks]
    known.sort(key=lambda each: each[0].task_index)
    told: dict[str, Any] = {}
    for cut in CUTS:
        told = {"status": status, "results": [_result(each, view, cut) for each, view in known]}
        if _fits(told, limit):
            break
    return told


def _result(task: Row, view: Mapping[str, Any], cut: int) -> dict[str, Any]:
    told: dict[str, Any] = {"task_index": task.task_index, "status": task.status}
    summary = (view.get("digest") or "")[:cut]
    if summary:
        told["summary"] = summary
    if task.output_box_id is not None:
        told["output_box_id"] = str(task.output_box_id)
    error = task.error_detail or view.get("tool_result_error") or view.get("error_code")
    if task.status != SUCCESS and error:
        told["error"] = error
    return told


def _fits(value: Any, limit: int) -> bool:
    try:
        payload.encode(value, limit=limit - 1000)  # the card says a little more
    except errors.TaskInvalidPayload:
        return False
    return True


def content(batch: UUID, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the tool.result card that the parent gets."""
    status = told["status"]
    made: dict[str, Any] = {"status": status, "result": dict(told)}
    if status != BatchStatus.SUCCESS:
        message = f"The batch ended as {status}."
        detail = {"batch_id": str(batch), "status": status}
        made["error"] = {"code": "batch_failed", "message": message, "source": AUTHOR, "detail": detail}
    return made
