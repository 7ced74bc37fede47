"""Scenes of two agents in the middle of their turns, with all that can happen to them due.

The turns belong to a parent that is locked first, and wait for tools' tasks, which are locked last. The time has passed that
makes every rule want them, so that the watchdog, a worker and whoever stops or answers can all mean the same rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from ferryman.agents import intake, rules, watch
from ferryman.agents.ends import Aftermath, Parties
from ferryman.agents.intake.report import TOOL, ToolEnds, reference
from ferryman.agents.model import Call, EndedTurn, NewAgent, Order, Release, Report, Stop, Taken, Terms
from ferryman.agents.ports import TurnOwners
from ferryman.agents.states import TurnStatus
from ferryman.agents.store import heads
from ferryman.agents.work import settle as outcomes
from ferryman.agents.work import stops
from ferryman.kernel import ids
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store
from ferryman.tasks.model import Claimed, Draft, NewTask, Outcome
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import SUCCEEDED
from ferryman.tasks.work.settle import settle as settle_tasks

SECOND = timedelta(seconds=1)
TENANT = "default"
HOLDER, NEWCOMERS = ids.boot_id(), (ids.boot_id(), ids.boot_id(), ids.boot_id())


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


async def hands_back(tx: Session, scene: Scene, place: int) -> bool:
    given_up = [
        Release(id=each.id, epoch=each.epoch, tenant=TENANT, agent_id=each.agent_id, owner=HOLDER)
        for each in ordered(scene.taken, place)
    ]
    _, busy = await outcomes.settle(tx, given_up, PARTIES, owner=HOLDER, after=Aftermath())
    return bool(busy)


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


async def enqueues(tx: Session, scene: Scene, place: int, parties: Parties = PARTIES) -> None:
    more = [
        Order(tenant=TENANT, agent_id=taken.agent_id, turn=ids.new_id(), instruction="more")
        for taken in ordered(scene.taken, place)
    ]
    await intake.enqueue(tx, more, parties, after=Aftermath())


async def claims(tx: Session, scene: Scene, place: int) -> bool:
    """Take turns in hand; what somebody is writing is passed over, and found by the next look."""
    taken = await heads.claim(
        tx, owner=NEWCOMERS[place], profiles=["writer"], targets=["default"], kinds=["batch"], room=10, terms=TERMS
    )
    return len(taken) < len(scene.taken)


async def reports(tx: Session, scene: Scene, place: int) -> None:
    said = [
        Report(
            tenant=TENANT, tool_call_id=str(call), id=ids.new_id(), card_id=ids.new_id(), content={"status": "success"}
        )
        for call in ordered(scene.calls, place)
    ]
    await intake.report(tx, said, PARTIES, after=Aftermath())


async def tools_end(tx: Session, scene: Scene, place: int) -> bool:
    ended = [
        Outcome(task.id, task.epoch, HOLDER, SUCCEEDED, result="1", callback=TOOL, callback_ref=task.callback_ref)
        for task in scene.tasks
    ]
    _, busy = await settle_tasks(tx, TASKS, ordered(ended, place))
    return bool(busy)


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
# The lease is over, and nothing else: another worker may take the turn over, once a rule has let go of it, and it has.
RELEASED: dict[str, Act] = {name: act for name, act in RUNNING.items() if name != "reap"}
# All that was waited for is there, and nobody has gone on.
RESUMABLE: dict[str, Act] = {"resume": claims, "stop": stops_them, "enqueue": enqueues}
# Nobody has taken them in hand: for so long that they are put into the inbox again, or for too long.
DISPATCHED: dict[str, Act] = {"start": claims, "nudge": by_rule("W5"), "stop": stops_them, "enqueue": enqueues}
UNTAKEN: dict[str, Act] = {"start": claims, "give up": by_rule("W6"), "stop": stops_them, "enqueue": enqueues}
# Behind each stands another in line, whose time there is over.
IN_LINE: dict[str, Act] = {
    "deliver": delivers, "hand back": hands_back, "stop": stops_them, "reap": by_rule("W7"), "forget": by_rule("A3"),
    "enqueue": enqueues,
}  # fmt: skip
STATES = {
    "running": RUNNING, "lapsed": RUNNING, "released": RELEASED, "suspended": SUSPENDED, "resumable": RESUMABLE,
    "overrun": OVERRUN, "dispatched": DISPATCHED, "untaken": UNTAKEN, "in line": IN_LINE,
}  # fmt: skip
# How long each has lasted: so long that every rule that is named there wants it.
PASSED_SECONDS = {
    "running": 310, "lapsed": 40, "released": 40, "suspended": 31, "resumable": 31, "overrun": 401,
    "dispatched": 11, "untaken": 31, "in line": 310,
}  # fmt: skip
# What does nothing there unless the one has been before it that is named; without one it does nothing, because it is too late.
FOLLOWS: dict[str, dict[str, str | None]] = {
    "running": {"take over": "hand back"}, "lapsed": {"take over": "reap"},
    "released": dict.fromkeys(("deliver", "suspend", "hand back", "renew")),
    "suspended": {"resume": "result"},
    "overrun": dict.fromkeys(("resume", "late result", "repair")),
}  # fmt: skip
UNCLAIMED, WAITING, ANSWERED = (
    ("dispatched", "untaken"),
    ("suspended", "resumable", "overrun"),
    ("resumable", "overrun"),
)


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
        taken = await take(tx, kept=state not in UNCLAIMED)
        if state == "in line":
            soon = replace(TERMS, queued_for=timedelta(seconds=300))
            await enqueues(tx, Scene(taken, [], []), 0, Parties(soon, PARTIES.owners, TASKS))
        calls: list[str] = []
        tasks: list[Claimed] = []
        if state in WAITING:
            made = [call_of(each) for each in taken]
            calls = [name for _, name in made]
            waiting = [
                rules.suspension_of(each, [call], owner=HOLDER) for each, (call, _) in zip(taken, made, strict=True)
            ]
            await outcomes.settle(tx, waiting, PARTIES, owner=HOLDER, after=Aftermath())
            tasks = await run_tools(tx)
        scene = Scene(taken, calls, tasks)
        if state in ANSWERED:
            await tools_end(tx, scene, 0)
        passed = float(PASSED_SECONDS[state])
        await tx.fetch("update ferryman.clock_shift set shift = make_interval(secs => $1)", passed)
        if state == "released":
            await by_rule("W7")(tx, scene, 0)
    return scene


class Undone(Exception):
    """What was done is to be as if it had not been."""


async def take(tx: Session, *, kept: bool) -> list[Taken]:
    """Take turns in hand, or only see which those would be."""
    taken: list[Taken] = []
    with suppress(Undone):
        async with tx.transaction():
            taken = await heads.claim(
                tx, owner=HOLDER, profiles=["writer"], targets=["default"], kinds=["batch"], room=10, terms=TERMS
            )
            if not kept:
                raise Undone
    assert len(taken) == 2
    return taken


async def run_tools(tx: Session) -> list[Claimed]:
    claimed, _, _ = await store.turn(
        tx, (), owner=HOLDER, lanes=[("default", TENANT, 10)], names=["tool"], kinds=[TOOL], lease=timedelta(hours=1),
        margin=5 * SECOND,
    )  # fmt: skip
    return claimed
