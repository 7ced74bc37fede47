"""Figures: counted once for everybody, for each tenant alone; and the log read back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from ferryman import Context, Ferryman, Turn
from ferryman.app import figures
from ferryman.app.figures import Counting
from ferryman.app.history import Owner
from ferryman.kernel import errors
from ferryman.kernel.pool import Database
from ferryman.tasks.states import FAILED, READY, RUNNING, TASK, TaskState
from ferryman.testing import plant, travel
from tests.patience import PATIENCE_SECONDS

MOVES = """
insert into ferryman.events (at, subject, tenant, kind, to_state)
select now(), gen_random_uuid(), 'default', kind, 'idle' from unnest($1::text[]) as kind
"""


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    """An opened app with one handler."""
    ferryman = Ferryman(database_url)

    @ferryman.task(max_retries=0)
    async def greet(name: str, fail: bool = False) -> str:
        if fail:
            raise ValueError(name)
        return name

    async with ferryman:
        yield ferryman


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.contract("S5")
async def test_what_came_and_what_ended_is_counted_for_each_tenant(app: Ferryman, db: Database) -> None:
    clock = Clock()
    counting = Counting(db, interval=timedelta(seconds=5), clock=clock)
    made = await app.tasks.create_many("greet", [{"name": "a"}, {"name": "b"}, {"name": "c", "fail": True}])
    await app.of("other").tasks.create("greet", name="d", queue="later")
    await app.schedules.create("greet", every="1h", name="e")
    async with app.worker():
        for each in made:
            await app.tasks.end(each.id)
        assert (await Counting(db, interval=timedelta(seconds=5)).of("default")).workers == 1
    async with db.session() as tx:
        await travel(tx, timedelta(seconds=5))
    told = await counting.of("default")
    assert [told.total(kind) for kind in figures.KINDS] == [3, 3, 2, 1, 0]
    assert told.success == pytest.approx(2 / 3)
    assert told.depths == ()
    assert told.workers == 0, "the one there was has gone"
    other = await counting.of("other")
    assert [other.total(kind) for kind in figures.KINDS] == [1, 0, 0, 0, 0]
    assert [(each.queue, each.ready) for each in other.depths] == [("later", 1)]


@pytest.mark.contract("S5")
async def test_a_look_is_shared_until_a_second_has_passed(app: Ferryman, db: Database) -> None:
    clock = Clock()
    counting = Counting(db, interval=timedelta(seconds=5), clock=clock)
    assert (await counting.of("default")).count("ready") == 0
    await app.tasks.create("greet", name="a")
    clock.now = 0.9
    assert (await counting.of("default")).count("ready") == 0
    clock.now = 1.1
    assert (await counting.of("default")).count("ready") == 1
    async with db.session() as tx:
        await travel(tx, timedelta(seconds=4))
    for clock.now in (2.2, 3.3, 4.4):
        assert (await counting.of("default")).total(figures.BORN) == 1, "counted once, however often it is looked at"


@pytest.mark.contract("S5")
async def test_depth_tells_what_waits_from_what_is_parked(db: Database) -> None:
    async with db.session() as tx:
        await plant(tx, TASK, READY, due_at=timedelta(seconds=-90))
        await plant(tx, TASK, READY, rank=None, wake_at=timedelta(hours=1), due_at=timedelta(hours=1))
        await plant(tx, TASK, RUNNING)
        await plant(tx, TASK, FAILED)
    told = await Counting(db, interval=timedelta(seconds=5)).of("default")
    [depth] = told.depths
    assert (depth.ready, depth.pending, depth.running) == (1, 1, 1)
    assert timedelta(seconds=89) < depth.oldest < timedelta(seconds=120)


@pytest.mark.contract("S5")
async def test_figures_tell_what_is_paused_for_a_tenant_and_whether_much_fails(app: Ferryman, db: Database) -> None:
    for name, tenant in (("mail", None), ("slow", "default"), ("theirs", "other"), ("open", None)):
        await app.queues.set(name, new=True)
        if name != "open":
            await app.queues.pause(name, tenant=tenant)
    made = await app.tasks.create_many("greet", [{"name": "a", "fail": True}] * 5)
    async with app.worker():
        for each in made:
            await app.tasks.end(each.id)
    async with db.session() as tx:
        await travel(tx, timedelta(seconds=5))
    counting = Counting(db, interval=timedelta(seconds=5))
    told, other = await counting.of("default"), await counting.of("other")
    assert (list(told.paused), told.failing) == (["mail", "slow"], True)
    assert (list(other.paused), other.failing) == (["mail", "theirs"], False)


async def test_alarms_name_what_somebody_should_do(app: Ferryman, db: Database) -> None:
    await app.tasks.create("greet", name="a")
    said = " ".join(each.says for each in await Counting(db, interval=timedelta(seconds=5)).alarms(patience=10))
    assert "No worker is alive" in said


@pytest.mark.contract("S5", "K12")
async def test_the_log_is_read_back_page_by_page_and_by_tenant(app: Ferryman) -> None:
    made = [(await app.tasks.create("greet", name=name)).id for name in "abcde"]
    await app.of("other").tasks.create("greet", name="x")
    await app.schedules.create("greet", every="1h", name="y")
    history = app.of("default").history
    seen = []
    part = await history.page(kind="task", limit=2)
    while part.events:
        seen += [event.subject for event in part.events]
        if part.next is None:
            break
        part = await history.page(kind="task", before=part.next, limit=2)
    assert seen == made[::-1]
    assert {event.kind for event in (await history.page()).events} == {"task", "schedule"}
    assert (await history.page(kind="tas")).events == [], "a family is a whole word"
    async with app.database.session() as tx:
        await tx.fetch(MOVES, ["agent.state", "ingest_task"])
    for kind, found in (("agent", "agent.state"), ("agent.state", "agent.state"), ("ingest", "ingest_task")):
        assert [event.kind for event in (await history.page(kind=kind)).events] == [found]
    await app.tasks.cancel(made[0], reason="no")
    assert (await history.page(codes=["TASK_EXPIRED"])).events == []
    for wrong in ({"kind": "task'--"}, {"kind": "x" * 99}, {"limit": 0}):
        with pytest.raises(errors.RequestInvalid):
            await history.page(**wrong)


OWED = "update ferryman.tasks set callback = $2, callback_ref = $3 where id = $1"
WAITS = """
insert into ferryman.turn_waiting_tools (tenant, tool_call_id, created_at, deadline_at, ends_at, turn_epoch, agent_turn_id,
    tool_call_card_id, agent_id, tool_name)
values ($1, 'call-1', now(), now(), now(), 1, $2, gen_random_uuid(), 'ada', 'search')
"""


@pytest.mark.contract("S5", "K12")
async def test_the_end_of_a_task_is_owed_to_whoever_it_is_done_for(app: Ferryman) -> None:
    one, other, turn, theirs = uuid4(), uuid4(), uuid4(), uuid4()
    owed = {
        ("child", str(one)): Owner("task", one),
        ("async_task", f"{one}:{other}"): Owner("command", one),
        ("async_task", f":{other}"): None,
        ("batch", f"{one}/{other}"): Owner("batch", one),
        ("batch", "none of ours"): None,
        ("tool", "default/ada/call-1"): Owner("turn", turn),
        ("delegate", "default/ada/call-1"): Owner("turn", turn),
        ("tool", "default/ada/call-2"): None,
        ("someone", "else"): None,
        (None, None): None,
    }
    made = await app.tasks.create_many("greet", [{"name": "x"}] * len(owed))
    async with app.database.session() as tx:
        await tx.fetch(WAITS, "other", theirs)
        await tx.fetch(WAITS, "default", turn)
        for each, [kind, ref] in zip(made, owed, strict=True):
            await tx.fetch(OWED, each.id, kind, ref)

    history = app.of("default").history
    assert [await history.owner(each.id) for each in made] == list(owed.values())
    assert {await app.of("other").history.owner(each.id) for each in made} == {None}


@pytest.mark.contract("S5", "K12")
async def test_the_end_of_a_turn_is_owed_to_its_batch(app: Ferryman) -> None:
    @app.agent
    async def clerk(turn: Turn) -> None: ...

    asked = [{"target_strategy": "new", "target_ref": "clerk", "instruction": "go"}]
    forked = [await app.batches.fork(asked) for _ in range(2)]
    async with app.worker():
        for each in forked:
            await each.result(timeout=PATIENCE_SECONDS)
    for each in forked:
        [task] = await each.tasks()
        assert task.current_agent_turn_id is not None
        assert await app.of("default").history.owner(task.current_agent_turn_id) == Owner("batch", each.id)
        assert await app.of("other").history.owner(task.current_agent_turn_id) is None


async def test_a_look_back_ends_after_so_many_events(app: Ferryman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferryman.app.history.REACH", 3)
    for name in "abcd":
        await app.of("other").tasks.create("greet", name=name)
    part = await app.of("default").history.page()
    assert (part.events, part.next) == ([], 2), (
        "nothing of ours among the newest three; the next look goes on from there"
    )


@pytest.mark.contract("S5")
async def test_few_that_live_among_many_are_listed_like_any_others(
    db: Database, app: Ferryman, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with db.session() as tx:
        ids = {
            (state.value, number): await plant(tx, TASK, state, name=f"n{number % 2}", queue=f"q{number % 2}")
            for number in range(4)
            for state in TaskState
        }
        await plant(tx, TASK, READY, tenant="other")
        await plant(tx, TASK, RUNNING, tenant="other")
    for most in (10_000, 2):  # by the indexes of what lives, and by walking the ids
        monkeypatch.setattr("ferryman.tasks.store.reads.LOOKED_MAX", most)
        for state in TaskState:
            wanted = [ids[state.value, number] for number in (3, 2, 1, 0)]
            page = await app.tasks.list(state=state.value)
            assert [task.id for task in page] == wanted, (most, state)
            assert [task.id for task in await app.tasks.list(state=state.value, before=wanted[1])] == wanted[2:]
            assert [task.id for task in await app.tasks.list(state=state.value, queue="q1", name="n1")] == wanted[::2]
            assert [task.id for task in await app.tasks.list(state=state.value, limit=1)] == wanted[:1]
            assert await app.tasks.list(state=state.value, queue="q1", name="n0") == []


@pytest.mark.contract("S5", "K12")
async def test_the_durable_calls_of_a_task_are_read_in_order_and_by_its_tenant_alone(app: Ferryman) -> None:
    @app.task(name="walk")
    async def walk(ctx: Context) -> None:
        for name in ("first", "second", "third"):
            await ctx.step(name, lambda: {"done": True})
        await ctx.wait_event("word", timeout=timedelta(days=1))

    made, beside = await app.tasks.create("walk"), await app.tasks.create("walk")
    await app.tasks.send_event(made.id, "word", 1)
    async with app.worker():
        await app.tasks.end(made.id)
    found = await app.tasks.steps(made.id)
    assert [(each.kind, each.name, each.state) for each in found] == [
        ("step", "first", "done"), ("step", "second", "done"), ("step", "third", "done"), ("event", "word", "done"),
    ]  # fmt: skip
    assert found[0].result == '{"done": true}'
    assert beside.id != made.id
    with pytest.raises(errors.TaskNotFound):
        await app.of("other").tasks.steps(made.id)
