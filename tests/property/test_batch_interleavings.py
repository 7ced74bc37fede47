"""R4 for batches: every pair of what can happen to two batches and their tasks, in orders of their statements, and some threes.

One winner, sound rows, no deadlock. The actors want the same two batches and name them in opposite orders. How each act
ends a batch is learnt from what it does alone; of two that meet, one has had its way with each batch, its tasks and turns
have one history each, the parent was told once, and no child of a closed batch goes on without a stop.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pytest

from ferryman.agents import intake
from ferryman.agents import watch as turns
from ferryman.agents.ends import Aftermath
from ferryman.agents.model import Order
from ferryman.agents.store import heads, inbox
from ferryman.agents.work import settle, stops
from ferryman.batches import rules, watch
from ferryman.batches.ends import cancel
from ferryman.batches.intake import fork
from ferryman.batches.states import TERMINAL, TaskStatus
from ferryman.batches.work.dispatch import dispatch
from ferryman.batches.work.part import ORPHANED
from ferryman.kernel import ids
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Session
from tests.agents.house import OTHER, OWNER, SECOND, TENANT
from tests.batches.yard import PROFILES
from tests.property.fleet import LONG_SECONDS, PASSED_SECONDS, SCENES, Fleet
from tests.property.interleave import Driver, Walks, driving, walks
from tests.property.stage import Sound, Stage, each_has_something_to_do, staging

# What it answers: whether it left something that another held; then it is done again, as a worker does.
Act = Callable[[Session, Fleet, int], Awaitable[bool | None]]


def ordered(things: Sequence[Any], place: int) -> list[Any]:
    return list(things) if place == 0 else list(reversed(things))


async def dispatches(tx: Session, fleet: Fleet, _place: int) -> bool:
    done = await dispatch(tx, fleet.yard.parties, fleet.yard.owner.terms, after=Aftermath())
    return done.more


async def forks_again(tx: Session, fleet: Fleet, place: int) -> None:
    answers = await fork(tx, ordered(fleet.wanted, place), fleet.yard.owner.terms, profiles=PROFILES)
    assert not any(getattr(answer, "created", True) for answer in answers)


async def cancels(tx: Session, fleet: Fleet, place: int) -> None:
    yard = fleet.yard
    named = ordered(fleet.batches, place)
    await cancel(tx, named, yard.parties, yard.owner.terms, reason="canceled", after=Aftermath())


async def cancels_lower(tx: Session, fleet: Fleet, _place: int) -> None:
    yard = fleet.yard
    await cancel(tx, fleet.batches[:1], yard.parties, yard.owner.terms, reason="canceled", after=Aftermath())


def children_end(status: str, *, which: slice = slice(None), beside: bool = False) -> Act:
    """Let children's turns end, in one set: all of them, or some of each batch; or those in whose way they are."""

    async def act(tx: Session, fleet: Fleet, place: int) -> bool:
        taken = fleet.beside if beside else [each for some in fleet.children for each in some[which]]
        code = None if status == "success" else "no"
        ends = [fleet.yard.ends_as(each, status, code=code) for each in ordered(taken, place)]
        _, busy = await settle.settle(tx, ends, fleet.yard.parties, owner=OWNER, after=Aftermath())
        return bool(busy)

    return act


async def claims(tx: Session, fleet: Fleet, _place: int) -> None:
    kinds, terms = fleet.yard.parties.owners.kinds, fleet.yard.terms
    await heads.claim(tx, owner=OTHER, profiles=["child"], targets=["default"], kinds=kinds, room=10, terms=terms)


async def interrupts(tx: Session, fleet: Fleet, place: int) -> None:
    """Messages to the children's agents, of which each asks that the turn under way be stopped."""
    more = [
        Order(tenant=TENANT, agent_id=child.agent_id, turn=ids.new_id(), instruction="more")
        for child in ordered([each for some in fleet.children for each in some], place)
    ]
    await intake.enqueue(tx, more, fleet.yard.parties, after=Aftermath())


def stops_carried_out(whose: Callable[[Fleet], Collection[Any]]) -> Act:
    """Let a worker carry out the stops that were asked for, of some turns."""

    async def act(tx: Session, fleet: Fleet, place: int) -> None:
        named = whose(fleet)
        found = [row for row in await inbox.stops(tx, 100) if row["agent_turn_id"] in named]
        if found:
            await stops.carry_out(tx, ordered(found, place), fleet.yard.parties, after=Aftermath())

    return act


def by_rule(name: str) -> Act:
    async def act(tx: Session, fleet: Fleet, place: int) -> bool:
        every = [
            *watch.rules(fleet.yard.owner, NoDoorbell(), sweep=SECOND),
            *turns.rules(fleet.yard.parties, NoDoorbell(), sweep=SECOND),
        ]
        [rule] = [each for each in every if each.name == name]
        found = list(await rule.find(tx, 10))
        if not found or rule.act is None:
            return False
        return await rule.act(tx, ordered(found, place)) < len(found)

    return act


SEND, DEADLINE, ORPHANS, HEAR = by_rule("B5"), by_rule("W10"), by_rule("B11"), by_rule("W11")
STOP_PARENTS = stops_carried_out(lambda fleet: {each.turn for each in fleet.parents})
STOP_CHILDREN = stops_carried_out(lambda fleet: {each.id for some in fleet.children for each in some})
SUCCEED, FAIL = children_end("success"), children_end("failed")
ENDING: dict[str, Act] = {"deadline": DEADLINE, "cancel": cancels, "stop parents": STOP_PARENTS}
ACTS: dict[str, dict[str, Act]] = {
    "pending": {"dispatch": dispatches, "send": SEND, "fork again": forks_again, **ENDING},
    "refused": {"dispatch": dispatches, **ENDING},
    "put_off": {"send": SEND, **ENDING},
    "running": {
        "succeed": SUCCEED, "fail": FAIL, "first succeed": children_end("success", which=slice(1)),
        "others fail": children_end("failed", which=slice(1, 2)), "interrupt": interrupts,
        "reap": by_rule("W7"), **ENDING,
    },
    "lapsed": {
        "succeed": SUCCEED, "fail": FAIL, "interrupt": interrupts, "reap": by_rule("W7"), "take over": claims,
        "cancel": cancels, "stop parents": STOP_PARENTS,
    },
    "stopping": {"stop children": STOP_CHILDREN, "succeed": SUCCEED, "fail": FAIL, "interrupt": interrupts, **ENDING},
    "last": {"succeed": SUCCEED, "fail": FAIL, **ENDING},
    "unheard": {"hear": HEAR, "claim": claims, "line moves": children_end("success", beside=True), **ENDING},
    "lost": {"hear": HEAR, "succeed": SUCCEED, **ENDING},
    "orphaned": {"orphans": ORPHANS, "succeed": SUCCEED, "fail": FAIL, "deadline": DEADLINE, "cancel": cancels},
    "unsettled": {"make good": by_rule("W12"), "deadline": DEADLINE, "cancel": cancels},
    "tree": {
        "succeed": SUCCEED, "fail": FAIL, "cancel lower": cancels_lower, "orphans": ORPHANS, **ENDING,
    },
}  # fmt: skip
assert ACTS.keys() == SCENES.keys()
# What does nothing there unless the one has been before it that is named; to ask for a fork that is there never does.
FOLLOWS: dict[str, dict[str, str | None]] = {
    "pending": {"fork again": None}, "lapsed": {"take over": "reap"}, "tree": {"orphans": "stop parents"},
}  # fmt: skip


# That the scene is overdue is its purpose.
SOUND = Sound([*watch.BATCH_INVARIANTS, *turns.AGENT_INVARIANTS])
FOUND = """
select jsonb_agg(jsonb_build_object(
    'id', batch.id, 'status', batch.status, 'reason', batch.reason, 'call', batch.parent_tool_call_id,
    'ends', (select count(*) from ferryman.events where subject = batch.id and kind = 'batch' and from_state is not null),
    'told', (select count(*) from ferryman.cards
             where tool_call_id = batch.parent_tool_call_id and type = 'tool.result'),
    'edges', (select count(*) from ferryman.execution_edges
              where correlation_id = batch.id::text and primitive = 'join' and edge_phase = 'response'),
    'parent', (select turn_status from ferryman.agent_inbox where id = batch.parent_agent_turn_id),
    'tasks', (select jsonb_agg(jsonb_build_object(
        'status', task.status, 'turn', task.current_agent_turn_id,
        'went', (select coalesce(jsonb_agg(jsonb_build_array(from_state, to_state) order by id), '[]')
                 from ferryman.events where subject = task.id and kind = 'batch.task'),
        'over', (select turn_status from ferryman.agent_inbox where id = task.current_agent_turn_id),
        'ends', (select count(*) from ferryman.events where subject = task.current_agent_turn_id and kind = 'agent.task'),
        'stops', (select count(*) from ferryman.agent_inbox as message
                  where message.message_type = 'stop' and message.agent_turn_id = task.current_agent_turn_id
                    and message.status = 'pending'),
        'there', exists (select from ferryman.agent_inbox where id = task.current_agent_turn_id)
        ) order by task.task_index)
      from ferryman.pmo_batch_tasks as task where task.batch_id = batch.id)) order by batch.id)::text as found
from ferryman.pmo_batches as batch
"""


@dataclass
class Ground:
    """One scene, and what each act makes of it when it is alone."""

    db: Database
    stage: Stage
    fleet: Fleet
    begun: list[Any]
    alone: dict[str, list[Any]]

    async def found(self) -> list[Any]:
        async with self.db.session() as tx:
            [row] = await tx.fetch(FOUND)
            found: list[Any] = json.loads(row["found"])
        return found

    async def broken(self) -> list[str]:
        async with self.db.session() as tx:
            return await SOUND.broken(tx)


async def kept(db: Database, stage: Stage, scene: str) -> Fleet:
    """Keep a scene in which the time has passed that makes every rule want it."""
    fleet = await SCENES[scene](db)
    await fleet.yard.travel(PASSED_SECONDS.get(scene, LONG_SECONDS))
    await stage.keep()
    return fleet


async def laid(db: Database, stage: Stage, driver: Driver, scene: str) -> Ground:
    """Lay a scene, and see what each act does."""
    fleet = await kept(db, stage, scene)
    ground = Ground(db, stage, fleet, [], {})
    ground.begun = await ground.found()
    for name, act in ACTS[scene].items():
        await stage.reset()
        await driver.count(0, partial(run, act, fleet, 0))
        ground.alone[name] = await ground.found()
    return ground


async def run(act: Act, fleet: Fleet, place: int, tx: Session) -> bool | None:
    return await act(tx, fleet, place)


HOLDERS = {"succeed", "fail"}


def judge(ground: Ground, met: Sequence[str], found: list[Any]) -> None:
    """See that each batch, task and turn has one history, and that one of those who met has made it what it is."""
    ways = [ground.alone[name] for name in met]
    for place, batch in enumerate(found):
        begun, could = ground.begun[place], [way[place] for way in ways]
        # A turn that was reaped and waits for another worker is not its late holder's to end.
        lost = "reap" in met and ground.alone["reap"][place]["status"] == "running"
        must = [way for name, way in zip(met, could, strict=True) if not lost or name not in HOLDERS]
        closed = batch["status"] != "running"
        # An act that closes a batch when it is alone closes it, or finds it closed.
        assert closed or all(way["status"] == "running" for way in must), batch
        assert batch["ends"] == closed, batch
        assert batch["edges"] == closed, batch
        assert batch["told"] == closed or (batch["told"] == 0 and batch["parent"] is not None), batch
        statuses = {TaskStatus(task["status"]) for task in batch["tasks"]}
        if closed:
            verdict = rules.verdict(statuses, fail_fast=place == 0)
            ends = {(way["status"], way["reason"]) for way in could} | {(verdict, None), ("failed", ORPHANED)}
            assert (batch["status"], batch["reason"]) in ends, batch
            assert statuses <= TERMINAL, batch
        for index, task in enumerate(batch["tasks"]):
            judge_task(task, begun["tasks"][index], closed=closed)


def judge_task(task: Any, begun: Any, *, closed: bool) -> None:
    went = task["went"]
    assert went[: len(begun["went"])] == begun["went"], task
    # From move to move, up to what the row says; nothing follows an end.
    said = ["pending", *(to for _, to in went)]
    assert [came for came, _ in went] == said[:-1], task
    assert said[-1] == task["status"], task
    assert not TERMINAL & {*said[:-1]}, task
    assert task["ends"] == (task["over"] is not None), task
    if closed and task["there"]:
        assert task["over"] is not None or task["stops"], task


@pytest.mark.contract("R4")
@pytest.mark.parametrize("scene", ACTS)
async def test_each_of_them_has_something_to_do(db: Database, database_url: str, scene: str) -> None:
    async with staging(database_url) as stage:
        fleet = await kept(db, stage, scene)

        async def done(act: Act) -> None:
            async with db.transaction() as tx:
                await act(tx, fleet, 0)

        acts = {name: partial(done, act) for name, act in ACTS[scene].items()}
        await each_has_something_to_do(stage, acts, FOLLOWS.get(scene, {}))


@pytest.mark.contract("R4", "B6", "B7", "B8", "B11", "B13")
@pytest.mark.parametrize("scene", ACTS)
async def test_two_at_once_leave_one_end_of_each_batch(db: Database, database_url: str, scene: str) -> None:
    acts = ACTS[scene]
    async with staging(database_url) as stage, driving(database_url) as driver:
        ground = await laid(db, stage, driver, scene)
        for pair in combinations_with_replacement(acts, 2):
            for walk in walks(f"{scene}{pair}"):
                await meet(driver, ground, scene, pair, walk)
        assert driver.blocked > 0  # they did meet


# A child fails and takes the rest along, the deadline has passed, and the parent's turn is stopped or the batch cancelled.
THREES = [("fail", "deadline", "stop parents"), ("fail", "deadline", "cancel")]
THREE_SCENES = ("running", "last", "stopping")
FEW_OF_THREE, MOST_OF_THREE = 4, 300


@pytest.mark.contract("R4", "B6", "B7", "B8", "B13")
@pytest.mark.parametrize("scene", THREE_SCENES)
async def test_three_at_once_leave_one_end_of_each_batch(db: Database, database_url: str, scene: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        ground = await laid(db, stage, driver, scene)
        for three in THREES:
            for walk in walks(f"{scene}{three}", few=FEW_OF_THREE, most=MOST_OF_THREE):
                await meet(driver, ground, scene, three, walk)
        assert driver.blocked > 0


async def meet(driver: Driver, ground: Ground, scene: str, names: Sequence[str], walk: Walks) -> None:
    """Let some act at once in one order, and see what came of it."""
    programs = [partial(run, ACTS[scene][name], ground.fleet, place) for place, name in enumerate(names)]
    await ground.stage.reset()
    try:
        left = await driver.walk(programs, walk)
        for again in [program for program, some in zip(programs, left, strict=True) if some]:
            async with ground.db.transaction() as tx:
                await again(tx)
        judge(ground, names, await ground.found())
        assert await ground.broken() == []
    except BaseException as error:
        error.add_note(f"{scene}: {names} in the order {walk.path}")
        raise
