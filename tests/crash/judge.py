"""The judge: compares what the processes wrote with what the tables say. Shares no code with the product."""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import asyncpg

from tests.patience import PATIENCE_SECONDS

_LOOK_SECONDS = 0.02
TERMINAL = ("succeeded", "failed", "cancelled")

Line = dict[str, Any]
Verdict = list[str]


async def all_ended(url: str) -> None:
    """Wait until no task is live."""
    await nothing_of(url, f"select id, state, attempt, epoch from ferryman.tasks where state not in {TERMINAL}")


async def all_held(url: str) -> None:
    """Wait until no lease is over."""
    await nothing_of(url, "select id, leased_until from ferryman.tasks where leased_until <= ferryman.clock()")


async def all_fired(url: str, count: int) -> None:
    """Wait until so many tasks were fired by schedules."""
    await nothing_of(
        url, "select count(*) as fired from ferryman.tasks where schedule is not null having count(*) < $1", count
    )


async def nothing_of(url: str, query: str, *args: object) -> None:
    """Wait until a query finds no row, over one connection: to make one for each look takes as long as the work looked at."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with reading(url) as look:
        while found := await look(query, *args):
            assert time.monotonic() < deadline, (
                f"still there after {PATIENCE_SECONDS:g} s: {[dict(row) for row in found[:5]]}"
            )
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[..., Awaitable[Sequence[asyncpg.Record]]]]:
    """Lend a connection to whoever looks more than once."""
    connection = await asyncpg.connect(url)
    try:
        yield connection.fetch
    finally:
        await connection.close()


async def read(url: str, query: str, *args: object) -> Sequence[asyncpg.Record]:
    async with reading(url) as look:
        return await look(query, *args)


async def judge(url: str, acknowledged: Iterable[str], lines: Sequence[Line], *, state: str = "succeeded") -> None:
    """Assert that history and tables tell one story in which nothing was lost and nothing happened twice."""
    rows = {str(row["id"]): row for row in await read(url, "select * from ferryman.tasks")}
    events = await read(
        url, "select subject, from_state, to_state, id from ferryman.events where kind = 'task' order by id"
    )
    said = [
        *lost(acknowledged, rows, state=state),
        *second_ends(rows, events),
        *shared_claims(rows, events, lines),
        *unfounded(rows, lines),
    ]
    assert not said, "\n".join(said)


def lost(acknowledged: Iterable[str], rows: dict[str, asyncpg.Record], *, state: str) -> Verdict:
    missing = [f"acknowledged and gone: {id}" for id in acknowledged if id not in rows]
    return missing + [f"{id} is {row['state']}, not {state}" for id, row in rows.items() if row["state"] != state]


def second_ends(rows: dict[str, asyncpg.Record], events: Sequence[asyncpg.Record]) -> Verdict:
    ends: dict[str, list[str]] = defaultdict(list)
    last: dict[str, str] = {}
    for event in events:
        last[str(event["subject"])] = event["to_state"]
        if event["to_state"] in TERMINAL:
            ends[str(event["subject"])].append(event["to_state"])
    return [
        f"{id} has ends {ends[id]}, its row says {row['state']}"
        for id, row in rows.items()
        if ends[id] != [row["state"]]
    ] + [f"{id} went on to {last[id]} after its end" for id, row in rows.items() if last[id] != row["state"]]


def shared_claims(rows: dict[str, asyncpg.Record], events: Sequence[asyncpg.Record], lines: Sequence[Line]) -> Verdict:
    """Each claim belongs to one holder: a (task, epoch) is started at most once, and was claimed before."""
    starts = Counter((line["task"], line["epoch"]) for line in lines if line["what"] == "start")
    claims = Counter(str(event["subject"]) for event in events if event["to_state"] == "running")
    return (
        [f"{claim} was started {count} times" for claim, count in starts.items() if count > 1]
        + [
            f"{task} epoch {epoch} was started, its row has {rows[task]['epoch']}"
            for task, epoch in starts
            if epoch > rows[task]["epoch"]
        ]
        + [
            f"{id}: {claims[id]} claims in the log, epoch {row['epoch']}"
            for id, row in rows.items()
            if claims[id] != row["epoch"]
        ]
    )


def unfounded(rows: dict[str, asyncpg.Record], lines: Sequence[Line]) -> Verdict:
    """What succeeded was brought to its end by the handler of its last claim, and keeps what that one returned."""
    ended = {(line["task"], line["epoch"]) for line in lines if line["what"] == "end"}
    said = []
    for id, row in rows.items():
        if row["state"] != "succeeded":
            continue
        if (id, row["epoch"]) not in ended:
            said.append(f"{id} succeeded in epoch {row['epoch']}, and no handler of that claim came to its end")
        if json.loads(row["result"]) != json.loads(row["payload"]).get("key", ""):
            said.append(f"{id} keeps a result that is not its own: {row['result']}")
    return said


def recoveries(lines: Sequence[Line]) -> list[float]:
    """Return how long after its holder's death each task was begun anew, by somebody who works as long.

    Also one whose handler had come to its end: what is begun anew was not settled.
    """
    died = {line["child"]: line["at"] for line in lines if line["what"] == "died"}
    working = {line["pid"]: line["at"] for line in lines if line["what"] == "working"}
    starts = sorted((line["task"], line["epoch"], line["at"], line["pid"]) for line in lines if line["what"] == "start")
    found = []
    for (task, _, _, pid), (again, _, at, by) in pairwise(starts):
        if task == again and pid in died and by != pid:
            found.append(at - max(died[pid], working[by]))
    return found


async def remembered(url: str, tasks: Iterable[str], lines: Sequence[Line]) -> None:
    """Assert that each step is remembered by its last run, that no other follows it, and that each child was born once."""
    steps = await read(url, "select task::text, name, result from ferryman.task_steps where kind = 'step'")
    kept = {(row["task"], row["name"]): json.loads(row["result"]) for row in steps}
    # In the order of time; the histories of several processes may have been put together.
    lines = sorted(lines, key=lambda line: line["at"])
    last = {(line["task"], line["step"]): line["word"] for line in lines if line["what"] == "ran"}
    assert kept == last
    ends = {line["task"]: line["words"] for line in lines if line["what"] == "end" and "words" in line}
    assert ends == {task: [kept[task, name] for name in ("load", "cast-off", "cross", "unload")] for task in tasks}
    families = await read(
        url, "select callback_ref, count(*) as count from ferryman.tasks where name in ('leg', 'hop') group by 1"
    )
    assert {row["callback_ref"]: row["count"] for row in families} == dict.fromkeys(tasks, 3)
