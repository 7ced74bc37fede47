"""R4 for turns: every pair, and every three, of what can happen to the turns of two agents, in orders of their statements.

One end, no deadlock. The actors name the agents in opposite orders. The turns belong to a parent that is locked first, and
wait for tools' tasks, which are locked last: an order of locks that is turned round anywhere shows as a deadlock here. What
becomes of each turn, of its agent and of what waits there in line is what becomes of it when one comes after the other: an end,
a suspension or a hand-back that all would have written is not lost between them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any

import pytest

from ferryman.agents import intake, rules, watch
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake.delegate import DelegateEnds
from ferryman.agents.intake.report import reference
from ferryman.agents.model import Call, NewAgent, Order, Stop, Taken
from ferryman.agents.ports import TurnOwners
from ferryman.agents.store import heads
from ferryman.agents.work import settle as outcomes
from ferryman.agents.work import stops
from ferryman.kernel import ids, invariants
from ferryman.kernel.pool import Database, Session
from ferryman.tasks.watch import TASK_INVARIANTS
from tests.property.interleave import FEW_WALKS, MOST_OF_THREE, MOST_WALKS, Driver, Program, driving, walks
from tests.property.oracle import InTurn
from tests.property.stage import Sound, Stage, each_has_something_to_do, staging
from tests.property.turns import FOLLOWS, HOLDER, SECOND, STATES, TASKS, TENANT, TERMS, Act, Scene, reports, set_scene

FEW, FEW_OF_ONE = 3, 7  # orders that are walked in the usual run: of each pair, of a pair that stands alone

SOUND = Sound([*watch.AGENT_INVARIANTS, *TASK_INVARIANTS])
# How each turn has ended, if it has, by which moves, and how its agent stands: with whom, with what in line, which answers.
# Answers that are through with the line are not counted: one that a rule brings to a turn which was stopped since it looked is
# put down there, and does nothing.
FOUND = """
select (select count(*) from ferryman.events where subject = message.id and kind = 'agent.task') as ends,
       (select told from parents where ref = message.agent_id) as told, message.turn_status as status,
       message.requeue_count as lost, head.status as head, head.ready_at is null as taken, head.lease_owner = $2 as kept,
       head.active_agent_turn_id = message.id as active, head.waiting_tool_count as waits,
       array(select concat_ws(' ', line.message_type, line.status) from ferryman.agent_inbox as line
             where line.tenant = message.tenant and line.agent_id = message.agent_id
               and (line.message_type in ('turn', 'stop') or line.status <> 'consumed') order by 1)::text as line,
       array(select result.status from ferryman.turn_resume_ledger as result
             where result.agent_turn_id = message.id order by 1)::text as results,
       array(select concat_ws(' ', event.from_state, event.to_state, event.reason_code) from ferryman.events as event
             where event.subject = message.id and event.kind = 'agent.state' order by event.id)::text as went
from unnest($1::uuid[]) with ordinality as taken (id, place)
join ferryman.agent_inbox as message on message.id = taken.id
join ferryman.agent_state_head as head on (head.tenant, head.agent_id) = (message.tenant, message.agent_id)
order by taken.place
"""


async def found(db: Database, scene: Scene) -> list[tuple[Any, ...]]:
    """Read what has become of each turn: its end was told to its parent as often, and every invariant holds."""
    async with db.session() as tx:
        assert await SOUND.broken(tx) == []
        told = await tx.fetch(FOUND, [taken.id for taken in scene.taken], HOLDER)
    rows: list[tuple[Any, ...]] = [tuple(row) for row in told]  # type: ignore[arg-type]  # a record is a sequence
    assert all(row[:2] == ((0, 0) if row[2] is None else (1, 1)) for row in rows), rows
    return rows


async def in_turn(db: Database, stage: Stage, scene: Scene, programs: Sequence[Program]) -> list[tuple[Any, ...]]:
    """Say what becomes of each turn when one comes after the other."""
    await stage.reset()
    await again(db, programs, [True] * len(programs))
    return await found(db, scene)


async def again(db: Database, programs: Sequence[Program], left: Sequence[bool | None]) -> None:
    """Let those act alone who left something, one after another."""
    for program in [each for each, some in zip(programs, left, strict=True) if some]:
        async with db.transaction() as tx:
            await program(tx)


@pytest.mark.contract("R4", "A1", "A12", "A16")
@pytest.mark.parametrize("state", list(STATES))
async def test_two_at_once_leave_one_history(db: Database, database_url: str, state: str) -> None:
    async with staging(database_url) as stage, driving(database_url) as driver:
        scene = await keep_scene(db, stage, state)
        for pair in combinations_with_replacement(STATES[state], 2):
            await meet(db, driver, stage, scene, state, pair, few=FEW, most=MOST_WALKS)
        assert driver.blocked > 0  # they did meet


@pytest.mark.contract("R4")
@pytest.mark.parametrize("state", list(STATES))
async def test_each_of_them_has_something_to_do(db: Database, database_url: str, state: str) -> None:
    async with staging(database_url) as stage:
        scene = await keep_scene(db, stage, state)

        async def done(act: Act) -> None:
            async with db.transaction() as tx:
                await act(tx, scene, 0)

        acts = {name: partial(done, act) for name, act in STATES[state].items()}
        await each_has_something_to_do(stage, acts, FOLLOWS.get(state, {}))


@pytest.mark.contract("R4", "A1", "A12", "A16")
@pytest.mark.parametrize("state", list(STATES))
async def test_three_at_once_leave_one_history(db: Database, database_url: str, state: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        scene = await keep_scene(db, stage, state)
        threes = list(combinations(STATES[state], 3))
        for three in threes:
            few = FEW_OF_ONE if len(threes) == 1 else FEW_WALKS
            await meet(db, driver, stage, scene, state, three, few=few, most=MOST_OF_THREE)
        assert driver.blocked > 0


async def keep_scene(db: Database, stage: Stage, state: str) -> Scene:
    async with db.session() as tx:
        await tx.fetch("create table parents (ref text primary key, told integer not null)")
    scene = await set_scene(db, state)
    await stage.keep("parents")
    return scene


async def meet(
    db: Database, driver: Driver, stage: Stage, scene: Scene, state: str, names: Sequence[str], *, few: int, most: int
) -> None:
    """Let some act at once, and see that each turn stands as if one had come after the other."""
    programs = at_once([STATES[state][name] for name in names], scene)
    turns = InTurn(programs, partial(in_turn, db, stage, scene))
    for walk in walks(f"{state}{names}", few=few, most=most):
        await stage.reset()
        try:
            left = await driver.walk(programs, walk)
            await again(db, programs, left)
            became = await found(db, scene)
            assert await turns.tells(became, driver.came(left)), f"{became} is none of {turns.could}"
        except BaseException as error:
            error.add_note(f"{state}: {names} in the order {walk.path}")
            raise


ASKED = Parties(TERMS, TurnOwners({rules.DELEGATE: DelegateEnds(Parties(TERMS))}), TASKS)


async def set_delegation(db: Database) -> Scene:
    """Let an agent wait for the turn of another whose name stands before its own; both wait for somebody outside as well."""
    child, boss = sorted(str(ids.new_id()) for _ in range(2))
    calls = [f"{child}-answer", f"{boss}-answer"]
    async with db.transaction() as tx:
        await intake.create(tx, [NewAgent(TENANT, name, "writer") for name in (child, boss)])
        taken: list[Taken] = []
        for name, waits, ref in ((boss, [f"{boss}-turn", calls[1]], None), (child, [calls[0]], f"{boss}-turn")):
            owed: dict[str, Any] = (
                {} if ref is None else {"callback": rules.DELEGATE, "callback_ref": reference(TENANT, boss, ref)}
            )
            order = Order(tenant=TENANT, agent_id=name, turn=ids.new_id(), instruction="x", **owed)
            await intake.enqueue(tx, [order], ASKED, after=Aftermath())
            taken += await heads.claim(
                tx,
                owner=HOLDER,
                profiles=["writer"],
                targets=["default"],
                kinds=ASKED.owners.kinds,
                room=1,
                terms=TERMS,
            )
            asked = [outside(call) for call in waits]
            waiting = rules.suspension_of(taken[-1], asked, owner=HOLDER)
            await outcomes.settle(tx, [waiting], ASKED, owner=HOLDER, after=Aftermath())
    return Scene(taken, calls, [])


def outside(name: str) -> Call:
    return Call(tool_call_id=name, tool_name="ask", content={}, card_id=ids.new_id(), timeout=30 * SECOND)


async def stops_the_child(tx: Session, scene: Scene, _place: int) -> None:
    child = scene.taken[1]
    asked = Stop(tenant=TENANT, agent_id=child.agent_id, turn=child.id, id=ids.new_id())
    await intake.stop(tx, [asked], after=Aftermath())
    await stops.sweep(tx, ASKED, after=Aftermath())


@pytest.mark.contract("R4", "A16")
async def test_a_turn_that_was_asked_for_is_stopped_while_both_are_answered(db: Database, database_url: str) -> None:
    """Its owner's head was locked before its own, whatever their names: an answer to both locks them by name."""
    await answered_and_stopped(db, database_url, await set_delegation(db))


async def set_merging(db: Database) -> Scene:
    """Let an agent that merges be busy, with a turn in line; one whose name stands before its own asks it for another."""
    boss, busy = sorted(str(ids.new_id()) for _ in range(2))
    calls = [f"{boss}-answer", f"{busy}-answer"]
    async with db.transaction() as tx:
        await intake.create(tx, [NewAgent(TENANT, boss, "writer"), NewAgent(TENANT, busy, "writer", when_busy="merge")])
        first = [Order(tenant=TENANT, agent_id=name, turn=ids.new_id(), instruction="x") for name in (boss, busy)]
        await intake.enqueue(tx, first, ASKED, after=Aftermath())
        taken = await heads.claim(
            tx, owner=HOLDER, profiles=["writer"], targets=["default"], kinds=ASKED.owners.kinds, room=10, terms=TERMS
        )
        taken.sort(key=lambda each: each.agent_id)
        waits = [[outside(calls[0]), outside(f"{boss}-turn")], [outside(calls[1])]]
        waiting = [rules.suspension_of(each, asked, owner=HOLDER) for each, asked in zip(taken, waits, strict=True)]
        await outcomes.settle(tx, waiting, ASKED, owner=HOLDER, after=Aftermath())
        line = Order(tenant=TENANT, agent_id=busy, turn=ids.new_id(), instruction="in line")
        ref = reference(TENANT, boss, f"{boss}-turn")
        more = replace(line, turn=ids.new_id(), callback=rules.DELEGATE, callback_ref=ref)
        await intake.enqueue(tx, [line, more], ASKED, after=Aftermath())
    return Scene([taken[0], taken[1]._replace(id=line.turn)], calls, [])


@pytest.mark.contract("R4", "A16", "A20")
async def test_a_turn_in_line_is_stopped_while_those_who_ask_are_answered(db: Database, database_url: str) -> None:
    """What was merged into it ended with it, and locked the head of who had asked for it in a second go, whatever its name."""
    await answered_and_stopped(db, database_url, await set_merging(db))


async def answered_and_stopped(db: Database, url: str, scene: Scene) -> None:
    async with staging(url) as stage, driving(url) as driver:
        await stage.keep()
        for walk in walks("answered and stopped", few=FEW_OF_ONE):
            await stage.reset()
            await driver.walk(at_once((stops_the_child, reports), scene), walk)
            async with db.transaction() as tx:
                assert await invariants.check(tx, watch.AGENT_INVARIANTS) == []
        assert driver.blocked > 0


def at_once(acts: Sequence[Act], scene: Scene) -> list[Program]:
    """Return what those who meet do; the first names the agents in one order, the others in the opposite one."""
    return [partial(run, act, scene, place) for place, act in enumerate(acts)]


async def run(act: Act, scene: Scene, place: int, tx: Session) -> bool | None:
    return await act(tx, scene, place)
