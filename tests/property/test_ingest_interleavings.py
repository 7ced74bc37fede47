"""R4 for ingestion: every pair of what can happen to two tasks, their runs, pages and cursor, in orders of their statements.

One winner, sound rows, no deadlock. Each act answers how often it did what; the log, the cursor's events and the rows must say
the same number. Every task, run, page, slice and plan has one history that leads from move to move to what its row says. Acts
on sets name the two tasks in opposite orders. Three of them meet as well.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from ferryman.ingest import coverage, watch
from ferryman.ingest.intake import cursor, plan
from ferryman.ingest.model import Claimed, Outcome, Records, Trigger, Verdict
from ferryman.ingest.rules import ending, request
from ferryman.ingest.rules.ending import Broken, Done, Spent
from ferryman.ingest.sinks.table import TableSink
from ferryman.ingest.store import batches, plans, tasks
from ferryman.ingest.store.batches import Birth, Finished
from ferryman.ingest.store.cursors import Lineage
from ferryman.ingest.work.settle import give_back, settle
from ferryman.kernel import errors, ids
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Session
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, Ship, harbour, hold
from tests.property.interleave import MOST_OF_THREE, Driver, Walks, driving, walks
from tests.property.stage import Sound, each_has_something_to_do, staging

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TENANT = "default"
LEASE = MINUTE
# A batch is not done in its time then, and the lease of its task has not passed.
PATIENCE, LATE = MINUTE / 2, MINUTE * 0.6
NEWCOMERS = (ids.boot_id(), ids.boot_id(), ids.boot_id())
QUEUED_MAX = 50
BAD_PAGE = "the page is bad"  # said by nobody else whose end takes a page along
PAGE = [{"id": 1000 + n, "at": (DAWN + HOUR).isoformat(), "value": "x"} for n in range(3)]

# How often it did what; nothing if it found another's work done.
Did = Counter[str]
Act = Callable[[Session, "Scene", int], Awaitable[Did]]


class Stale(Exception):
    """The claim is another's: what was written for it goes with its transaction."""


@dataclass
class Scene:
    """Two tasks at one point of their lives, in the hands of one executor."""

    here: Harbour
    sink: TableSink
    ship: Ship
    held: list[Claimed] = field(default_factory=list)
    pages: list[UUID] = field(default_factory=list)
    queued: list[UUID] = field(default_factory=list)
    pending: list[UUID] = field(default_factory=list)

    following: Birth = field(default_factory=lambda: Birth(ids.new_id(), 2, "page:2", "two", "{}"))

    @property
    def owner(self) -> UUID:
        return self.ship.owner


def ordered(things: Sequence[Any], place: int) -> list[Any]:
    return list(things) if place == 0 else list(reversed(things))


def did(what: str, times: int) -> Did:
    return Counter({what: times}) if times else Counter()


async def claims(tx: Session, scene: Scene, place: int) -> Did:
    known = scene.here.app._sources.declared
    owner = NEWCOMERS[place]
    taken = await tasks.claim(tx, owner=owner, known=known, room=10, partition=4, lease=LEASE, margin=MINUTE)
    return did("claim", len(taken))


async def executes(tx: Session, scene: Scene, _place: int) -> Did:
    await tasks.execute(tx, scene.held[0], owner=scene.owner)
    return did("execute", 0)  # said again it answers the same; the log says how often it was begun


async def renews(tx: Session, scene: Scene, place: int) -> Did:
    held = ordered(scene.held, place)
    given = [each.id for each in held], [each.epoch for each in held]
    await tasks.renew(tx, *given, owner=scene.owner, lease=LEASE, margin=MINUTE)
    return did("renew", 0)


def _finished(covered: int | None = None) -> Finished:
    return Finished(
        "page:2", has_next=True, records=len(PAGE), requests=1, watermark=None, covered=covered, stats={}
    )  # fmt: skip


async def turns_a_page(tx: Session, scene: Scene, place: int) -> Did:
    """Everything in one statement: the records, the end of the batch, the birth of the next (ADR 38).

    Records that were new when the page was sent, and that another has written meanwhile, go the longer way (work/walk.py).
    """
    records = scene.sink.join(PAGE)
    assert records is not None
    try:
        try:
            await _turned(tx, scene, records)
        except asyncpg.UniqueViolationError as error:
            if not scene.sink.rejoins(records, error):
                raise
            async with tx.transaction():
                await scene.sink.write(tx, ordered(PAGE, place), batch_key="one")
                await _turned(tx, scene, None)
    except Stale:
        return did("page", 0)
    return did("page", 1)


async def _turned(tx: Session, scene: Scene, records: Records | None) -> None:
    async with tx.transaction():
        row = await batches.turn(
            tx, scene.held[0], _finished(), owner=scene.owner, id=scene.pages[0], patience=PATIENCE,
            following=scene.following, records=records,
        )  # fmt: skip
        if row is None:
            raise Stale


async def moves_the_cursor(tx: Session, scene: Scene, place: int) -> Did:
    """The longer way: records, the end of the batch, and the cursor, which a page of an ordered source moves."""
    task = scene.held[0]
    assert task.cut.lower is not None
    try:
        async with tx.transaction():
            await scene.sink.write(tx, ordered(PAGE, place), batch_key="one")
            finished = _finished(task.cut.lower + 1000)
            row = await batches.turn(tx, task, finished, owner=scene.owner, id=scene.pages[0], patience=PATIENCE)
            if row is None:
                raise Stale
            lineage = Lineage(task.plan_id, task.slice_id, task.id, task.run_id, scene.pages[0])
            await coverage.advance(tx, row["cursor_id"], tenant=TENANT, lineage=lineage, tell=False)
    except Stale:
        return did("page", 0)
    return did("page", 1)


async def fails_a_page(tx: Session, scene: Scene, _place: int) -> Did:
    failed = await batches.fail(
        tx, scene.held[0], owner=scene.owner, id=scene.pages[0], requests=1, reason=BAD_PAGE, stats={}
    )
    return did("bad page", int(failed))


async def begins_a_page(tx: Session, scene: Scene, _place: int) -> Did:
    """Said by a run whose first try may still be under way: its answer did not come."""
    await batches.begin(tx, scene.held[0], scene.following, owner=scene.owner, patience=PATIENCE)
    return did("begin", 0)


async def strikes(tx: Session, _scene: Scene, _place: int) -> Did:
    await tasks.strike(tx, tenant=TENANT, source=SOURCE, most=3, pause=MINUTE)
    return did("strike", 0)


def settles(verdict: Verdict, *, which: int = 0, covered: bool = False) -> Act:
    async def act(tx: Session, scene: Scene, _place: int) -> Did:
        task = scene.held[which]
        outcome = Outcome(task.id, task.epoch, scene.owner, verdict, covered=task.cut.upper if covered else None)
        try:
            row = await settle(tx, outcome, queued_max=QUEUED_MAX)
        except tasks.Busy:  # the pump comes again when whoever is there has gone
            await tx.fetch("select from ferryman.ingest_task where id = $1 for update", task.id)
            row = await settle(tx, outcome, queued_max=QUEUED_MAX)
        return did("release", int(row is not None))

    return act


async def gives_back(tx: Session, scene: Scene, _place: int) -> Did:
    """A worker that does not know of what it holds, because an answer never came."""
    unknown = await tasks.reclaim(tx, owner=scene.owner, held=())
    return did("release", await give_back(tx, unknown, queued_max=QUEUED_MAX))


async def cancels(tx: Session, scene: Scene, place: int) -> Did:
    """As the rule does whose time has just come: what somebody is at is passed over."""
    found = await tx.fetch(
        "select id from ferryman.ingest_task where id = any($1) and rank is not null for update skip locked",
        ordered(scene.queued, place),
    )
    rows = await tasks.cancel(tx, [row["id"] for row in found], code="INGEST_EXPIRED", reason="late")
    return did("cancel", len(rows))


async def fails_slices(tx: Session, scene: Scene, place: int) -> Did:
    return did("slice", await plans.fail(tx, dict.fromkeys(ordered(scene.pending, place), "late")))


def by_rule(name: str, what: str) -> Act:
    async def act(tx: Session, scene: Scene, place: int) -> Did:
        rules = watch.rules(
            scene.here.app._sources, NoDoorbell(), sweep=SECOND, interval=SECOND, queued_max=QUEUED_MAX,
            ends_after=timedelta(days=30),
        )  # fmt: skip
        [rule] = [each for each in rules if each.name == name]
        found = list(await rule.find(tx, 10))
        if not found or rule.act is None:
            return Counter()
        return did(what, await rule.act(tx, ordered(found, place)))

    return act


def planning(**window: Any) -> Act:
    """Ask for a plan, as the door does: two who ask the same at one moment make one."""

    async def act(tx: Session, scene: Scene, _place: int) -> Did:
        app = scene.here.app
        found = app._sources.find(SOURCE, None)
        asked = request.read(
            operation=window.get("operation", "HARVEST"), since=window.get("since"), until=window.get("until"),
            strategy=found.strategy, params=found.params, asked=None, given_budget=None, campaign=None,
        )  # fmt: skip
        trigger = Trigger("MANUAL", "by hand")
        made = await plan.plan(tx, ids.new_id(), found, asked, trigger, tenant=TENANT, terms=app.ingest._terms)
        return did("plan", int(made.made))

    return act


async def rewinds(tx: Session, _scene: Scene, _place: int) -> Did:
    try:
        await cursor.rewind(tx, tenant=TENANT, source=SOURCE, endpoint="default", to=DAWN, reason="again")
    except errors.IngestInvalidRequest:
        return did("rewind", 0)
    return did("rewind", 1)


REAP = by_rule("W15", "release")
SUCCEED = settles(ending.verdict(Done(), done_now=1, done=1, used=0, max_attempts=3), covered=True)
BESIDE = settles(ending.verdict(Done(), done_now=1, done=1, used=0, max_attempts=3), which=1, covered=True)
FAIL = settles(ending.verdict(Broken("no"), done_now=0, done=0, used=2, max_attempts=3))
RETRY = settles(ending.verdict(Broken("no"), done_now=0, done=0, used=0, max_attempts=3))
PART = settles(ending.verdict(Spent("requests"), done_now=1, done=1, used=0, max_attempts=3))
HAND_BACK = settles(ending.handed_back())
MORE: dict[str, Act] = {
    "plan again": planning(since=DAWN + HOUR, until=DAWN + 3 * HOUR), "plan on": planning(until=DAWN + 5 * HOUR),
    "rewind": rewinds,
}  # fmt: skip
ACTS: dict[str, dict[str, Act]] = {
    "nothing": {
        "plan": planning(since=DAWN, until=DAWN + HOUR), "plan wider": planning(since=DAWN, until=DAWN + 2 * HOUR),
        "backfill": planning(operation="BACKFILL", since=DAWN, until=DAWN + HOUR),
    },
    "queued": {"claim": claims, "cancel": cancels, "derive": by_rule("I3-derive", "derive"), "expire": fails_slices, **MORE},
    "dispatched": {
        "execute": executes, "renew": renews, "hand back": HAND_BACK, "give back": gives_back, "fail": FAIL,
        "reap": REAP, "claim": claims,
    },
    "executing": {
        "page": turns_a_page, "cursor page": moves_the_cursor, "bad page": fails_a_page,
        "renew": renews, "strike": strikes, "succeed": SUCCEED, "succeed beside": BESIDE, "fail": FAIL, "retry": RETRY,
        "part": PART, "hand back": HAND_BACK, "give back": gives_back, "reap": REAP, "claim": claims, **MORE,
    },
    "between": {
        "begin": begins_a_page, "renew": renews, "strike": strikes, "succeed": SUCCEED, "retry": RETRY,
        "hand back": HAND_BACK, "give back": gives_back,
    },
    "partial": {"decide": by_rule("I10", "decide"), "claim": claims, **MORE},
}  # fmt: skip
# What does nothing there unless the one has been before it that is named.
FOLLOWS: dict[str, dict[str, str]] = {
    "queued": {"plan again": "rewind"}, "dispatched": {"claim": "hand back"},
    "executing": {"claim": "hand back", "plan again": "rewind"}, "partial": {"claim": "decide", "plan again": "rewind"},
}  # fmt: skip
# Each of them takes the first task from its holder, and it can be taken once.
RELEASING = {"succeed", "fail", "retry", "part", "hand back", "give back", "reap"}
PAGES = {"page", "cursor page", "bad page"}
SHARED = {"page", "cursor page", "succeed", "succeed beside", "strike", *MORE}


def of_interest(ground: str, three: set[str]) -> bool:
    """Tell whether three meet. At a page there are many: one turns it and one takes its task, or all want cursor or source."""
    return ground != "executing" or bool(PAGES & three and RELEASING & three) or three <= SHARED


# Who plans the same at one moment may come three times.
THREES: dict[str, list[tuple[str, ...]]] = {
    ground: [
        three
        for three in (combinations_with_replacement if ground == "nothing" else combinations)(acts, 3)
        if of_interest(ground, {*three})
    ]
    for ground, acts in ACTS.items()
}


@asynccontextmanager
async def laid(url: str, ground: str) -> AsyncIterator[Scene]:
    """Let the cursor have come an hour far, and two tasks wait or be under way behind it."""
    async with harbour(url, Server().fill(180), sink=hold()) as here:
        sink = here.app._sources.find(SOURCE, None).sink
        assert isinstance(sink, TableSink)
        scene = Scene(here, sink, here.ship())
        if ground != "nothing":
            await here.plan(since=DAWN, until=DAWN + HOUR)
            await scene.ship.work()
            await here.plan(until=DAWN + 3 * HOUR)
            await LAYING[ground](scene)
        yield scene


async def wait_in_line(scene: Scene) -> None:
    """Two tasks and, of slices for which there was no room, two more."""
    here, terms = scene.here, scene.here.app.ingest._terms
    here.app.ingest._terms = replace(terms, queued_max=2)
    await here.plan(operation="BACKFILL", since=DAWN - HOUR, until=DAWN + HOUR)
    here.app.ingest._terms = terms
    scene.queued = [row[0] for row in await here.fetch("select id from ferryman.ingest_task where rank is not null")]
    scene.pending = [
        row[0] for row in await here.fetch("select id from ferryman.ingest_slice where status = 'PENDING'")
    ]
    assert (len(scene.queued), len(scene.pending)) == (2, 2)


async def take(scene: Scene) -> None:
    taken = await scene.ship.claim(2)
    scene.held = sorted(taken, key=lambda each: each.cut.lower or 0)


async def lapse(scene: Scene) -> None:
    """Taken, not begun, and the lease is over."""
    await take(scene)
    await scene.here.travel(LEASE + SECOND)


async def execute(scene: Scene) -> None:
    """A page of each is under way, and not done in its time; a request has failed, which a page that comes makes good."""
    await take(scene)
    async with scene.here.app.database.session() as tx:
        await strikes(tx, scene, 0)
    for task in scene.held:
        scene.pages.append(ids.new_id())
        birth = Birth(scene.pages[-1], 1, "start", str(task.id), "{}")
        async with scene.here.app.database.session() as tx:
            await tasks.execute(tx, task, owner=scene.owner)
            await batches.begin(tx, task, birth, owner=scene.owner, patience=PATIENCE)
    await scene.here.travel(LATE)


async def set_out(scene: Scene) -> None:
    """Both run, and have not begun a page."""
    await take(scene)
    for task in scene.held:
        async with scene.here.app.database.session() as tx:
            await tasks.execute(tx, task, owner=scene.owner)


async def end_in_part(scene: Scene) -> None:
    """Both ended with something left, and the planner has not spoken."""
    await execute(scene)
    for which, task in enumerate(scene.held):
        async with scene.here.app.database.transaction() as tx:
            await batches.turn(tx, task, _finished(), owner=scene.owner, id=scene.pages[which], patience=PATIENCE)
            verdict = ending.verdict(Spent("requests"), done_now=1, done=1, used=0, max_attempts=3)
            await settle(tx, Outcome(task.id, task.epoch, scene.owner, verdict), queued_max=QUEUED_MAX)


LAYING: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "queued": wait_in_line, "dispatched": lapse, "executing": execute, "between": set_out, "partial": end_in_part,
}  # fmt: skip

SOUND = Sound(watch.INGEST_INVARIANTS)
ROWS = " union all ".join(
    f"select '{kind}' as kind, id, status from ferryman.{kind}"
    for kind in ("ingest_task", "ingest_run", "ingest_batch", "ingest_slice", "ingest_plan")
)
FOUND = f"""
select jsonb_build_object(
    'rows', (select jsonb_agg(jsonb_build_array(
        row.kind, row.id, row.status,
        (select jsonb_agg(jsonb_build_array(event.from_state, event.to_state) order by event.id)
         from ferryman.events as event where event.subject = row.id and event.kind = row.kind)))
      from ({ROWS}) as row),
    'rewind', (select count(*) from ferryman.ingest_cursor_event where kind = 'rewind'),
    'decide', (select count(*) from ferryman.ingest_task where decision is not null),
    'bad page', (select count(*) from ferryman.events where kind = 'ingest_batch' and reason_message = '{BAD_PAGE}'),
    'cargo', (select count(*) from public.cargo where id >= 1000))::text as found
"""


def counted(found: Any) -> Did:
    """Count in the log what acts say that they did."""
    count: Did = Counter({what: found[what] for what in COUNTED})
    for kind, _, _, went in found["rows"] or ():
        for came, to in went:
            count[MOVES.get((kind, came, to), "other")] += 1
    return count


COUNTED = ("rewind", "decide", "bad page")
HELD = ("DISPATCHED", "EXECUTING")
MOVES: dict[tuple[str, ...], str] = {
    ("ingest_task", "QUEUED", "DISPATCHED"): "claim",
    ("ingest_task", "QUEUED", "CANCELLED"): "cancel",
    ("ingest_batch", "RUNNING", "SUCCEEDED"): "page",
    ("ingest_slice", "PENDING", "FAILED"): "slice",
    ("ingest_plan", "DRAFT", "SLICING"): "plan",
    **{
        ("ingest_task", came, to): "release"
        for came in HELD
        for to in ("SUCCEEDED", "FAILED", "PARTIAL", "CANCELLED", "QUEUED")
    },
}
TOLD = {*MOVES.values(), *COUNTED}


def judge(scene: Scene, names: Sequence[str], before: Any, found: Any, answers: Sequence[Did]) -> None:
    for row in found["rows"] or ():
        _, _, status, went = row
        said = [None, *(to for _, to in went)]
        assert [came for came, _ in went] == said[:-1], row
        assert said[-1] == status, row
    now, then, told = counted(found), counted(before), sum(answers, Counter())
    assert {what: now[what] - then[what] for what in TOLD} == {what: told[what] for what in TOLD}
    # Records are there with the page that they came with, or not at all.
    assert found["cargo"] == (len(PAGE) if told["page"] else 0)
    assert told["page"] + told["bad page"] <= 1
    if RELEASING.issuperset(names):
        first = str(scene.held[0].id)
        [went] = [went for kind, id, _, went in found["rows"] if (kind, id) == ("ingest_task", first)]
        assert sum(MOVES.get(("ingest_task", *move)) == "release" for move in went) == 1


@pytest.mark.contract("R4")
@pytest.mark.parametrize("ground", ACTS)
async def test_each_of_them_has_something_to_do(database_url: str, ground: str) -> None:
    async with laid(database_url, ground) as scene, staging(database_url) as stage:
        await stage.keep("public.cargo")

        async def done(act: Act) -> None:
            async with scene.here.app.database.transaction() as tx:
                await act(tx, scene, 0)

        acts = {name: partial(done, act) for name, act in ACTS[ground].items()}
        await each_has_something_to_do(stage, acts, FOLLOWS.get(ground, {}))


@pytest.mark.contract("R4", "I5", "I6", "I11", "W15", "K4")
@pytest.mark.parametrize("ground", ACTS)
async def test_two_at_once_leave_one_history_of_each_row(database_url: str, ground: str) -> None:
    async with laid(database_url, ground) as scene, staging(database_url) as stage, driving(database_url) as driver:
        await stage.keep("public.cargo")
        before = await look(scene)
        for pair in combinations_with_replacement(ACTS[ground], 2):
            for walk in walks(f"{ground}{pair}"):
                await stage.reset()
                await meet(driver, scene, ground, pair, before, walk)
        assert driver.blocked > 0  # they did meet


@pytest.mark.contract("R4", "I5", "I6", "I11", "W15", "K4")
@pytest.mark.parametrize("ground", ACTS)
async def test_three_at_once_leave_one_history_of_each_row(database_url: str, ground: str) -> None:
    async with (
        laid(database_url, ground) as scene,
        staging(database_url) as stage,
        driving(database_url, actors=3) as driver,
    ):
        await stage.keep("public.cargo")
        before = await look(scene)
        for three in THREES[ground]:
            for walk in walks(f"{ground}{three}", most=MOST_OF_THREE):
                await stage.reset()
                await meet(driver, scene, ground, three, before, walk)
        assert driver.blocked > 0


async def meet(driver: Driver, scene: Scene, ground: str, names: Sequence[str], before: Any, walk: Walks) -> None:
    """Let some act at once in one order, and see what came of it."""
    programs = [partial(run, ACTS[ground][name], scene, place) for place, name in enumerate(names)]
    try:
        answers = await driver.walk(programs, walk)
        judge(scene, names, before, await look(scene), answers)
    except BaseException as error:
        error.add_note(f"{ground}: {names} in the order {walk.path}")
        raise


async def look(scene: Scene) -> Any:
    """Read every row with its history; all of them are sound."""
    async with scene.here.app.database.session() as tx:
        [row] = await tx.fetch(FOUND)
        assert await SOUND.broken(tx) == []
    return json.loads(row["found"])


async def run(act: Act, scene: Scene, place: int, tx: Session) -> Did:
    return await act(tx, scene, place)
