"""R1 for the watchdog: killed with what a rule found in hand, and with all done and nothing committed, in every domain.

A worker dies with work in hand, and time passes. Then a watchdog that has one rule alone is killed at it again and again: after
that every row is as it was. The next one acts, and whoever works afterwards brings everything to its one end.
"""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.app import wiring
from ferryman.kernel import invariants
from ferryman.kernel.pool import Database
from ferryman.testing import travel
from tests.crash import judge, orders, test_batches, test_turns
from tests.crash.conftest import Launch
from tests.crash.yard import WATCHDOG_POINTS, Ship
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Server, harbour
from tests.patience import PATIENCE_SECONDS
from tests.spread import KILLS

COUNT = 4
SECOND = timedelta(seconds=1)
# Each rule looks as often as leases are looked at.
OFTEN = {"FERRYMAN_WORKER__WATCHDOG_INTERVAL_SECONDS": "0.2", "FERRYMAN_PMO__WATCHDOG_INTERVAL_SECONDS": "0.2"}


OPEN = "select pid, state, query from pg_stat_activity where datname = current_database() and application_name like 'ferryman%'"


async def until(true: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await true():  # noqa: ASYNC110 - done by another process, and seen in the database
            await asyncio.sleep(0.02)


async def dies(worker: Ship, url: str) -> None:
    """Wait for the death of a worker, and until PostgreSQL has noticed: nothing of it is written after that."""
    await worker.start().seen("died")
    await judge.nothing_of(url, OPEN)


async def turns_in_hand(url: str, ship: Launch, gate: Path) -> list[str]:
    turns = await test_turns.send(url, COUNT, {"alone": True, "gate": str(gate)})
    await dies(ship(url, lives=[f"handler.started=kill@{COUNT}"], agents=True), url)
    return turns


async def taken_over(url: str, ship: Launch, gate: Path, turns: list[str]) -> None:
    """Each was taken from its holder once, and done by another."""
    named = [UUID(turn) for turn in turns]
    # Before anybody has them again: on a busy machine they might be taken from that one too.
    back = await judge.read(
        url,
        """select requeue_count as count, (select count(*) from ferryman.events
                                           where subject = message.id and reason_code = 'lease_expired') as told
           from ferryman.agent_inbox as message where id = any($1)""",
        named,
    )
    assert [tuple(row) for row in back] == [(1, 1)] * COUNT
    gate.touch()
    worker = ship(url, agents=True).start()
    await test_turns.all_ended(url)
    await test_turns.assert_one_story(url, turns, worker.lines(), alone=True)


async def given_up(url: str, ship: Launch, _gate: Path, turns: list[str]) -> None:
    """Each has ended once, as one that gave no sign of life; its agent is free."""
    ship(url, agents=True).start()
    await test_turns.all_ended(url)
    rows = await judge.read(
        url,
        """select turn_status, error_code,
                  (select count(*) from ferryman.events where subject = message.id and kind = 'agent.task') as ends
           from ferryman.agent_inbox as message where id = any($1)""",
        [UUID(turn) for turn in turns],
    )
    assert [tuple(row) for row in rows] == [("failed", "timeout_reaped_by_watchdog", 1)] * COUNT
    heads = await judge.read(url, "select status from ferryman.agent_state_head")
    assert [row["status"] for row in heads] == ["idle"] * COUNT


async def batch_under_way(url: str, ship: Launch, gate: Path) -> list[str]:
    # Where its worker is slow to die the children begin meanwhile: none of them comes to its end.
    turns = await test_batches.fork(url, 1, COUNT, gate=gate)
    await dies(ship(url, lives=["batch.sent=kill@1"], agents=True), url)
    return [str(turn) for turn in turns]


async def timed_out(url: str, ship: Launch, _gate: Path, turns: list[str]) -> None:
    """The batch has ended once, as late; its parent was told once and went on, its children were stopped."""
    ship(url, agents=True).start()
    await test_turns.all_ended(url)
    [batch] = await judge.read(
        url,
        """select status, reason, (select count(*) from ferryman.events
                                   where subject = batch.id and kind = 'batch' and from_state is not null) as ends
           from ferryman.pmo_batches as batch""",
    )
    assert tuple(batch) == ("timeout", "deadline", 1)
    cards = await judge.read(url, "select id from ferryman.cards where type = 'tool.result'")
    assert len(cards) == 1
    [parent] = await judge.read(
        url,
        """select message.turn_status, card.content
           from ferryman.agent_inbox as message join ferryman.cards as card on card.id = message.deliverable_card_id
           where message.id = $1""",
        UUID(turns[0]),
    )
    result = json.loads(parent["content"])
    assert (parent["turn_status"], result["status"]) == ("success", "timeout")
    children = await judge.read(
        url,
        """select message.turn_status,
                  (select count(*) from ferryman.events where subject = message.id and kind = 'agent.task') as ends
           from ferryman.pmo_batch_tasks as task
           join ferryman.agent_inbox as message on message.id = task.current_agent_turn_id""",
    )
    assert [tuple(row) for row in children] == [("failed", 1)] * COUNT


async def commands_under_way(url: str, ship: Launch, gate: Path) -> list[str]:
    sent = await orders.send(url, COUNT, deadline=60.0, gate=str(gate))
    await dies(ship(url, lives=[f"handler.started=kill@{COUNT + 2}"]), url)
    return sent


async def commands_late(url: str, ship: Launch, _gate: Path, sent: list[str]) -> None:
    """Each command has ended once, as late, and nothing of it lives on."""
    ship(url).start(**OFTEN)
    await orders.all_ended(url)
    rows = await judge.read(
        url,
        """select id::text, status, error_code,
                  (select count(*) from ferryman.events
                   where subject = command.id and kind = 'command' and to_state = 'FAILED') as ends
           from ferryman.command_inbox as command""",
    )
    assert {row["id"]: tuple(row)[1:] for row in rows} == dict.fromkeys(sent, ("FAILED", "COMMAND_TIMEOUT", 1))
    tasks = await judge.read(
        url,
        """select status, (select count(*) from ferryman.events
                           where subject = task.id and kind = 'async_task' and to_state = 'FAILED') as ends
           from ferryman.async_tasks as task""",
    )
    assert {tuple(row) for row in tasks} == {("FAILED", 1)}


async def slice_in_hand(url: str, _ship: Launch, _gate: Path) -> list[str]:
    async with harbour(url) as here:
        await here.plan(source=SOURCE, since=DAWN, until=DAWN + HOUR)
        [claimed] = await here.ship().claim()
        return [str(claimed.id)]


async def fetched(url: str, _ship: Launch, _gate: Path, _tasks: list[str]) -> None:
    """The task was put back once, its lost run has ended, and the next one fetches everything once."""
    async with harbour(url, Server().fill(60)) as here:
        assert await here.ship().work() == 1
        runs = await here.fetch("select status, count(*) from ferryman.ingest_run group by status order by status")
        assert runs == [("FAILED", 1), ("SUCCEEDED", 1)]
        assert await here.fetch("select status, epoch from ferryman.ingest_task") == [("SUCCEEDED", 2)]
        assert await here.sunk() == [(n, f"v{n}") for n in range(60)]
        await here.sound()


class Scene(NamedTuple):
    """What a rule finds after a while, and what has become of it when everybody has had a turn."""

    domain: str
    rule: str
    lay: Callable[[str, Launch, Path], Awaitable[list[str]]]
    later: timedelta
    judge: Callable[[str, Launch, Path, list[str]], Awaitable[None]]


SCENES = {
    "a turn whose lease has passed": Scene("turns", "W7", turns_in_hand, 3 * SECOND, taken_over),
    "a turn without a sign of life": Scene("turns", "W7", turns_in_hand, 310 * SECOND, given_up),
    "a batch past its deadline": Scene("batches", "W10", batch_under_way, 125 * SECOND, timed_out),
    "a command past its deadline": Scene("commands", "W14", commands_under_way, 65 * SECOND, commands_late),
    "a capability past its deadline": Scene("commands", "W14-async", commands_under_way, 65 * SECOND, commands_late),
    "a slice whose lease has passed": Scene("ingestion", "W15", slice_in_hand, 61 * SECOND, fetched),
}


def killed(domain: str) -> set[str]:
    """Return the points at which a watchdog is killed here with something of a domain."""
    return {*WATCHDOG_POINTS} if any(scene.domain == domain for scene in SCENES.values()) else set()


async def rows(url: str) -> list[tuple[Any, ...]]:
    """Read everything that there is, but for the sign of life of watchdogs."""
    tables = await judge.read(
        url,
        "select relname as name from pg_class where relnamespace = 'ferryman'::regnamespace and relkind in ('r', 'p')"
        " and not relispartition and relname <> 'watchdog'",
    )
    each = [f"select '{row['name']}' as place, to_jsonb(it)::text from ferryman.{row['name']} as it" for row in tables]
    return [tuple(row) for row in await judge.read(url, f"{' union all '.join(each)} order by 1, 2")]


async def differs(url: str, before: list[tuple[Any, ...]]) -> bool:
    return await rows(url) != before


@pytest.mark.contract("R1", "W20", "W23", "K6")
@pytest.mark.parametrize("name", SCENES)
async def test_a_watchdog_killed_at_a_rule_of_any_domain_leaves_nothing_half_done(
    name: str, database_url: str, ship: Launch, tmp_path: Path
) -> None:
    scene, gate = SCENES[name], tmp_path / "gate"
    given = await scene.lay(database_url, ship, gate)
    db = Database(database_url)
    await db.open()
    try:
        async with db.session() as tx:
            await travel(tx, scene.later)
        before = await rows(database_url)

        dog = ship(database_url, role="watchdog", rules=[scene.rule], lives=[*WATCHDOG_POINTS.values()] * KILLS)
        dog.start(**OFTEN)
        for life in range(1, KILLS * len(WATCHDOG_POINTS) + 1):
            await dog.seen("died", count=life)
            assert await rows(database_url) == before

        assert {point: dog.strikes(point) for point in WATCHDOG_POINTS} == dict.fromkeys(WATCHDOG_POINTS, KILLS)
        assert {line["signal"] for line in dog.lines("died")} == {signal.SIGKILL}
        ship(database_url, role="watchdog", rules=[scene.rule]).start(**OFTEN)
        await until(lambda: differs(database_url, before))
        await scene.judge(database_url, ship, gate, given)
        async with db.session() as tx:
            assert await invariants.check(tx, wiring.invariants()) == []
    finally:
        await db.close()
