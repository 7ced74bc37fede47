"""A forced end whose fallback cannot be written (K6, W16, W23).

The end of a turn and what it leaves are one transaction: where the card is refused there is no end either. The turn stays as it
is, is overdue and told, nobody else waits for it, and when the obstacle is gone the next look ends it, once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman import Turn
from ferryman.agents import watch
from ferryman.agents.model import Amount, Step, Taken
from ferryman.agents.store import budgets
from ferryman.agents.work.scribe import Scribe, Use, Written
from ferryman.app.doctor import work
from ferryman.kernel import ids, retry, telemetry, watchdog
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.kernel.watchdog import Watchdog, look
from tests.agents.crew import at_work, end, fresh, send
from tests.agents.house import OWNER, SECOND, TENANT, House
from tests.patience import PATIENCE_SECONDS

MILLISECOND = timedelta(milliseconds=1)

REFUSE = """
create function public.refuse() returns trigger language plpgsql as
$$ begin raise exception 'no card of this turn is taken'; end $$
"""
# A page that cannot be read, and what takes longer than a statement may.
OBSTACLES = {
    "damaged": "raise exception 'a page cannot be read' using errcode = 'XX001'",
    "slow": "perform pg_sleep(5); return new",
}
DAMAGE = """
create function public.damage() returns trigger language plpgsql as
$$ begin {obstacle}; end $$;
create trigger damage before insert on ferryman.{table} for each row
    when (new.agent_turn_id = '{turn}') execute function public.damage();
"""

# Nothing happens to who reads but by a policy, and none holds for a superuser.
UNREADABLE = """
create role {role} login in role pg_read_all_data, pg_write_all_data;
create function public.readable(card uuid) returns boolean language plpgsql as
$$ begin
    if card = any ('{{{cards}}}') then {obstacle}; end if;
    return true;
end $$;
alter table ferryman.cards enable row level security;
create policy readable on ferryman.cards using (public.readable(id));
"""

Plant = Callable[[House, str], Awaitable[UUID]]


async def obstruct(house: House, turn: UUID) -> None:
    """Let no card of a turn be written from now on."""
    async with house.db.session() as tx:
        await tx.fetch(REFUSE)
        await tx.fetch(
            "create trigger obstacle before insert on ferryman.cards for each row"
            f" when (new.agent_turn_id = '{turn}') execute function public.refuse()"
        )


async def clear(house: House) -> None:
    """Take the obstacle away."""
    async with house.db.session() as tx:
        await tx.fetch("drop trigger obstacle on ferryman.cards")


async def traces(house: House, turn: UUID) -> list[list[dict[str, Any]]]:
    """Return all that an end would change."""
    queries = (
        "select * from ferryman.agent_state_head where active_agent_turn_id = $1",
        "select * from ferryman.agent_inbox where agent_turn_id = $1 or id = $1 order by id",
        "select * from ferryman.cards where agent_turn_id = $1 order by id",
        "select * from ferryman.agent_steps where agent_turn_id = $1",
        "select * from ferryman.turn_waiting_tools where agent_turn_id = $1",
        "select * from ferryman.turn_resume_ledger where agent_turn_id = $1",
        "select * from ferryman.events where subject = $1 order by id",
    )
    return [await house.rows(query, turn) for query in queries]


async def _dispatched(house: House, name: str) -> UUID:
    await house.agent(name)
    return await house.enqueue(name)


async def _running(house: House, name: str) -> UUID:
    return (await house.begin(name)).id


async def _suspended(house: House, name: str) -> UUID:
    return (await house.suspend((f"call of {name}", 30), agent_id=name)).id


async def _outrun(house: House, name: str) -> UUID:
    taken = await house.begin(name, wall_time=timedelta(seconds=100))
    await house.settle(house.waits(taken, (f"call of {name}", 3000)))
    return taken.id


async def _stopped(house: House, name: str) -> UUID:
    turn = await _running(house, name)
    await house.stop(turn, name)
    return turn


async def _worn(house: House, name: str) -> UUID:
    turn = await _running(house, name)
    await house.write("update ferryman.agent_inbox set requeue_count = 5 where id = $1", turn)
    return turn


async def _without_channel(house: House, name: str) -> UUID:
    turn = await _dispatched(house, name)
    await house.write("update ferryman.agent_inbox set channel_id = null where id = $1", turn)
    await house.write("update ferryman.agent_state_head set active_channel_id = null where agent_id = $1", name)
    return turn


async def _queued(house: House, name: str) -> UUID:
    await _running(house, name)
    turn = await house.enqueue(name)
    await house.write(
        "update ferryman.agent_inbox set ends_at = ferryman.clock(), look_at = ferryman.clock() where id = $1", turn
    )
    return turn


FORCED: dict[str, tuple[Plant, str, float, Sequence[tuple[str, str | None]]]] = {
    "nobody picked it up": (_dispatched, "W6", 31, [("timeout", "dispatch_timeout")]),
    "no sign of life": (_running, "W7", 301, [("failed", "timeout_reaped_by_watchdog")]),
    "it kills its workers": (_worn, "W7", 31, [("failed", "poison_message")]),
    "past its wall time": (_outrun, "A18", 106, [("partial", "wall_time_exceeded")]),
    "a stop": (_stopped, "A16", 1, [("failed", "stopped")]),
    "poison": (_worn, "W1", 301, [("failed", "poison_message")]),
    "no channel": (_without_channel, "W8-lost", 306, [("failed", "missing_channel")]),
    "in line for too long": (_queued, "A3", 1, [("timeout", "queue_timeout")]),
    # The end of a call, and not of its turn, which goes on by itself.
    "a call that is late": (_suspended, "W2", 31, []),
}


@pytest.mark.contract("K6", "W23", "A13")
@pytest.mark.parametrize("why", FORCED)
async def test_a_forced_end_whose_card_is_refused_leaves_no_trace_and_comes_once_when_it_can(
    house: House, why: str
) -> None:
    plant, rule, seconds, ended = FORCED[why]
    bad, good = await plant(house, "bad"), await plant(house, "good")
    await house.travel(seconds)
    await obstruct(house, bad)
    before = await traces(house, bad)

    first = await house.tick(rule)
    between = await traces(house, bad)
    await clear(house)
    again = [await house.tick(rule), await house.tick(rule)]

    assert (first.acted(), first.spoiled()) == (1, 1)
    assert between == before
    assert [(each.acted(), each.spoiled()) for each in again] == [(1, 0), (0, 0)]
    assert await house.ends(bad) == await house.ends(good) == ended
    assert await house.broken() == []


@pytest.mark.contract("W16", "W23", "K19")
async def test_a_turn_whose_end_cannot_be_written_is_told_everywhere_until_it_can_be(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = await _running(house, "good"), await _dispatched(house, "bad")
    await obstruct(house, bad)
    await house.write("update ferryman.watchdog set ticked_at = clock_timestamp(), grace_until = '-infinity'")
    await house.travel(timedelta(minutes=10))
    now = [1000.0]
    async with house.db.session() as ground:
        rules = [*watch.rules(house.parties, NoDoorbell(), sweep=SECOND), watchdog.W16]
        dog = Watchdog(ground, rules, clock=lambda: now[0])
        with caplog.at_level(logging.ERROR, logger="ferryman.watchdog"):
            await dog.tick()
            told = [record.getMessage() for record in caplog.records]
            [alarm] = await work.overdue(ground)
            late = telemetry.OVERDUE.of("agent", "W6")._value.get()
            await clear(house)
            now[0] += 600  # a finding that spoiled a look is left alone for five minutes at most
            caplog.clear()
            await dog.tick()
        [calm] = await work.overdue(ground)

    assert await house.ends(good) == [("failed", "timeout_reaped_by_watchdog")]
    assert told == [
        f"the rule W6 could not act on {bad}",
        "1 of agent are past the time by which W6 ends them",
    ]
    assert (alarm.verdict, alarm.says) == ("bad", "Past the time by which a rule ends them: 1 of agent (W6).")
    assert late == 1
    assert await house.ends(bad) == [("timeout", "dispatch_timeout")]
    assert caplog.records == []
    assert (calm.verdict, telemetry.OVERDUE.of("agent", "W6")._value.get()) == ("good", 0)
    assert await house.broken() == []


@pytest.mark.contract("W23", "A16", "K25")
async def test_a_stop_that_cannot_be_carried_out_keeps_no_worker_from_other_turns(
    house: House, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "ASIDE", retry.Backoff(base=10 * MILLISECOND, cap=100 * MILLISECOND))
    app = fresh(database_url)
    begun = asyncio.Event()

    @app.agent
    async def endless(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.agent
    async def sound(turn: Turn) -> str:
        return str(turn.instruction)

    async with at_work(app):
        bad = await send(app, endless)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        await obstruct(house, bad.id)

        await bad.stop()
        others = [await end(app, sound, n) for n in ("one", "two", "three")]
        still = await house.ends(bad.id)
        await clear(house)
        await bad.end(timeout=PATIENCE_SECONDS)

    assert others == [("success", None, n) for n in ("one", "two", "three")]
    assert still == []
    assert await house.ends(bad.id) == [("failed", "stopped")]
    assert await house.broken() == []


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("call", ["remember", "reserve"])
async def test_what_cannot_be_written_of_one_turn_keeps_no_other_waiting(
    house: House, database_url: str, call: str, obstacle: str
) -> None:
    line, budget = Line(database_url, patience=SECOND), ids.new_id()
    async with house.db.transaction() as tx:
        await budgets.create(tx, tenant=TENANT, id=budget, tokens=100, tool_calls=None, cost=None)
    bad, *good = [(await house.begin(name, budget=budget)) for name in ("ann", "bob", "cid", "dan")]
    table = {"remember": "agent_steps", "reserve": "budget_reservations"}[call]
    scribe = Scribe(line, owner=OWNER)

    def tell(taken: Taken) -> Awaitable[Any]:
        if call == "reserve":
            return scribe.reserve(Use(TENANT, budget, taken.id, "think", Amount(tokens=1)))
        step = Step(turn=taken.id, epoch=taken.epoch, owner=OWNER, id=ids.new_id(), kind="step", name="a")
        return scribe.remember(Written(step))

    async with house.db.session() as tx:
        await tx.execute(DAMAGE.format(obstacle=OBSTACLES[obstacle], table=table, turn=bad.id))
    async with asyncio.timeout(PATIENCE_SECONDS):
        stuck = asyncio.ensure_future(tell(bad))
        await asyncio.gather(*(tell(each) for each in good[:2]))
        await tell(good[2])
        assert not stuck.done()
        async with house.db.session() as tx:
            await tx.execute("drop function public.damage() cascade")
        await stuck
    await line.close()


@pytest.fixture
async def reader(db: Database) -> AsyncIterator[str]:
    """The name of a role that goes when the test is over."""
    name = f"reader_{uuid4().hex[:12]}"
    yield name
    async with db.session() as tx:
        await tx.execute(f"drop owned by {name}; drop role {name}")


@pytest.mark.contract("K25", "W7", "A9")
async def test_a_turn_whose_context_cannot_be_read_keeps_no_other_waiting_and_has_its_end(
    house: House, database_url: str, reader: str
) -> None:
    names = ["bad", "ann", "bob", "cid"]
    for name in names:
        await house.agent(name, profile="sound")
    bad, *good = [await house.enqueue(name) for name in names]
    # Of the claims that it may lose it has one left.
    await house.write("update ferryman.agent_inbox set requeue_count = 5 where id = $1", bad)
    card = await house.value("select id from ferryman.cards where agent_turn_id = $1", bad)
    async with house.db.session() as tx:
        await tx.execute(UNREADABLE.format(role=reader, cards=card, obstacle=OBSTACLES["damaged"]))
    app = fresh(database_url.replace("postgres@", f"{reader}@"), **{"worker.lease": 2})

    @app.agent
    async def sound(turn: Turn) -> str:
        return str(turn.instruction)

    async with at_work(app), asyncio.timeout(PATIENCE_SECONDS):
        others = [str((await app.agents.wait(turn)).turn_status) for turn in good]
        before = await house.ends(bad)
        await app.agents.wait(bad)

    assert others == ["success"] * 3
    assert before == []
    assert await house.ends(bad) == [("failed", "poison_message")]
    assert await house.broken() == []


@pytest.mark.contract("K24", "K25", "A9")
async def test_turns_whose_contexts_take_too_long_to_read_together_are_claimed_in_smaller_sets(
    house: House, database_url: str, reader: str
) -> None:
    turns = []
    for n in range(6):
        await house.agent(f"agent-{n}", profile="sound")
        turns.append(await house.enqueue(f"agent-{n}"))
    cards = await house.value("select string_agg(id::text, ',') from ferryman.cards")
    async with house.db.session() as tx:
        # The server gives up a statement after 0.8 s.
        await tx.execute(UNREADABLE.format(role=reader, cards=cards, obstacle="perform pg_sleep(0.25)"))
    app = fresh(database_url.replace("postgres@", f"{reader}@"), **{"worker.lease": 2})

    @app.agent
    async def sound(turn: Turn) -> str:
        return str(turn.instruction)

    async with at_work(app), asyncio.timeout(PATIENCE_SECONDS):
        ends = [str((await app.agents.wait(turn)).turn_status) for turn in turns]

    assert ends == ["success"] * 6
    assert await house.broken() == []
