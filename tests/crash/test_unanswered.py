"""R1: SIGKILL while a commit is on its way: the database has it, and nobody will ever know of the answer.

The worker speaks through a wire. When the transaction that ends its work has been committed its process is killed, before a
byte of the answer has come. So what it did is done, and nobody does it again.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from ferryman import Ferryman
from tests.crash import cargo, judge, orders, test_batches, test_turns
from tests.crash.conftest import Launch
from tests.crash.wire import Wire, wired
from tests.crash.yard import Line
from tests.ingest import hulk, test_crash
from tests.ingest.harbour import harbour
from tests.patience import PATIENCE_SECONDS
from tests.spread import KILLS


async def one_task(url: str, nth: int) -> str:
    [made] = await cargo.load(url, 1, key=f"word-{nth}")
    return made


async def one_owing(url: str, nth: int) -> str:
    if nth > 1:  # it owes to the same name as the one before: what that was told is kept under another
        told = await judge.read(url, "update public.owed set ref = $1 where ref = 'r0' returning ends", f"told {nth}")
        assert [row["ends"] for row in told] == [1]
    [made] = await cargo.load_owing(url, 1, key=f"word-{nth}")
    return made


async def one_turn(url: str, nth: int) -> str:
    async with Ferryman(url) as app:
        await app.agents.create(f"mate-{nth}", profile="mate")
        return str((await app.agents.send(f"mate-{nth}", f"captain {nth}")).id)


async def one_batch(url: str, nth: int) -> str:
    [turn] = await test_batches.fork(url, 1, 1, first=nth)
    return str(turn)


async def one_command(url: str, _nth: int) -> str:
    [sent] = await orders.send(url, 1)
    return sent


async def told_once(url: str, made: list[str], lines: list[Line]) -> None:
    await tasks_ended(url, made, lines)
    assert not made or await cargo.debts(url) == [1] * len(made)


async def tasks_ended(url: str, made: list[str], lines: list[Line]) -> None:
    await judge.all_ended(url)
    await judge.judge(url, made, lines)
    assert sorted(line["task"] for line in lines if line["what"] == "start") == sorted(made)  # each was begun once
    assert await cargo.broken(url) == []


async def turns_ended(url: str, made: list[str], lines: list[Line]) -> None:
    await test_turns.all_ended(url)
    assert sorted(line["turn"] for line in lines if line["what"] == "mate") == sorted(made)
    rows = await judge.read(
        url,
        """select id::text, turn_status,
                  (select count(*) from ferryman.events where subject = message.id and kind = 'agent.task') as ends
           from ferryman.agent_inbox as message where message_type = 'turn'""",
    )
    assert {row["id"]: tuple(row)[1:] for row in rows} == dict.fromkeys(made, ("success", 1))
    assert await cargo.broken(url) == []


async def batches_ended(url: str, made: list[str], lines: list[Line]) -> None:
    await test_turns.all_ended(url)
    await test_batches.assert_joined_once(url, [UUID(turn) for turn in made], 1)
    assert len([line for line in lines if line["what"] == "stroke"]) == len(made)


async def commands_ended(url: str, made: list[str], _lines: list[Line]) -> None:
    await orders.all_ended(url)
    await orders.done_once(url, made)


class Case(NamedTuple):
    """One piece of work, what goes to the database in the transaction that ends it, and what must have become of all."""

    make: Callable[[str, int], Awaitable[str]]
    marker: str
    judge: Callable[[str, list[str], list[Line]], Awaitable[None]]


CASES = {
    "tasks": Case(one_task, "word-{}", tasks_ended),
    "tasks that owe": Case(one_owing, "word-{}", told_once),
    "turns": Case(one_turn, "aye captain {}", turns_ended),
    "batches": Case(one_batch, "stroke 0", batches_ended),
    "commands": Case(one_command, "Leg.Cross.Completed", commands_ended),
}


@pytest.mark.contract("R1", "K4", "K24")
@pytest.mark.parametrize("domain", CASES)
async def test_what_was_committed_when_its_worker_was_killed_is_done(
    domain: str, database_url: str, ship: Launch
) -> None:
    case, made = CASES[domain], list[str]()
    async with wired(database_url) as (wire, url):
        worker = ship(url, lives=[""] * (KILLS + 1), agents=True).start()
        for life in range(1, KILLS + 1):
            begun = await worker.seen("working", count=life)
            await case.judge(database_url, made, worker.lines())  # all that there was is done
            wire.cut_commit(case.marker.format(life), then=partial(os.kill, begun["pid"], signal.SIGKILL))
            made.append(await case.make(database_url, life))
            await worker.seen("died", count=life)
            assert wire.cuts == life
        await case.judge(database_url, made, worker.lines())

    assert [line["signal"] for line in worker.lines("died")] == [signal.SIGKILL] * KILLS


@pytest.mark.contract("R1", "I6", "I13")
async def test_a_page_that_was_committed_when_its_executor_was_killed_is_there_once(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        harbour(database_url, ordered=True) as here,
        wired(database_url) as (wire, url),
        test_crash.mother(url, tmp_path, kind="ordered") as hull,
    ):
        for life in range(KILLS):
            await killed_at(wire, hull, f'"v{life * hulk.SIZE}"')
            await test_crash.pass_on(here)
        await hull.born()
        assert await hull.died() == 0
        assert wire.cuts == KILLS
        await test_crash.judge(here, hull, again=0)  # what was committed is not asked for again


async def killed_at(wire: Wire, hull: test_crash.Hulk, marker: str) -> None:
    """Let an executor live until the transaction that carries something has committed."""
    born: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    wire.cut_commit(marker, then=lambda: os.kill(born.result(), signal.SIGKILL))
    born.set_result(await hull.born())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await hull.died() == -signal.SIGKILL
