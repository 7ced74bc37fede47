"""The other domains as tables: ours beside what a person would do with plain tasks, or by hand, and what nothing stands beside.

Of turns, resumptions, batches and commands it is our own plain tasks that stand beside them, not the floor of the peers.
"""

from __future__ import annotations

from bench import ingest, report
from bench.bars import FLOOR, OURS, Ratio, Results, number

LOOP, LOOPS = "bare aiohttp and COPY, one page at a time", "the same loop, four pages at a time"

# What, figure, unit, what stands beside it, whether less is better, under whose name that was measured.
DOMAINS = (
    ("turns without tools, moves in the log", "turns.moves_rate", "/s", "our plain tasks", False, FLOOR),
    ("turns without tools", "turns.rate", "/s", "our plain tasks", False, FLOOR),
    ("suspend, tool, resume, p50", "resume.p50", "ms", "one of our plain tasks, from create to result", True, FLOOR),
    ("fork 100 turns and join, p50", "batches.p50", "ms", "create 100 of our plain tasks and await them", True, FLOOR),
    (
        "commands with three capabilities",
        "commands.rate",
        "/s",
        "one of our plain tasks that creates three",
        False,
        FLOOR,
    ),
    ("ingestion, records in pages of 100", "ingest.rate", "/s", LOOP, False, FLOOR),
    ("ingestion, CPU of the process for a page", "ingest.cpu_worker", "ms", LOOP, True, FLOOR),
    ("ingestion, CPU of the store for a page", "ingest.cpu_store", "ms", LOOP, True, FLOOR),
    ("ingestion, records in pages of 100", "ingest.rate", "/s", LOOPS, False, ingest.FOUR),
    ("ingestion, CPU of the process for a page", "ingest.cpu_worker", "ms", LOOPS, True, ingest.FOUR),
    ("ingestion, CPU of the store for a page", "ingest.cpu_store", "ms", LOOPS, True, ingest.FOUR),
)

# Told and not judged. Of memory, because P8 is about the drain, as the peers' figures are.
ALONE = (
    ("fork 100 turns and join, by `app.fork_join` from outside, p50, ms", "batches.outside_p50"),
    ("a batch of 8 turns, one at a time, p50, ms", "shapes.small"),
    ("a batch of 16 turns, two at a time, p50, ms", "shapes.middle"),
    ("a thousand batches of 2 turns, forked eight at a time, batches/s", "shapes.crowd_rate"),
    ("a thousand `app.fork_join` of 2 turns awaited together, batches/s", "shapes.together_rate"),
    ("the first of that thousand to be joined, ms", "shapes.together_first"),
    ("the middle one of that thousand, ms", "shapes.together_p50"),
    *((f"gate at {top:,}/s, round trips for a request", f"gate.trips_{top}") for top in ingest.TOPS),
    ("one executor before a slow server, records/s", "ingest2.one"),
    ("two executors before it, records/s", "ingest2.two"),
    ("memory at most, commands with three capabilities, a worker, MB", "commands.memory"),
    ("memory at most, turns without tools, a process that asks and works, MB", "turns.memory"),
)


def told(results: Results) -> list[str]:
    """The tables; none of what was not measured."""
    rows = [["what", "ours", "beside it", "ratio (range)", "what stands beside it"]]
    for what, figure, unit, other, least, peer in DOMAINS:
        judged = Ratio(what, figure, peer, least=least).judge(results)
        if judged is not None:
            ours, theirs = (number(results.median(figure, each) or 0.0) for each in (OURS, peer))
            rows.append([f"{what}, {unit}", ours, theirs, judged.ratio, other])
    alone = [["of ours alone", "median (min..max)"]]
    alone += [[what, report.cell(results, figure, OURS)] for what, figure in ALONE if results.rounds(figure, OURS)]
    return [report.table(each) for each in (rows, alone) if len(each) > 1]
