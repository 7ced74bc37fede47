"""Where the time goes: what each thing costs by the clock, by CPU, by flushes and by WAL, and the limit that these set.

The limit of what goes one after the other, with a flush each, is the floor: hand-written SQL that does as little as can be
done. The limit of what goes in sets is the CPU time of both sides, spread over all cores, with nothing waited for.
"""

from __future__ import annotations

from typing import NamedTuple

from bench import report
from bench.bars import FLOOR, OURS, Results, number

PER_10K = 100.0  # seconds per 10,000, as microseconds for one
PER_PAGE = 1000.0  # milliseconds for a page, as microseconds


class Cost(NamedTuple):
    """A row: its figures by name, and what there is to say."""

    what: str
    rate: str
    client: str
    store: str
    words: str
    flushes: str = ""
    wal: str = ""
    sets: bool = True
    each: int = 1  # so many of what the rate counts are one of these
    micro: float = PER_10K


COSTS = (
    Cost(
        "create one by one", "enqueue.single", "enqueue.cpu_client_single", "enqueue.cpu_store_single",
        "One statement, one commit: a round trip and a flush each, and the flush is most of it. The limit is the disk's; only"
        " more creates at once make it faster.",
        flushes="enqueue.flushes_single", wal="enqueue.wal_single", sets=False,
    ),
    Cost(
        "create, 50 in flight", "enqueue.flight", "enqueue.cpu_client_flight", "enqueue.cpu_store_flight",
        "Those who come while a set is on its way share the next: one round trip and one flush for up to 50. What remains is"
        " Python's time for each (payload, draft, future, record) and the row with its entries in log and indexes; client"
        " and store take turns, because a set waits for the one before it.",
        flushes="enqueue.flushes_flight", wal="enqueue.wal_flight",
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
        ["what", "µs", "floor", "CPU client or worker", "CPU store", "flushes", "WAL, B", "limit, µs", "of the limit"]
    ]
    said = []
    for cost in COSTS:
        rate, floors = results.median(cost.rate, OURS), results.median(cost.rate, FLOOR)
        if rate is None:
            continue
        client, store = (cost.micro * (results.median(each, OURS) or 0.0) for each in (cost.client, cost.store))
        took, floor = 1e6 * cost.each / rate, None if floors is None else 1e6 * cost.each / floors
        limit = (client + store) / cores if cost.sets or floor is None else floor
        rows.append(
            [
                cost.what, number(took), "-" if floor is None else number(floor), number(client), number(store),
                *(_known(results, each) for each in (cost.flushes, cost.wal)), number(limit), f"{took / limit:.1f}x",
            ]
        )  # fmt: skip
        said.append(f"- **{cost.what}.** {cost.words}")
    return [report.table(rows), "\n".join(said)] if said else []


def _known(results: Results, figure: str) -> str:
    median = results.median(figure, OURS)
    return "-" if median is None else number(median)
