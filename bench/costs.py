"""Where the time goes: what each thing costs by the clock, by CPU, by flushes and by WAL, beside two limits.

One is what stands beside it in the same run: for tasks the floor, hand-written SQL of the same kind that does as little as it
can; for other domains our own plain tasks, or a loop by hand. The other is the CPU time that we spend ourselves, spread over
all cores with nothing waited for: how far the waiting could still be hidden. It says nothing about whether that CPU is well
spent; what stands beside it does. What has to be waited for is in limit.py.
"""

from __future__ import annotations

from typing import NamedTuple

from bench import report
from bench.bars import FLOOR, OURS, Results, number

PER_10K = 100.0  # seconds per 10,000, as microseconds for one
PER_PAGE = 1000.0  # milliseconds for a page, as microseconds
MILLI = 1000.0

COLUMNS = (
    "**µs**: one of these by the clock, the median of the rounds; where many are under way at once, the time of all"
    " divided by their number.",
    "**beside**: what stands beside it in the same run: for tasks and workflows the floor of the table above; for turns,"
    " resumptions, batches and commands our own plain tasks, and for pages the bare loop, as in the table of their domains.",
    "**of that**: how many times as long ours takes.",
    "**CPU client or worker**, **CPU store**: processor time for one, in our processes and in those of PostgreSQL; a"
    " dash where it was not recorded.",
    "**CPU bound**: both of these together, divided by the cores: the least that our own work takes if nothing is ever"
    " waited for.",
    "**of the bound**: how many times as long it takes; a large number is time spent waiting, for the disk or for each other.",
    "**flushes**, **WAL**: flushes of the WAL and its bytes, for one.",
)


class Cost(NamedTuple):
    """A row: its figures by name, and what there is to say. `rate` counts in a second; with `time` it is how long one takes."""

    what: str
    rate: str
    client: str
    store: str
    words: str
    flushes: str = ""
    wal: str = ""
    each: int = 1  # so many of what the rate counts are one of these
    micro: float = PER_10K
    time: float = 0.0  # what the figure is in, in microseconds, if it is a time


COSTS = (
    Cost(
        "create one by one", "enqueue.single_heard", "enqueue.cpu_client_single_heard", "enqueue.cpu_store_single_heard",
        "One statement and one commit, with its ring inside. Client, server and disk wait for each other, so that"
        " their times add up:"
        " what is left beside both CPU times is the flush, which the floor has, too.",
        flushes="enqueue.flushes_single_heard", wal="enqueue.wal_single_heard",
    ),
    Cost(
        "create, 50 in flight", "enqueue.flight_heard", "enqueue.cpu_client_flight_heard", "enqueue.cpu_store_flight_heard",
        "Those who come while a set is on its way share the next: one round trip and one flush for up to 50. What remains is"
        " Python's time for each (payload, draft, future, record) and the row with its entries in log and indexes. Two sets are"
        " under way ([decision 41](adr/0041-two-sets-of-creates-under-way.md)), so that one is inserted while the"
        " callers of the other are answered.",
        flushes="enqueue.flushes_flight_heard", wal="enqueue.wal_flight_heard",
    ),
    Cost(
        "create in bulk", "enqueue.bulk", "enqueue.cpu_client_bulk", "enqueue.cpu_store_bulk",
        "One statement for each thousand, in one transaction; Python makes the next set while PostgreSQL inserts this one.",
        flushes="enqueue.flushes_bulk", wal="enqueue.wal_bulk",
    ),
    Cost(
        "drain, 1 worker", "drain1.rate", "drain1.cpu_worker", "drain1.cpu_store",
        "One statement settles a set and claims the next: one round trip and one flush for up to 250, two versions of each row"
        " and two rows of the log. Two lanes let PostgreSQL and Python work at the same time.",
        flushes="drain1.flushes", wal="drain1.wal",
    ),
    Cost(
        "start of a lone task", "latency.start_p50", "latency.cpu_worker", "",
        "From the return of its create to the first line of its handler, in an idle worker: the ring, a claim with its"
        " flush, and the"
        " start of a handler. The ring comes with the commit, before the create returns. The CPU is the worker's for"
        " the whole task, its end included.",
        time=MILLI,
    ),
    Cost(
        "durable end of a lone task", "latency.end_p50", "latency.cpu_worker", "",
        "The same until its end is in the database: one statement and one flush more. The runner looks every"
        " millisecond, for all alike.",
        time=MILLI,
    ),
    Cost(
        "one of 10,000 due at once", "schedule.last_per_1000", "schedule.cpu_worker", "schedule.cpu_store",
        "Until the last of them begins, by their number: all are promoted in bounded sets, by statements of their own,"
        " before they can"
        " be claimed, where the floor's claim reads the due time itself.",
        time=1.0,
    ),
    Cost(
        "fan out 100 and join", "join.p50", "join.cpu_both", "join.cpu_store",
        "One statement creates them, a worker claims and settles them in sets, and when a ring says that some have"
        " ended, their results are"
        " read in one statement. The floor counts them down in one row, rings once and reads nothing. The CPU is that"
        " of client and worker together.",
        time=MILLI,
    ),
    Cost(
        "10-step workflow", "steps.rate", "steps.cpu_worker", "steps.cpu_store",
        "Ten durable steps; those of all workflows in flight are written in sets. Python's time for a step (name, order,"
        " memory, result) is most of it.",
        flushes="steps.flushes", wal="steps.wal",
    ),
    Cost(
        "turn without tools", "turns.rate", "turns.cpu_worker", "turns.cpu_store",
        "A message is claimed, its agent's head begins a turn and ends it, the result becomes a card: three moves in the log"
        " where a task has two, and several tables where a task has one.",
    ),
    Cost(
        "suspend, tool, resume", "resume.p50", "resume.cpu_worker", "resume.cpu_store",
        "A turn that calls a tool is suspended and the tool's task born in one transaction; the task is claimed, run and"
        " settled, and the turn resumed: one after the other, so that round trips and flushes add up. The CPU is that of a"
        " process that works and asks for the turn.",
        time=MILLI,
    ),
    Cost(
        "fork 100 turns and join", "batches.p50", "batches.cpu_worker", "batches.cpu_store",
        "The parent's turn is suspended, a hundred agents are made, each has a turn, their ends are counted in the batch, and"
        " the parent's turn is resumed. Beside a turn by itself (above) each child has an agent of its own to be made and a"
        " place in the batch.",
        time=MILLI,
    ),
    Cost(
        "command with three capabilities", "commands.rate", "commands.cpu_worker", "commands.cpu_store",
        "The inbox, three async tasks with inputs and results, and a plain task for each of them, which reports its end in"
        " the transaction that settles it.",
        wal="commands.wal",
    ),
    Cost(
        "page of 100 records", "ingest.rate", "ingest.cpu_worker", "ingest.cpu_store",
        "A batch is begun before its request and ended with its records: two commits where the bare loop has one, and an"
        " upsert in place of a COPY. Four slices at a time hide the waiting.",
        each=100, micro=PER_PAGE,
    ),
)  # fmt: skip


def told(results: Results, *, cores: int) -> list[str]:
    """A table and a sentence for each row of it; empty when nothing of it was measured."""
    rows = [
        [
            "what", "µs", "beside", "of that", "CPU client or worker", "CPU store", "CPU bound", "of the bound",
            "flushes", "WAL, B",
        ]
    ]  # fmt: skip
    said = []
    for cost in COSTS:
        took, beside = (_micros(results, cost, peer) for peer in (OURS, FLOOR))
        if took is None:
            continue
        client, store = (_scaled(results.median(each, OURS), cost.micro) for each in (cost.client, cost.store))
        bound = None if client is None or store is None else (client + store) / cores
        rows.append(
            [
                cost.what, number(took), _known(beside), _times(took, beside), _known(client), _known(store), _known(bound),
                _times(took, bound), *(_known(results.median(each, OURS)) for each in (cost.flushes, cost.wal)),
            ]
        )  # fmt: skip
        said.append(f"- **{cost.what}.** {cost.words}")
    columns = "\n".join(f"- {column}" for column in COLUMNS)
    return [report.table(rows), "What the columns say:", columns, "And the rows:", "\n".join(said)] if said else []


def _micros(results: Results, cost: Cost, peer: str) -> float | None:
    """How long one takes."""
    median = results.median(cost.rate, peer)
    if not median:
        return None
    return cost.time * median if cost.time else 1e6 * cost.each / median


def _scaled(median: float | None, by: float) -> float | None:
    return None if median is None else median * by


def _known(value: float | None) -> str:
    return "-" if value is None else number(value)


def _times(took: float, limit: float | None) -> str:
    return "-" if not limit else f"{took / limit:.1f}x"
