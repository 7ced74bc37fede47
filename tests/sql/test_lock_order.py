"""One order of locks: parents before tasks, tasks by id. Whatever sets meet, nobody deadlocks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman.kernel import watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.tasks import joins, store, watch
from ferryman.tasks.intake import cancel
from ferryman.tasks.model import Ended
from ferryman.tasks.ports import Owners
from ferryman.tasks.states import FAILED, READY, RUNNING, SUCCEEDED, TASK
from ferryman.tasks.work import settle
from ferryman.testing import plant
from tests.sql.moves import EPOCH, LEASE, MARGIN, OWNER, SECOND, SOUND, outcome, turn

SETTINGS = {"lock_timeout": "0", "deadlock_timeout": "50ms"}
ROUNDS = 6


class Parents:
    """The owner of a callback, with a table of its own; it writes down what it did, in order."""

    def __init__(self) -> None:
        self.order: list[str] = []

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
        await tx.fetch("select id from parents where id = any($1) order by id for update", list(refs))
        self.order.append("lock")

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        await tx.fetch(
            "update parents set ended = ended + word.count from"
            " (select ref, count(*) as count from unnest($1::text[]) as ref group by ref) as word where id = word.ref",
            [each.callback_ref for each in ended],
        )
        self.order.append("settle")


@pytest.fixture
async def parents(db: Database) -> Parents:
    async with db.session() as tx:
        await tx.fetch("create table parents (id text primary key, ended integer not null default 0)")
        await tx.fetch("insert into parents select n::text from generate_series(0, 9) as n")
    return Parents()


@pytest.fixture
async def lines(database_url: str) -> AsyncIterator[list[Line]]:
    made = [Line(database_url, settings=SETTINGS) for _ in range(3)]
    yield made
    for line in made:
        await line.close()


async def planted(db: Database, count: int, state: Any = RUNNING, **columns: Any) -> list[UUID]:
    """Plant some; the later an id, the earlier its lease ends, so that no two orders are the same by chance."""
    async with db.transaction() as tx:
        if state is not RUNNING:
            return [await plant(tx, TASK, state, **columns) for _ in range(count)]
        return [await plant(tx, TASK, state, **columns | {"leased_until": -SECOND * (n + 1)}) for n in range(count)]


def rules(owners: Owners, name: str) -> list[watchdog.Rule]:
    return [rule for rule in watch.rules(owners, NoDoorbell(), sweep=SECOND, interval=SECOND) if rule.name == name]


Act = Callable[[Line, Sequence[UUID]], Coroutine[Any, Any, None]]


def acts(owners: Owners, refs: dict[UUID, str]) -> dict[str, Act]:
    def told(tasks: Sequence[UUID], state: Any) -> list[Any]:
        return [outcome(task, state, callback="tool", callback_ref=refs[task]) for task in tasks]

    async def settles(line: Line, tasks: Sequence[UUID]) -> None:
        async with line.transaction() as tx:
            await settle.settle(tx, owners, told(tasks, FAILED))

    async def cancels(line: Line, tasks: Sequence[UUID]) -> None:
        await cancel.cancel(line, owners, tasks, tenant="default")

    async def reaps(line: Line, tasks: Sequence[UUID]) -> None:
        await watchdog.tick(line, rules(owners, "W13"))

    async def renews(line: Line, tasks: Sequence[UUID]) -> None:
        await store.renew(line, tasks, [EPOCH] * len(tasks), owner=OWNER, lease=LEASE, margin=MARGIN)

    async def reclaims(line: Line, tasks: Sequence[UUID]) -> None:
        await store.reclaim(line, owner=OWNER, held=[])

    async def turns(line: Line, tasks: Sequence[UUID]) -> None:
        # The highest ids succeed: a statement that settled the successes first would lock them in the wrong order.
        ordered = sorted(tasks)
        lost, won = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]
        await turn(line, *[outcome(task, READY) for task in lost], *[outcome(task, SUCCEEDED) for task in won])

    return {"settle": settles, "cancel": cancels, "reap": reaps, "renew": renews, "turn": turns, "reclaim": reclaims}


WRITERS = ["settle", "cancel", "reap", "renew", "turn", "reclaim"]
PAIRS = [(one, other) for n, one in enumerate(WRITERS) for other in WRITERS[n:]]


@pytest.mark.contract("K6", "R4")
@pytest.mark.parametrize(("one", "other"), PAIRS)
async def test_two_that_want_one_set_in_opposite_orders_do_not_deadlock(
    db: Database, lines: list[Line], parents: Parents, one: str, other: str
) -> None:
    owing = one in {"settle", "cancel", "reap"}
    for _ in range(ROUNDS):
        tasks = await planted(db, 10, **SOUND[RUNNING], **({"callback": "tool", "callback_ref": "1"} if owing else {}))
        by_name = acts(Owners({"tool": parents}), dict.fromkeys(tasks, "1"))

        await asyncio.gather(by_name[one](lines[0], tasks), by_name[other](lines[1], tasks[::-1]))


@pytest.mark.contract("K6")
@pytest.mark.parametrize("path", ["settle", "cancel", "reap", "expire"])
async def test_parents_are_locked_before_any_task(db: Database, lines: list[Line], parents: Parents, path: str) -> None:
    state, columns = (READY, {"ends_at": -SECOND}) if path == "expire" else (RUNNING, SOUND[RUNNING])
    [task] = await planted(db, 1, state, **columns, max_retries=1, callback="tool", callback_ref="3")
    owners = Owners({"tool": parents})
    by_name = acts(owners, {task: "3"})

    async def expires(line: Line, _tasks: Sequence[UUID]) -> None:
        await watchdog.tick(line, rules(owners, "T21"))

    async with db.transaction() as holder:
        # Somebody holds the parent: whoever comes must wait there, with the task still free.
        await holder.fetch("select from parents where id = '3' for update")
        coming = asyncio.create_task((by_name | {"expire": expires})[path](lines[0], [task]))
        while not await waiting(lines[1]):
            assert not coming.done()
        free = await lines[1].fetch("select id from ferryman.tasks where id = $1 for update skip locked", task)
        assert len(free) == 1
    await coming

    assert parents.order == ["lock", "settle"]


@pytest.mark.contract("K6", "K25")
@pytest.mark.parametrize("lapsed", [False, True])
async def test_an_end_that_is_owed_to_who_is_held_by_others_is_left_and_the_others_are_written(
    db: Database, lines: list[Line], lapsed: bool
) -> None:
    """Also to the watchdog; and a parent that is gone holds nobody up."""
    held, free = await planted(db, 2)
    gone = uuid4()
    children = {}
    for parent in (held, free, gone):
        owed = {"callback": joins.CHILD, "callback_ref": str(parent)}
        [child] = await planted(db, 1, **SOUND[RUNNING], **owed)
        children[parent] = outcome(child, FAILED, **owed)
    owners = Owners({joins.CHILD: joins.Joins()})

    async with db.transaction() as holder:
        await holder.fetch("select from ferryman.tasks where id = $1 for update", held)
        async with lines[0].transaction() as tx:
            rows, busy = await settle.settle(tx, owners, list(children.values()), lapsed=lapsed)
    async with lines[0].transaction() as tx:
        later, none = await settle.settle(tx, owners, list(children.values()), lapsed=lapsed)

    assert {row["id"] for row in rows} == {children[free].id, children[gone].id}
    assert (busy, none) == ({children[held].id}, set())
    assert [row["id"] for row in later] == [children[held].id]


async def waiting(line: Line) -> bool:
    here = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return bool(await line.fetch(here))


@pytest.mark.contract("K6")
async def test_the_owners_of_several_kinds_are_locked_in_one_order(db: Database) -> None:
    locked: list[tuple[str, Sequence[str]]] = []

    class Noted:
        def __init__(self, kind: str) -> None:
            self.kind = kind

        async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
            locked.append((self.kind, list(refs)))

        async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None: ...

    owners = Owners({kind: Noted(kind) for kind in ("tool", "async", "batch")})

    async with db.session() as tx:
        await owners.lock(tx, [("tool", "2"), ("batch", "9"), ("tool", "1"), ("async", "5"), ("tool", "2")])

    assert locked == [("async", ["5"]), ("batch", ["9"]), ("tool", ["1", "2"])]
