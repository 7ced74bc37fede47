"""Round trips are a budget: sets go over the wire as sets."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Line
from ferryman.tasks import store, watch
from ferryman.tasks.intake import cancel, create
from ferryman.tasks.model import Draft, Ended
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import PENDING, READY, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.work import settle
from ferryman.tasks.work.crew import TaskCrew
from ferryman.tasks.work.durable import Desk
from ferryman.tasks.work.handlers import declare
from ferryman.tasks.work.lanes import named
from ferryman.tasks.work.run import Runner
from ferryman.tasks.work.scribe import Scribe
from ferryman.tasks.work.words import Words
from ferryman.testing import plant
from tests.sql.counted import Counted
from tests.sql.moves import EPOCH, LANE, LEASE, MARGIN, OWNER, SECOND, SOUND, outcome, turn

DAY = timedelta(days=1)


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    made = Line(database_url)
    yield made
    await made.close()


@pytest.fixture
def wire(line: Line) -> Counted:
    return Counted(line)


async def planted(line: Line, count: int, state: Any, **columns: Any) -> list[Any]:
    async with line.transaction() as tx:
        return [await plant(tx, TASK, state, **columns) for _ in range(count)]


def drafts(count: int) -> list[Draft]:
    return [
        request.draft(tenant="default", name="mail", payload="{}", defaults=request.Defaults()) for _ in range(count)
    ]


class Quiet:
    """An owner that needs no trip of its own."""

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None: ...

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None: ...


@pytest.mark.contract("K11", "P1")
@pytest.mark.parametrize("count", [1, 100])
async def test_any_number_of_creates_take_one_trip(wire: Counted, count: int) -> None:
    answers = await create.create(wire, drafts(count), ends_after=DAY)

    assert (len(answers), wire.trips, wire.transactions) == (count, 1, 0)


@pytest.mark.contract("T12")
async def test_a_create_that_meets_a_task_takes_one_more(wire: Counted) -> None:
    again = drafts(50)
    await create.create(wire, again[:25], ends_after=DAY)
    wire.statements.clear()

    await create.create(wire, again, ends_after=DAY)

    assert wire.trips == 2


@pytest.mark.contract("K5")
async def test_settling_a_set_and_claiming_the_next_take_one_trip(line: Line, wire: Counted) -> None:
    running = await planted(line, 20, RUNNING, **SOUND[RUNNING])
    await planted(line, 10, READY)

    claimed, stale = await turn(wire, *[outcome(task, SUCCEEDED) for task in running], lanes=[LANE])

    assert (len(claimed), stale, wire.trips, wire.transactions) == (10, [], 1, 0)


@pytest.mark.contract("K6")
async def test_settling_a_set_that_owes_takes_one_statement_beside_its_owners(line: Line, wire: Counted) -> None:
    running = await planted(line, 20, RUNNING, **SOUND[RUNNING], callback="tool", callback_ref="1")
    told = [outcome(task, SUCCEEDED, callback="tool", callback_ref="1") for task in running]

    async with wire.transaction():
        rows, _busy = await settle.settle(wire, Owners({"tool": Quiet()}), told)

    assert (len(rows), wire.trips, wire.transactions) == (20, 1, 1)


@pytest.mark.contract("T14")
async def test_cancelling_a_set_takes_two_statements_in_a_transaction(line: Line, wire: Counted) -> None:
    tasks = await planted(line, 10, READY) + await planted(line, 10, RUNNING, **SOUND[RUNNING], callback="tool")

    rows = await cancel.cancel(wire, Owners({"tool": Quiet()}), tasks, tenant="default")

    assert (len(rows), wire.trips, wire.transactions) == (20, 2, 1)


@pytest.mark.contract("K5")
async def test_renewing_a_set_takes_one_trip(line: Line, wire: Counted) -> None:
    tasks = await planted(line, 20, RUNNING, **SOUND[RUNNING])

    kept = await store.renew(wire, tasks, [EPOCH] * 20, owner=OWNER, lease=LEASE, margin=MARGIN)

    assert (len(kept), wire.trips) == (20, 1)


@pytest.mark.contract("T1")
async def test_letting_in_what_is_due_takes_one_trip(line: Line, wire: Counted) -> None:
    await planted(line, 20, PENDING, wake_at=-SECOND)

    count, _lanes, _next = await store.promote(wire, limit=100)

    assert (count, wire.trips) == (20, 1)


@pytest.mark.contract("W13", "T21")
@pytest.mark.parametrize(
    ("name", "columns"),
    [("W13", {"state": RUNNING, "leased_until": -SECOND}), ("T21", {"state": READY, "ends_at": -SECOND})],
)
async def test_a_watch_rule_finds_and_acts_in_two_statements(
    line: Line, wire: Counted, name: str, columns: dict[str, Any]
) -> None:
    await planted(line, 20, **columns)
    rules = watch.rules(Owners(), NoDoorbell(), sweep=SECOND, interval=SECOND)

    report = await watchdog.tick(wire, [rule for rule in rules if rule.name == name])

    assert (report.acted(name), wire.trips) == (20, 2)


def crew(line: Line, queues: Sequence[str] = ("default",)) -> TaskCrew:
    async def mail() -> None: ...

    handlers = {"mail": declare(mail, name="mail", process=False, defaults=request.Defaults())}
    words = Words(_nobody, NoDoorbell())
    desk = Desk(Scribe(line, NoDoorbell(), owner=OWNER, ends_after=DAY), _nobody(), limit=1000)
    runner = Runner(handlers, words, desk, owner=OWNER, limit=1000, concurrency=10)
    return TaskCrew(runner, Owners(), NoDoorbell(), owner=OWNER, queues=queues, lease=LEASE, margin=MARGIN)


def _nobody() -> Any:
    """Stand in for what no turn asks for."""


@pytest.mark.contract("T17", "K5")
async def test_without_limits_a_worker_pays_nothing_for_them(line: Line, wire: Counted) -> None:
    await planted(line, 10, READY)
    pump = crew(line)

    turned = await pump.turn(wire, [], 10)  # type: ignore[arg-type]  # the lines of a worker, counted

    # The look at the lanes, which also tells that there are no limits, and the turn; and then the turn alone.
    assert (len(turned.items), wire.trips, wire.transactions) == (10, 2, 0)
    await planted(line, 10, READY)
    pump.lanes.heard([named("default", "default")])
    await pump.turn(wire, [], 10)  # type: ignore[arg-type]
    assert (wire.trips, wire.transactions) == (3, 0)


@pytest.mark.contract("T17")
async def test_passing_gates_takes_two_statements_in_a_transaction_however_many_keys_there_are(
    line: Line, wire: Counted
) -> None:
    await line.execute("insert into ferryman.queues (name, concurrency) values ('default', 5000), ('slow', 5000)")
    for n in range(30):
        await planted(line, 1, READY, limit_key=f"k{n}", queue=("default", "slow")[n % 2])
    pump = crew(line, ["default", "slow"])

    turned = await pump.turn(wire, [], 100)  # type: ignore[arg-type]

    assert (len(turned.items), wire.trips, wire.transactions) == (30, 3, 1)
    assert [each.partition(",")[0] for each in wire.statements[1:]] == [
        "-- The gate of each queue", "-- ready -> running",
    ]  # fmt: skip
