"""A turn over time: what it was, its steps, its calls with the waits between them, its cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup

from ferryman.agents.intake.timeline import Moment
from ferryman.dashboard.pictures import lanes
from ferryman.dashboard.pictures.colours import colour
from ferryman.dashboard.pictures.lanes import Lane, Span

STATE, STEP, CALL, CARD, END = "state", "step", "call", "card", "end"


def draw(moments: Sequence[Moment], *, now: datetime, deadlines: Mapping[str, datetime] | None = None) -> Markup:
    """Return the picture of a turn; `deadlines` are those of the calls that it still waits for."""
    return lanes.draw(rows(moments, deadlines=deadlines or {}), now=now, says="What the turn did, over time")


def rows(moments: Sequence[Moment], *, deadlines: Mapping[str, datetime]) -> list[Lane]:
    """Return the lanes of a turn: itself first, then what it did, in order."""
    made = [_itself(moments)] if any(each.kind in (STATE, END) for each in moments) else []
    cards = [each for each in moments if each.kind == CARD]
    if cards:
        wrote = [Span(each.at, None, "grey", f"{each.name} card") for each in cards]
        made.append(Lane("cards", "grey", moments=wrote, note=str(len(cards)), depth=1))
    for each in moments:
        if each.kind not in (STATE, END, CARD):
            made.append(_row(each, deadlines))
    return made


def _itself(moments: Sequence[Moment]) -> Lane:
    """Return the lane of the turn: each state until the next one, the last until the end."""
    states = [each for each in moments if each.kind == STATE and each.name != "idle"]
    ends = [each for each in moments if each.kind == END]
    edges = [*(each.at for each in states[1:]), ends[0].at if ends else None]
    spans = [
        Span(each.at, until, colour(each.name), _said(each.name, each.details.get("reason")))
        for each, until in zip(states, edges, strict=True)
    ]
    status = (ends or states)[-1].status or ""
    marks = [Span(each.at, None, colour(each.status), _said(each.name, each.details.get("code"))) for each in ends]
    return Lane("turn", colour(status), spans, marks, note=status)


def _row(moment: Moment, deadlines: Mapping[str, datetime]) -> Lane:
    status = moment.status or ""
    call = str(moment.details.get("tool_call_id", ""))
    waits = moment.kind == CALL and moment.until is None and status == "waiting"
    lasting = moment.until is not None or waits or status == "started"
    span = Span(moment.at, moment.until, "violet" if waits else colour(status), _said(moment.name, status))
    return Lane(
        moment.name,
        colour(status),
        [span] if lasting else [],
        [] if lasting else [span],
        note=moment.kind if moment.kind != CALL else f"call {status}".strip(),
        deadline=deadlines.get(call) if waits else None,
        depth=1,
    )


def _said(name: str, more: object) -> str:
    return name if more is None or more == "" else f"{name}, {more}"
