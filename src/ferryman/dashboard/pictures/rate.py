"""The rate of a plan over time: how often its source was asked, how often that was too often, and what the gate allowed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from markupsafe import Markup

from ferryman.dashboard.pictures import axis, marks
from ferryman.dashboard.pictures.svg import element
from ferryman.ingest.intake.survey import PaceRow

HEAD, HEIGHT, FOOT = 18, 110, 22
WIDTH = 1000


def draw(rows: Sequence[PaceRow]) -> Markup:
    """Return the curve; empty without any request."""
    if not rows:
        return Markup()
    first, part = rows[0].at, rows[0].seconds
    whole = max(part, (rows[-1].at - first).total_seconds() + part)
    top = ceiling(rows)
    parts = [*_levels(top)]
    for row in rows:
        parts += _bars(row, (row.at - first).total_seconds() / whole, part / whole, top)
    path = curve(rows, whole=whole, top=top)
    if path:
        line = element("path", class_="allowed", d=path)
        box = f"0 0 {WIDTH} {HEIGHT}"
        parts.append(
            element("svg", line, y=HEAD, width="100%", height=HEIGHT, viewBox=box, preserveAspectRatio="none"),
        )
    for tick in axis.elapsed(timedelta(seconds=whole), most=4):
        parts.append(marks.words(tick.says, at=tick.at, y=HEAD + HEIGHT + 16, class_="tick"))
    return marks.canvas(parts, height=HEAD + HEIGHT + FOOT, class_="rate", says=_says(rows, part))


def ceiling(rows: Sequence[PaceRow]) -> float:
    """Return a round number of requests a second that nothing exceeds."""
    highest = max(0.1, *(max(each.requests / each.seconds, each.rate or 0.0) for each in rows))
    power = axis.nice(highest) / 10
    return next(step * power for step in (2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= highest * (1 - 1e-9))


def curve(rows: Sequence[PaceRow], *, whole: float, top: float) -> str:
    """Return the path of what the gate allowed: a step for each part, level where nothing was asked."""
    path, first = "", rows[0].at
    for row in rows:
        if row.rate is None:
            continue
        y = HEIGHT * (1 - min(1.0, row.rate / top))
        since = WIDTH * (row.at - first).total_seconds() / whole
        until = since + WIDTH * row.seconds / whole
        path += f"{'H' if path else 'M'}{since:.1f}" + ("" if path else f" {y:.1f}")
        path += f"V{y:.1f}H{until:.1f}"
    return path


def _bars(row: PaceRow, since: float, wide: float, top: float) -> list[Markup]:
    asked = row.requests / row.seconds
    high = HEIGHT * min(1.0, asked / top)
    allowed = "" if row.rate is None else f", {row.rate:.3g}/s allowed"
    says = f"{asked:.3g} requests/s{allowed}, {row.items} records"
    made = [_bar(since, wide, high, class_="fill-blue", says=says)]
    if row.throttled:
        refused = f"{row.throttled} refused (429)"
        made.append(
            _bar(since, wide, high * min(1.0, row.throttled / max(1, row.requests)), class_="fill-red", says=refused)
        )
    return made


def _bar(since: float, wide: float, high: float, *, class_: str, says: str) -> Markup:
    high = max(1.0, high)
    return marks.bar(
        since, since + wide * 0.86, y=HEAD + HEIGHT - high, height=high, class_=class_, says=says, least=0.001
    )


def _levels(top: float) -> list[Markup]:
    made = []
    for share in (1.0, 0.5, 0.0):
        y = HEAD + HEIGHT * (1 - share)
        made.append(marks.level(y, class_="grid-line"))
        if share:
            made.append(marks.words(f"{top * share:g}/s", at=0, y=y - 4, class_="tick"))
    return made


def _says(rows: Sequence[PaceRow], part: float) -> str:
    asked = sum(each.requests for each in rows)
    refused = sum(each.throttled for each in rows)
    last = next((each.rate for each in reversed(rows) if each.rate is not None), None)
    allowed = "" if last is None else f", {last:.3g} a second allowed at the end"
    return (
        f"{asked} requests, {refused} refused as too many{allowed}; each bar is {axis.spelled(round(part, 1) or part)}"
    )
