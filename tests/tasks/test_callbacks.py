"""A task that carries a callback ends together with what its end owes, on every path (K6)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors, faults, watchdog
from ferryman.kernel.db import Tx
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.tasks import store, watch
from ferryman.tasks.model import Ended
from ferryman.tasks.ports import Owners
from ferryman.tasks.rules import request
from ferryman.tasks.states import FAILED, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp

SECOND = timedelta(seconds=1)


class Ledger:
    """An owner with a table: each end is one row, written in the settling transaction; some it cannot settle."""

    def __init__(self, *, refuses: frozenset[str] = frozenset(), by: type[BaseException] = ValueError) -> None:
        self.refuses = refuses
        self.by = by

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None: ...

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        for each in ended:
            await tx.fetch(
                "insert into ledger (ref, state, code, result) values ($1, $2, $3, $4)",
                each.callback_ref,
                each.state.value,
                each.code,
                each.result,
            )
            if each.callback_ref in self.refuses:
                raise self.by(f"cannot settle {each.callback_ref}")


async def works() -> str:
    return "done"


async def fails() -> None:
    raise ValueError("no")


async def prepared(make_app: MakeApp, ledger: Ledger) -> Ferryman:
    app = await make_app(works, fails, owners={"ledger": ledger})
    async with app.database.session() as tx:
        await tx.fetch("create table ledger (ref text, state text, code text, result text)")
    return app


async def create(app: Ferryman, name: str, ref: str, **more: Any) -> UUID:
    """Create a task that owes its end, as a domain does in its own transaction."""
    draft = request.draft(
        tenant="default",
        name=name,
        payload="{}",
        defaults=request.Defaults(),
        callback="ledger",
        callback_ref=ref,
        **more,
    )
    async with app.database.session() as tx:
        await store.create(tx, [draft.task], ends_after=timedelta(days=1))
    return draft.task.id


async def ledger_of(app: Ferryman) -> list[tuple[Any, ...]]:
    async with app.database.session() as tx:
        rows = await tx.fetch("select ref, state, code, result from ledger order by ref")
    return [tuple(row) for row in rows]  # type: ignore[arg-type]  # a record is a sequence


async def tick(app: Ferryman, ledger: Ledger) -> watchdog.Report:
    rules = watch.rules(Owners({"ledger": ledger}), NoDoorbell(), sweep=SECOND, interval=SECOND)
    async with app.database.session() as ground:
        return await watchdog.tick(ground, rules)


@pytest.mark.contract("K6")
async def test_on_the_workers_path(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger())
    won = await create(app, "works", "1")
    lost = await create(app, "fails", "2", max_retries=0)

    async with app.worker():
        await asyncio.gather(app.tasks.end(won), app.tasks.end(lost))

    assert await ledger_of(app) == [
        ("1", "succeeded", None, '"done"'), ("2", "failed", "TASK_RETRY_EXHAUSTED", None),
    ]  # fmt: skip


@pytest.mark.contract("K6", "T4")
async def test_a_retry_owes_nothing_yet(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger())
    lost = await create(app, "fails", "2", max_retries=2, backoff=0)

    async with app.worker():
        end = await app.tasks.end(lost)

    assert (end.attempt, len(await ledger_of(app))) == (3, 1)


@pytest.mark.contract("K6", "W13", "W22")
async def test_on_the_watchdogs_path(make_app: MakeApp) -> None:
    app = await prepared(make_app, ledger := Ledger())
    async with app.database.transaction() as tx:
        await plant(tx, TASK, RUNNING, leased_until=-SECOND, max_retries=0, callback="ledger", callback_ref="3")

    report = await tick(app, ledger)

    assert report.acted("W13") == 1
    assert await ledger_of(app) == [("3", "failed", "TASK_RETRY_EXHAUSTED", None)]


@pytest.mark.contract("K6", "T14")
@pytest.mark.parametrize("state", [READY, RUNNING])
async def test_on_the_cancellers_path(make_app: MakeApp, state: Any) -> None:
    app = await prepared(make_app, Ledger())
    async with app.database.transaction() as tx:
        task = await plant(tx, TASK, state, callback="ledger", callback_ref="4")

    await app.tasks.cancel(task)

    assert await ledger_of(app) == [("4", "cancelled", None, None)]


@pytest.mark.contract("K6", "T21")
async def test_on_the_path_of_what_has_expired(make_app: MakeApp) -> None:
    app = await prepared(make_app, ledger := Ledger())
    async with app.database.transaction() as tx:
        await plant(tx, TASK, READY, ends_at=-SECOND, callback="ledger", callback_ref="5")

    report = await tick(app, ledger)

    assert report.acted("T21") == 1
    assert await ledger_of(app) == [("5", "cancelled", "TASK_EXPIRED", None)]


# What an owner may raise: an error, and what else would end the worker or pass by whoever settles.
RAISED = [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]


@pytest.mark.contract("K6", "K25", "W23", "R6")
@pytest.mark.parametrize("by", RAISED)
async def test_an_end_that_its_owner_cannot_take_spoils_no_other_on_the_workers_path(
    make_app: MakeApp, by: type[BaseException]
) -> None:
    app = await prepared(make_app, Ledger(refuses=frozenset({"bad"}), by=by))
    tasks = [await create(app, "works", ref) for ref in ("a", "b", "bad", "c", "d")]

    async with app.worker():
        ends = await asyncio.gather(*(app.tasks.end(task) for task in tasks if task is not tasks[2]))

    assert {end.state for end in ends} == {SUCCEEDED}
    assert [ref for ref, *_ in await ledger_of(app)] == ["a", "b", "c", "d"]


@pytest.mark.contract("K9", "K6")
async def test_an_end_that_its_owner_cannot_take_does_not_run_the_handler_again_and_again(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger(refuses=frozenset({"bad"})))
    bad = await create(app, "works", "bad")

    async with app.worker(lease=timedelta(minutes=10)):  # a lease that ends lets it run again, as it should
        for number in range(20):  # many turns, each of which could have handed it back
            await app.tasks.end(await create(app, "works", str(number)))
        claims = [event for event in await app.tasks.events(bad) if event.to_state == RUNNING]

    assert len(claims) == 1


@pytest.mark.contract("K6")
async def test_a_task_whose_owner_is_not_known_here_is_left_to_those_who_know_it(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger())
    other = await make_app(works)
    owed = await create(app, "works", "1")
    free = await other.tasks.create(works)

    async with other.worker():
        await free.result()
        with pytest.raises(errors.CallbackUnknown):
            await other.tasks.cancel(owed)
    assert (await app.tasks.record(owed)).state == READY

    async with app.worker():
        assert (await app.tasks.end(owed)).state == SUCCEEDED


@pytest.mark.contract("K6", "W23", "R6")
@pytest.mark.parametrize("by", RAISED)
async def test_an_end_that_its_owner_cannot_take_spoils_no_other_on_the_watchdogs_path(
    make_app: MakeApp, by: type[BaseException]
) -> None:
    app = await prepared(make_app, ledger := Ledger(refuses=frozenset({"bad"}), by=by))
    async with app.database.transaction() as tx:
        for ref in ("a", "bad", "c"):
            await plant(tx, TASK, RUNNING, leased_until=-SECOND, max_retries=0, callback="ledger", callback_ref=ref)

    report = await tick(app, ledger)

    assert (report.acted("W13"), report.spoiled("W13")) == (2, 1)
    assert [ref for ref, *_ in await ledger_of(app)] == ["a", "c"]


@pytest.mark.contract("K6")
async def test_a_cancel_that_its_owner_cannot_take_changes_nothing(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger(refuses=frozenset({"bad"})))
    async with app.database.transaction() as tx:
        task = await plant(tx, TASK, READY, callback="ledger", callback_ref="bad")

    with pytest.raises(ValueError, match="cannot settle bad"):
        await app.tasks.cancel(task)

    assert (await app.tasks.record(task)).state == READY
    assert await ledger_of(app) == []


@pytest.mark.contract("K6", "K24")
async def test_a_break_inside_the_settling_leaves_neither_half(make_app: MakeApp) -> None:
    app = await prepared(make_app, ledger := Ledger())
    async with app.database.transaction() as tx:
        task = await plant(tx, TASK, RUNNING, leased_until=-SECOND, max_retries=0, callback="ledger", callback_ref="6")
    with faults.armed("settle.inside=away@1"):
        report = await tick(app, ledger)
    assert (report.acted("W13"), await ledger_of(app)) == (0, [])
    assert (await app.tasks.record(task)).state == RUNNING

    await tick(app, ledger)

    assert (await app.tasks.record(task)).state == FAILED
    assert len(await ledger_of(app)) == 1


@pytest.mark.contract("K6", "K24")
async def test_a_worker_whose_settling_broke_settles_once(make_app: MakeApp) -> None:
    app = await prepared(make_app, Ledger())
    task = await create(app, "works", "7")

    with faults.armed("settle.inside=away@1"):
        async with app.worker():
            end = await asyncio.wait_for(app.tasks.end(task), PATIENCE_SECONDS)

    assert (end.state, end.attempt) == (SUCCEEDED, 1)
    assert await ledger_of(app) == [("7", "succeeded", None, '"done"')]


@pytest.mark.contract("K17", "K6")
async def test_a_task_that_owes_is_handed_back_at_the_drain(make_app: MakeApp) -> None:
    started = asyncio.Event()

    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    app = await make_app(waits, owners={"ledger": Ledger()})
    task = await create(app, "waits", "8")
    async with app.worker(grace=timedelta(0)):
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)

    record = await app.tasks.record(task)
    assert (record.state, record.attempt) == (READY, 1)


@pytest.mark.contract("K12", "K6")
async def test_a_cancel_of_a_foreign_task_locks_nobody_elses_parents(make_app: MakeApp) -> None:
    locked: list[str] = []

    class Noted(Ledger):
        async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
            locked.extend(refs)

    ours = await make_app(works, tenant="default", owners={"ledger": Noted()})
    theirs = await make_app(works, tenant="zeta", owners={"ledger": Noted()})
    async with ours.database.session() as tx:
        await tx.fetch("create table ledger (ref text, state text, code text, result text)")
    task = await create(ours, "works", "9")

    assert await theirs.tasks.cancel(task) == []
    assert locked == []

    assert await ours.tasks.cancel(task) == [task]
    assert locked == ["9"]


@pytest.mark.contract("W23", "T14")
async def test_a_cancel_that_freezes_does_not_hold_its_rows_for_long_nor_creates_at_all(make_app: MakeApp) -> None:
    said: list[str] = []
    locked, go = asyncio.Event(), asyncio.Event()

    class Slow(Ledger):
        async def lock(self, tx: Tx, refs: Sequence[str]) -> None:
            [row] = await tx.fetch("show idle_in_transaction_session_timeout")
            said.append(row["idle_in_transaction_session_timeout"])
            await tx.fetch("set local idle_in_transaction_session_timeout = 0")  # what follows may take longer here
            locked.set()
            await go.wait()

    app = await prepared(make_app, Slow())
    task = await create(app, "works", "9")
    cancelling = asyncio.create_task(app.tasks.cancel(task))
    await asyncio.wait_for(locked.wait(), PATIENCE_SECONDS)

    beside = await asyncio.wait_for(app.tasks.create(works), PATIENCE_SECONDS)
    go.set()

    assert (await cancelling, said) == ([task], ["2s"])
    assert beside.task.state == READY


@pytest.mark.contract("K20")
@pytest.mark.parametrize("kind", ["child", "tool", "async_task"])
def test_a_kind_that_ferryman_settles_itself_is_refused(kind: str) -> None:
    app = Ferryman("postgresql://nowhere/none")

    with pytest.raises(errors.CallbackTaken):
        app.on_end(kind, Ledger())
