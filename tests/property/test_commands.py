"""R4 for commands: every pair of ways to end one async task, and every three, in orders of their statements.

So too of a command whose mapping is in hand: that it is processed meets what would end it before. One winner, no deadlock. What
becomes of the command and of each of its async tasks is what becomes of it when one comes after the other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any
from uuid import UUID

import pytest

from ferryman import Ferryman, Message
from ferryman.commands import watch
from ferryman.commands.model import End
from ferryman.commands.rules import ends
from ferryman.commands.states import AsyncTaskStatus
from ferryman.kernel import ids
from ferryman.kernel.pool import Session
from ferryman.tasks.joins import Aftermath
from ferryman.tasks.model import Outcome
from ferryman.tasks.states import FAILED, READY, SUCCEEDED
from ferryman.tasks.watch import TASK_INVARIANTS
from ferryman.tasks.work.settle import settle
from tests.property.interleave import FEW_WALKS, MOST_OF_THREE, MOST_WALKS, Driver, Program, driving, walks
from tests.property.oracle import InTurn
from tests.property.stage import Sound, Stage, staging

SECOND = timedelta(seconds=1)
HOLDER = ids.boot_id()

# What it answers: whether it left something that another held; then it is done again, as a worker does.
Way = Callable[["Scene", Session], Awaitable[bool | None]]


class Scene:
    """A command with two async tasks whose capabilities run; both are past their deadline, so that a rule may end them too.

    Or, before that, one whose mapping runs: it has no async tasks yet.
    """

    def __init__(self, app: Ferryman) -> None:
        self.app = app
        self.orchestrator = app._orchestrator
        self.owners = app._open.owners
        self.command = ids.new_id()
        self.mapping = ids.new_id()
        self.tasks: list[Any] = []

    async def receive(self) -> "Scene":
        sent = await self.app.commands.send("Ask")
        self.command, self.mapping = sent.id, sent.command.task
        async with self.app.database.transaction() as tx:
            await self._claim(tx)
            await tx.fetch("update ferryman.command_inbox set deadline_at = ferryman.clock() where finished_at is null")
        return self

    async def set(self) -> "Scene":
        sent = await self.app.commands.send("Ask")
        self.command = sent.id
        async with self.app.database.transaction() as tx:
            await self._claim(tx)
            await settle(tx, self.owners, [self._won(sent.command.task, PLAN)])
            await self._claim(tx)
            await tx.fetch("update ferryman.async_tasks set deadline_at = ferryman.clock() where completed_at is null")
            await tx.fetch("update ferryman.command_inbox set deadline_at = ferryman.clock() where finished_at is null")
            self.tasks = list(
                await tx.fetch(
                    "select id, task from ferryman.async_tasks where triggered_by_command_id = $1 order by id", sent.id
                )
            )
        return self

    async def _claim(self, tx: Session) -> None:
        await tx.fetch(
            "update ferryman.tasks set state = 'running', rank = null, epoch = 1, lease_count = 1, lease_owner = $1,"
            " started_at = ferryman.clock(), leased_until = ferryman.clock() + interval '1 min' where state = 'ready'",
            HOLDER,
        )
        await tx.fetch(
            "insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state)"
            " select now(), id, 1, tenant, 'task', 'ready', 'running' from ferryman.tasks where state = 'running'"
        )

    def _won(self, task: UUID, result: str) -> Outcome:
        ref = (
            str(self.command)
            if result == PLAN
            else f"{self.command}:{next(r['id'] for r in self.tasks if r['task'] == task)}"
        )
        return Outcome(task, 1, HOLDER, SUCCEEDED, result, callback="async_task", callback_ref=ref)

    def outcomes(self) -> list[Outcome]:
        return [self._won(row["task"], RESULT) for row in self.tasks] or [self._won(self.mapping, PLAN)]

    @property
    def last_task(self) -> UUID:
        task: UUID = self.tasks[1]["task"] if self.tasks else self.mapping
        return task


PLAN = (
    '{"facts": [], "messages": [["A", "A", {}, false, 0.0, null, 1000, 0, "default", 0, null],'
    ' ["B", "B", {}, false, 0.0, null, 1000, 0, "default", 0, null]],'
    ' "code": null, "reason": null, "session_id": null, "traceparent": null}'
)
RESULT = '{"type": "A.Completed", "data": {"result": {"by": "worker"}}}'


async def work(scene: Scene, tx: Session) -> bool:
    _, busy = await settle(tx, scene.owners, scene.outcomes())
    return bool(busy)


async def fail(scene: Scene, tx: Session) -> bool:
    failed: dict[str, Any] = {"state": FAILED, "result": None, "code": "TASK_EXECUTION_FAILED", "reason": "no"}
    _, busy = await settle(tx, scene.owners, [each._replace(**failed) for each in scene.outcomes()])
    return bool(busy)


async def hand_back(scene: Scene, tx: Session) -> bool:
    """The worker leaves: what it had in hand may be claimed anew, and ends by its deadline here."""
    _, busy = await settle(tx, scene.owners, [each._replace(state=READY, result=None) for each in scene.outcomes()])
    return bool(busy)


async def answer(scene: Scene, tx: Session) -> None:
    await end_first(scene, tx, ends.completed(scene.tasks[0]["id"], {"by": "outside"}, type=None))


async def answer_failed(scene: Scene, tx: Session) -> None:
    await end_first(scene, tx, ends.failed(scene.tasks[0]["id"], "NO_ROOM", "told from outside"))


async def end_first(scene: Scene, tx: Session, first: End) -> None:
    await scene.orchestrator.complete(tx, scene.owners, first, tenant="default", after=Aftermath())


async def cancel(scene: Scene, tx: Session) -> None:
    await scene.orchestrator.fail(
        tx, scene.owners, [scene.command],
        to=AsyncTaskStatus.CANCELLED, code="COMMAND_CANCELLED", reason="no", after=Aftermath(),
    )  # fmt: skip


async def stop_task(scene: Scene, tx: Session) -> None:
    """Somebody cancels the task of a capability, or of the mapping, behind the command's back."""
    from ferryman.tasks.intake import cancel as tasks

    await tasks.end(tx, scene.owners, [scene.last_task], reason="no")


def rule(name: str) -> Way:
    async def look(scene: Scene, tx: Session) -> None:
        rules = watch.rules(scene.orchestrator, scene.owners, scene.app.doorbell, interval=SECOND, unknown_after=SECOND)
        [found] = [each for each in rules if each.name == name]
        rows = await found.find(tx, 10)
        if rows:
            await found.act(tx, rows)

    return look


WAYS: dict[str, Way] = {
    "work": work, "fail": fail, "hand_back": hand_back, "answer": answer, "answer_failed": answer_failed,
    "cancel": cancel, "stop_task": stop_task,
    "W14": rule("W14"), "W14-async": rule("W14-async"),
}  # fmt: skip
FEW = 3  # orders of each pair that are walked in the usual run
PAIRS = list(combinations_with_replacement(WAYS, 2))
THREES = list(combinations(WAYS, 3))
# What can happen while the mapping is in hand; `work` is that the command is processed.
RECEIVED = ("work", "fail", "hand_back", "cancel", "stop_task", "W14")


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    made = Ferryman(database_url, doorbell="none")
    made.on_command("Ask")(lambda command: [Message("A"), Message("B")])
    async with made:
        yield made


SOUND = Sound([*watch.COMMAND_INVARIANTS, *TASK_INVARIANTS])
FOUND = """
select 'command' as kind, id, status, error_code as why,
       (select count(*) from ferryman.events
        where subject = command.id and kind = 'command' and to_state in ('COMPLETED', 'FAILED')) as ends
from ferryman.command_inbox as command
union all
select 'async_task', id, status, coalesce(error_data ->> 'code', result_data #>> '{result,by}'),
       (select count(*) from ferryman.events
        where subject = task.id and kind = 'async_task' and to_state in ('COMPLETED', 'FAILED', 'CANCELLED'))
from ferryman.async_tasks as task
order by 1, 2
"""


@pytest.mark.contract("R4", "K3", "K4", "C7", "W14")
async def test_two_who_end_one_command_leave_one_end_and_no_deadlock(app: Ferryman, database_url: str) -> None:
    scene = await Scene(app).set()
    async with staging(database_url) as stage, driving(database_url) as driver:
        await stage.keep()
        for pair in PAIRS:
            await meet(driver, scene, stage, pair, few=FEW, most=MOST_WALKS)
    assert driver.blocked > 0


@pytest.mark.contract("R4", "K3", "K4", "C7", "W14")
async def test_three_who_end_one_command_leave_one_end_and_no_deadlock(app: Ferryman, database_url: str) -> None:
    scene = await Scene(app).set()
    async with staging(database_url) as stage, driving(database_url, actors=3) as driver:
        await stage.keep()
        for three in THREES:
            await meet(driver, scene, stage, three, few=FEW_WALKS, most=MOST_OF_THREE)
    assert driver.blocked > 0


@pytest.mark.contract("R4", "K3", "K4", "C2", "C7", "W14")
@pytest.mark.parametrize("actors", [2, 3])
async def test_a_command_that_is_processed_and_ended_at_once_has_one_end(
    app: Ferryman, database_url: str, actors: int
) -> None:
    scene = await Scene(app).receive()
    few, most = (FEW, MOST_WALKS) if actors == 2 else (FEW_WALKS, MOST_OF_THREE)
    async with staging(database_url) as stage, driving(database_url, actors=actors) as driver:
        await stage.keep()
        assert len(await in_turn(scene, stage, [partial(work, scene)])) == 3  # it has two async tasks then
        for names in combinations_with_replacement(RECEIVED, 2) if actors == 2 else combinations(RECEIVED, 3):
            await meet(driver, scene, stage, names, few=few, most=most)
    assert driver.blocked > 0


async def meet(driver: Driver, scene: Scene, stage: Stage, names: Sequence[str], *, few: int, most: int) -> None:
    """Let some end one command at once, and see that it ends as if one had come after the other."""
    programs = [partial(WAYS[name], scene) for name in names]
    turns = InTurn(programs, partial(in_turn, scene, stage))
    for walk in walks(f"command{names}", few=few, most=most):
        await stage.reset()
        try:
            left = await driver.walk(programs, walk)
            await again(scene, programs, left)
            found = await settled(scene)
            assert await turns.tells(found, driver.came(left)), (found, turns.could)
        except BaseException as error:
            error.add_note(f"{names} in the order {walk.path}")
            raise


async def in_turn(scene: Scene, stage: Stage, programs: Sequence[Program]) -> list[tuple[Any, ...]]:
    """Say what becomes of the command and its async tasks when one comes after the other."""
    await stage.reset()
    await again(scene, programs, [True] * len(programs))
    return await settled(scene)


async def again(scene: Scene, programs: Sequence[Program], left: Sequence[bool | None]) -> None:
    """Let those act alone who left something, one after another."""
    for program in [each for each, some in zip(programs, left, strict=True) if some]:
        async with scene.app.database.transaction() as tx:
            await program(tx)


async def settled(scene: Scene) -> list[tuple[Any, ...]]:
    """Let the rules end whatever is left; then everything has ended once. Return how."""
    async with scene.app.database.transaction() as tx:
        for name in ("W14-async", "W14"):
            await rule(name)(scene, tx)
        assert not await tx.fetch("select from ferryman.tasks where finished_at is null")
        assert await SOUND.broken(tx) == []
        found = [(row["kind"], row["status"], row["why"], row["ends"]) for row in await tx.fetch(FOUND)]
    assert {each[3] for each in found} == {1}, found
    return found
