"""Drain in front of what a table has gathered: a million finished rows and ten, a million that are not due, and an open
transaction that keeps PostgreSQL from removing what is dead.

Rows are put in by one statement for each million, as the product would have left them (see `fill` of a peer), and a template
that was filled once serves every round. Ten millions are not copied: they are drained where they lie.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence

from bench.measure import Figures, drain_filled
from bench.protocol import HALT
from bench.stage import Crew, Failed, Stage

KINDS = ("finished", "future", "retrying")
ROWS = 1_000_000
MANY = 10_000_000
SLICE = 10.0
BEFORE, HELD = 60.0, 300.0


def deep(stage: Stage) -> Figures:
    """Drain in front of a million rows of each kind, and of none."""
    count = stage.count("deep")
    drained: list[tuple[str, Figures]] = []
    for kind in mirrored(["empty", *(kind for kind in KINDS if kind in stage.card.fill)]):
        stage.fresh(template=filled(stage, kind, rows(stage, ROWS)))
        drained.append((kind, drain_filled(stage, 1, count)))
    return shares(drained)


def mirrored(kinds: Sequence[str]) -> list[str]:
    """Return an order in which each has its turn twice, as early as late: a drain takes two seconds, and a machine that gets
    slower or faster in the meantime would decide between neighbours."""
    return [*kinds, *reversed(kinds)]


def shares(drained: Sequence[tuple[str, Figures]]) -> Figures:
    """The rates by kind, the means of what was measured, and what each is of that of the empty table."""
    figures: Figures = {}
    for kind in dict.fromkeys(kind for kind, _ in drained):
        found = [figure for named, figure in drained if named == kind]
        figures[kind] = statistics.mean(each["rate"] for each in found)
        figures[f"{kind}_cpu"] = statistics.mean(each["cpu"] for each in found)
        figures[f"{kind}_share"] = figures[kind] / figures["empty"]
    return figures


def deep10(stage: Stage) -> Figures:
    """Drain in front of ten million finished rows, and of none."""
    count = stage.count("deep")
    drained: list[tuple[str, Figures]] = []
    for kind in mirrored(["empty", "finished"]):
        # Kept for `growth`, which looks at as many: what is drained here adds nothing to speak of.
        with begun(stage, kind, rows(stage, MANY) if kind == "finished" else 0, keep=True):
            drained.append((kind, drain_filled(stage, 1, count)))
    return shares(drained)


@contextlib.contextmanager
def begun(stage: Stage, kind: str, count: int, *, keep: bool = False) -> Iterator[None]:
    """Begin a measurement before so many rows of a kind: in a copy, or where they lie if there are too many to copy."""
    template, database = filled(stage, kind, count), stage.database
    if count <= ROWS:
        stage.fresh(template=template)
        yield
        return
    stage.clear()
    try:
        stage.database = template
        yield
    finally:
        stage.database = database
        if not keep:
            stage.store.drop(template)  # used up


def rows(stage: Stage, count: int) -> int:
    """A quick look takes a tenth of the rows."""
    return count if stage.scale >= 1 else count // 10


def filled(stage: Stage, kind: str, count: int) -> str:
    """The name of a template with so many rows of a kind, made once per run."""
    if kind == "empty" or not count:
        return stage.template
    template = f"{stage.peer}_{kind}_{count}"
    if not stage.server.exists(template):
        stage.server.create(template, template=stage.template)
        with stage.server.connect(template) as connection:
            connection.prepare_threshold = None
            for first in range(1, count + 1, ROWS):
                last = min(count, first + ROWS - 1)
                fill = stage.card.fill[kind].replace("{first}", str(first)).replace("{last}", str(last))
                connection.execute(fill.encode())
                if count > ROWS:
                    print(f"  filled {last:,} of {count:,}", flush=True)
            connection.execute("vacuum analyze")
        stage.server.disconnect(template)
        stage.server.settle(template)
    return template


def horizon(stage: Stage) -> Figures:
    """Create and drain all the time, for a while as usual, then while an open transaction holds the horizon."""
    stage.fresh()
    before, held = (BEFORE, HELD) if stage.scale >= 1 else (2 * SLICE, 6 * SLICE)
    with stage.crew(1) as crew, stage.beside("stream", 0) as client:
        stage.marks.go()
        try:
            usual = slices(stage, crew, before)
            with stage.server.connect(stage.database) as connection:
                connection.autocommit = False
                # With a number of its own and a snapshot: neither dead rows nor the log's order get past it.
                connection.execute("set transaction isolation level repeatable read")
                connection.execute("select pg_current_xact_id()")
                holding = slices(stage, crew, held)
                connection.rollback()
        finally:
            stage.marks.times[HALT] = 1.0
        if client.poll() is not None:
            raise Failed(f"{stage.peer}: the client ended early")
    third = max(1, len(holding) // 3)
    thirds = [statistics.median(part) for part in (holding[:third], holding[third:-third], holding[-third:])]
    usual_rate = statistics.median(usual)
    figures = {f"usual_{n}": rate for n, rate in enumerate(usual)} | {
        f"held_{n}": rate for n, rate in enumerate(holding)
    }
    return figures | {
        "usual": usual_rate,
        "held": statistics.median(holding),
        "least_share": min(holding) / usual_rate,
        **{f"third_{n}": rate for n, rate in enumerate(thirds)},
        "end_share": thirds[-1] / usual_rate,
        "decay": thirds[-1] / thirds[1],
    }


def slices(stage: Stage, crew: Crew, seconds: float) -> list[float]:
    """The rate in each slice of time; the first of a run is not counted, for it is still warming up."""
    rates: list[float] = []
    handled, then = stage.marks.handled(), time.monotonic()
    if not handled:
        time.sleep(SLICE / 2)
        handled, then = stage.marks.handled(), time.monotonic()
    while len(rates) * SLICE < seconds:
        time.sleep(SLICE)
        now_handled, now = stage.marks.handled(), time.monotonic()
        rates.append((now_handled - handled) / (now - then))
        handled, then = now_handled, now
        if crew.ended():
            raise Failed(f"a worker of {stage.peer} ended early")
    return rates
