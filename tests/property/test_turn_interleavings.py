"""R4 for turns: every pair, and every three, of what can happen to the turns of two agents, in orders of their statements.

One end, no deadlock. The actors name the agents in opposite orders. The turns belong to a parent that is locked first, and
wait for tools' tasks, which are locked last: an order of locks that is turned round anywhere shows as a deadlock here. What
becomes of each turn is what becomes of it when one comes after the other: an end that all would have written is not lost
between them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

import pytest

from ferryman.agents import intake, rules, watch
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake.delegate import DelegateEnds
from ferryman.agents.intake.report import TOOL, ToolEnds, reference
from ferryman.agents.model import Call, EndedTurn, NewAgent, Order, Report, Stop, Taken, Terms
from ferryman.agents.ports import TurnOwners
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.work import settle as outcomes
from ferryman.agents.work import stops
from ferryman.kernel import ids, invariants
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Session
from ferryman.tasks.model import Claimed, Draft, NewTask, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import SUCCEEDED
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.settle import settle as settle_tasks
from tests.property.interleave import FEW_WALKS, MOST_OF_THREE, MOST_WALKS, Driver, Program, driving, walks
from tests.property.oracle import InTurn
from tests.property.stage import Sound, Stage, staging

SECOND = timedelta(seconds=1)
TENANT = "default"
HOLDER, NEWCOMERS = ids.boot_id(), (ids.boot_id(), ids.boot_id(), ids.boot_id())
FEW, FEW_OF_ONE = 3, 7  # orders that are walked in the usual run: of each pair, of a pair that stands alone


class Parents:
    """The owner of turns: a row that is locked before any head, and counts the ends it was told."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        await tx.fetch("select from parents where ref = any($1) order by ref for update", list(refs))

    async def settle(self, tx: Tx, ended: Sequence[EndedTurn]) -> None:
        for each in ended:
            await tx.fetch("update parents set told = told + 1 where ref = $1", each.callback_ref)


TERMS = Terms()
TASKS = Owners({TOOL: ToolEnds(Parties(TERMS))})
PARTIES = Parties(TERMS, TurnOwners({"batch": Parents()}), TASKS)
RULES = {rule.name: rule for rule in watch.rules(PARTIES, NoDoorbell(), sweep=SECOND)}


class Scene(NamedTuple):
    """Two agents in the middle of their turns."""

    taken: list[Taken]
    calls: list[str]
    tasks: list[Claimed]


# What it answers: whether it left something that another held; then it is done again, as a worker does.
Act = Callable[[Session, Scene, int], Awaitable[bool | None]]
# Of a turn: how many ends the log tells of, how often its parent was told, and how it ended.
End = tuple[int, int, str | None]


def ordered(things: Sequence[Any], place: int) -> list[Any]:
    return list(things) if place == 0 else list(reversed(things))


async def delivers(tx: Session, scene: Scene, place: int) -> bool:
    ends = [rules.end_of(taken, TurnStatus.SUCCESS, "done", owner=HOLDER) for taken in scene.taken]
    _, busy = await outcomes.settle(tx, ordered(ends, place), PARTIES, owner=HOLDER, after=Aftermath())
    return bool(busy)


async def suspends(tx: Session, scene: Scene, place: int) -> bool:
    waiting = [rules.suspension_of(taken, [call_of(taken)[0]], owner=HOLDER) for taken in scene.taken]
    _, busy = await outcomes.settle(tx, ordered(waiting, place), PARTIES, owner=HOLDER, after=Aftermath())
    return bool(busy)


async def hands_back(tx: Session, scene: Scene, place: int) -> None:
    turns = ordered(scene.taken, place)
    await heads.release(tx, [each.id for each in turns], [each.epoch for each in turns], owner=HOLDER)


async def renews(tx: Session, scene: Scene, place: int) -> None:
    turns = ordered(scene.taken, place)
    given = [each.id for each in turns], [each.epoch for each in turns]
    await heads.renew(tx, *given, owner=HOLDER, lease=TERMS.lease, margin=5 * SECOND)


async def stops_them(tx: Session, scene: Scene, place: int) -> None:
    asked = [
        Stop(tenant=TENANT, agent_id=taken.agent_id, turn=taken.id, id=ids.new_id())
        for taken in ordered(scene.taken, place)
    ]
    await intake.stop(tx, asked, after=Aftermath())
    await stops.sweep(tx, PARTIES, after=Aftermath())


async def enqueues(tx: Session, scene: Scene, place: int) -> None:
    more = [
        Order(tenant=TENANT, agent_id=taken.agent_id, turn=ids.new_id(), instruction="more")
        for taken in ordered(scene.taken, place)
    ]
    await intake.enqueue(tx, more, PARTIES, after=Aftermath())


async def claims(tx: Session, _scene: Scene, place: int) -> None:
    await heads.claim(
        tx, owner=NEWCOMERS[place], profiles=["writer"], targets=["default"], kinds=["batch"], room=10, terms=TERMS
    )


async def reports(tx: Session, scene: Scene, place: int) -> None:
    said = [
        Report(
            tenant=TENANT, tool_call_id=str(call), id=ids.new_id(), card_id=ids.new_id(), content={"status": "success"}
        )
        for call in ordered(scene.calls, place)
    ]
    await intake.report(tx, said, PARTIES, after=Aftermath())


async def tools_end(tx: Session, scene: Scene, place: int) -> None:
    ended = [
        Outcome(task.id, task.epoch, HOLDER, SUCCEEDED, result="1", callback=TOOL, callback_ref=task.callback_ref)
        for task in scene.tasks
    ]
    await settle_tasks(tx, TASKS, ordered(ended, place))


def by_rule(name: str) -> Act:
    async def act(tx: Session, _scene: Scene, place: int) -> bool:
        found = list(await RULES[name].find(tx, 10))
        return bool(found) and await RULES[name].act(tx, ordered(found, place)) < len(found)

    return act


RUNNING: dict[str, Act] = {
    "deliver": delivers, "suspend": suspends, "hand back": hands_back, "renew": renews, "stop": stops_them,
    "reap": by_rule("W7"), "enqueue": enqueues, "take over": claims,
}  # fmt: skip
SUSPENDED: dict[str, Act] = {
    "result": tools_end, "report": reports, "timeout": by_rule("W2"), "stop": stops_them, "resume": claims,
    "enqueue": enqueues,
}  # fmt: skip
OVERRUN: dict[str, Act] = {
    "resume": claims, "stop": stops_them, "late result": reports, "overrun": by_rule("A18"), "repair": by_rule("W4"),
}  # fmt: skip
STATES = {"running": RUNNING, "suspended": SUSPENDED, "overrun": OVERRUN}


def call_of(taken: Taken) -> tuple[Call, str]:
    name = f"call-{taken.id}"
    task = Draft(
        NewTask(
            ids.new_id(), TENANT, "default", "tool", "{}", 0, 300_000, 3, None, None, None, None, None, None, TOOL,
            reference(TENANT, taken.agent_id, name), None, None,
        ),
        frozenset(),
    )  # fmt: skip
    call = Call(tool_call_id=name, tool_name="tool", content={}, card_id=ids.new_id(), timeout=30 * SECOND, task=task)
    return call, name


async def set_scene(db: Database, state: str) -> Scene:
    """Let two agents have their turns, as far as the state says, and let the time pass that makes every rule want them."""
    names = [str(ids.new_id()) for _ in range(2)]
    async with db.transaction() as tx:
        await tx.fetch("update ferryman.clock_shift set shift = '0'")
        for name in names:
            await tx.fetch("insert into parents values ($1, 0)", name)
        await intake.create(tx, [NewAgent(TENANT, name, "writer") for name in names])
        asked = [
            Order(
                tenant=TENANT, agent_id=name, turn=ids.new_id(), instruction="x", callback="batch", callback_ref=name,
                wall_time=timedelta(seconds=400),
            )
            for name in names
        ]  # fmt: skip
        await intake.enqueue(tx, asked, PARTIES, after=Aftermath())
        taken = await heads.claim(
            tx, owner=HOLDER, profiles=["writer"], targets=["default"], kinds=["batch"], room=10, terms=TERMS
        )
        calls: list[str] = []
        tasks: list[Claimed] = []
        if state in ("suspended", "overrun"):
            made = [call_of(each) for each in taken]
            calls = [name for _, name in made]
            waiting = [
                rules.suspension_of(each, [call], owner=HOLDER) for each, (call, _) in zip(taken, made, strict=True)
            ]
            await outcomes.settle(tx, waiting, PARTIES, owner=HOLDER, after=Aftermath())
            tasks = await run_tools(tx)
        if state == "overrun":
            await tools_end(tx, Scene(taken, calls, tasks), 0)
        passed = {"running": 310, "suspended": 31, "overrun": 401}[state]
        await tx.fetch("update ferryman.clock_shift set shift = make_interval(secs => $1)", float(passed))
    return Scene(taken, calls, tasks)


async def run_tools(tx: Session) -> list[Claimed]:
    from ferryman.tasks import store

    claimed, _, _ = await store.turn(
        tx, (), owner=HOLDER, lanes=[("default", TENANT, 10)], names=["tool"], kinds=[TOOL], lease=timedelta(hours=1),
        margin=5 * SECOND,
    )  # fmt: skip
    return claimed


SOUND = Sound([*watch.AGENT_INVARIANTS, *TASK_INVARIANTS])
ENDS = """
select (select count(*) from ferryman.events where subject = message.id and kind = 'agent.task') as ends,
       (select told from parents where ref = message.agent_id) as told, message.turn_status as status
from unnest($1::uuid[]) with ordinality as taken (id, place)
join ferryman.agent_inbox as message on message.id = taken.id
order by taken.place
"""


async def ends_of(db: Database, scene: Scene) -> list[End]:
    """Read how each turn has ended, if it has: told to its parent as often, and every invariant holds."""
    async with db.session() as tx:
        assert await SOUND.broken(tx) == []
        rows = await tx.fetch(ENDS, [taken.id for taken in scene.taken])
    ends = [(row["ends"], row["told"], row["status"]) for row in rows]
    assert all(end[:2] == ((0, 0) if end[2] is None else (1, 1)) for end in ends), ends
    return ends


async def in_turn(db: Database, stage: Stage, scene: Scene, programs: Sequence[Program]) -> list[End]:
    """Say what becomes of each turn when one comes after the other."""
    await stage.reset()
    await again(db, programs, [True] * len(programs))
    return await ends_of(db, scene)


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


@pytest.mark.contract("R4", "A1", "A12", "A16")
@pytest.mark.parametrize("state", list(STATES))
async def test_three_at_once_leave_one_history(db: Database, database_url: str, state: str) -> None:
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        scene = await keep_scene(db, stage, state)
        for three in combinations(STATES[state], 3):
            await meet(db, driver, stage, scene, state, three, few=FEW_WALKS, most=MOST_OF_THREE)
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
    """Let some act at once, and see that each turn ends as if one had come after the other."""
    programs = at_once([STATES[state][name] for name in names], scene)
    turns = InTurn(programs, partial(in_turn, db, stage, scene))
    for walk in walks(f"{state}{names}", few=few, most=most):
        await stage.reset()
        try:
            await again(db, programs, await driver.walk(programs, walk))
            ends = await ends_of(db, scene)
            assert await turns.tells(ends), (ends, turns.could)
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
