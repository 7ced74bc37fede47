"""In a caller's own transaction: it is there if and only if the caller commits (K16)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from ferryman import Ferryman
from ferryman.app import wiring
from ferryman.kernel import errors, invariants
from tests.tasks.conftest import MakeApp
from tests.tasks.lenders import LENDERS, Dock, docked

OWN_TABLE = "create table public.orders (number integer primary key)"
OWN_WORK = "insert into public.orders values (1)"


@pytest.fixture
async def app(make_app: MakeApp) -> Ferryman:
    app = await make_app()
    async with app.database.session() as tx:
        await tx.fetch(OWN_TABLE)
    return app


@pytest.fixture(params=list(LENDERS))
async def dock(request: pytest.FixtureRequest, app: Ferryman, database_url: str) -> AsyncIterator[Dock]:
    async with docked(request.param, app, database_url) as made:
        yield made


async def stored(app: Ferryman) -> dict[str, int]:
    async with app.database.session() as tx:
        [row] = await tx.fetch(
            "select (select count(*) from ferryman.tasks) as tasks, (select count(*) from ferryman.events) as events,"
            " (select count(*) from public.orders) as orders"
        )
    return {name: row[name] for name in ("tasks", "events", "orders")}


@pytest.mark.contract("K16")
async def test_what_is_created_appears_when_the_caller_commits(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    await dock.lender.execute(OWN_WORK)
    handle = await dock.create("mail", {"to": "ada", "at": [1, None]}, queue="post", idempotency_key="k", priority=-2)

    before = await stored(app)
    await dock.lender.commit()

    task = await app.tasks.record(handle.id)
    assert before == {"tasks": 0, "events": 0, "orders": 0}
    assert await stored(app) == {"tasks": 1, "events": 1, "orders": 1}
    assert handle.idempotent_hit is False
    assert (task.payload, task.queue, task.priority, task.state) == (
        '{"at": [1, null], "to": "ada"}',
        "post",
        -2,
        "ready",
    )
    assert handle.task._replace(payload=task.payload) == task


@pytest.mark.contract("K16")
async def test_what_is_created_is_gone_when_the_caller_rolls_back(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    await dock.lender.execute(OWN_WORK)
    handle = await dock.create("mail", {})
    await dock.create_many("mail", [{"n": n} for n in range(3)])

    await dock.lender.rollback()

    assert await stored(app) == {"tasks": 0, "events": 0, "orders": 0}
    with pytest.raises(errors.TaskNotFound):
        await app.tasks.record(handle.id)


@pytest.mark.contract("K16")
async def test_a_savepoint_takes_back_what_was_created_after_it(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    kept = await dock.create("mail", {})
    await dock.lender.execute("savepoint doubt")
    await dock.create("mail", {}, task_id="undone")
    await dock.lender.execute("rollback to savepoint doubt")
    after = await dock.create("mail", {})
    await dock.lender.commit()

    assert {task.id for task in await app.tasks.list()} == {kept.id, after.id}


@pytest.mark.contract("K16", "T12")
async def test_idempotency_is_that_of_the_door(dock: Dock, app: Ferryman) -> None:
    there = await app.tasks.create("mail", {"n": 1}, idempotency_key="k", max_retries=2)
    await dock.lender.begin()

    again = await dock.create("mail", {"n": 2}, idempotency_key="k")
    with pytest.raises(errors.TaskDuplicate) as conflict:
        await dock.create("mail", {}, idempotency_key="k", max_retries=9)
    own = await dock.create("mail", {}, task_id="mine")
    own_again = await dock.create("mail", {}, task_id="mine")
    await dock.lender.commit()  # a conflict is an answer: it does not spoil the caller's transaction

    assert (again.idempotent_hit, again.id) == (True, there.id)
    assert again.task == await app.tasks.record(there.id)
    assert conflict.value.details["conflict_fields"] == ["max_retries"]
    assert conflict.value.details["existing"]["id"] == str(there.id)
    assert (own.idempotent_hit, own_again.idempotent_hit, own_again.id) == (False, True, own.id)
    assert len(await app.tasks.list()) == 2


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "a b"}, "TASK_INVALID_REQUEST"),
    ({"priority": 10}, "TASK_INVALID_REQUEST"),
    ({"payload": {"n": float("nan")}}, "TASK_INVALID_PAYLOAD"),
    ({"schedule_type": "at", "scheduled_at": "2030-01-01T00:00:00"}, "TASK_INVALID_SCHEDULE"),
]


@pytest.mark.contract("K16", "K13")
async def test_what_the_door_refuses_is_refused_before_the_caller_is_touched(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    await dock.lender.execute(OWN_WORK)

    for given, code in REFUSED:
        with pytest.raises(errors.FerrymanError) as refused:
            await dock.accept({"name": "mail", **given})
        assert refused.value.code == code
    await dock.lender.commit()

    assert await stored(app) == {"tasks": 0, "events": 0, "orders": 1}


@pytest.mark.contract("K16")
async def test_many_are_created_in_sets_and_none_if_one_is_bad(dock: Dock, app: Ferryman) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await dock.lender.begin()

    many = await dock.create_many("mail", ({"n": n} for n in range(1203)), at=at)
    with pytest.raises(errors.TaskInvalidPayload):
        await dock.create_many("mail", [*({"n": n} for n in range(1100)), {"n": float("inf")}])
    await dock.lender.commit()

    assert len({each.id for each in many}) == 1203
    assert {each.task.state for each in many} == {"pending"}
    assert await stored(app) == {"tasks": 1203, "events": 1203, "orders": 0}


@pytest.mark.contract("K16", "T14")
async def test_a_cancel_holds_when_the_caller_commits(dock: Dock, app: Ferryman) -> None:
    there = await app.tasks.create("mail", {}, task_id="there")
    other = await app.tasks.create("mail", {})
    await dock.lender.begin()
    await dock.create("mail", {}, task_id="new")

    cancelled = await dock.cancel("there", "new", other.id, reason="not wanted")
    before = (await there.refresh()).state
    await dock.lender.commit()

    assert (len(cancelled), before) == (3, "ready")
    assert {task.state for task in await app.tasks.list()} == {"cancelled"}
    assert (await app.tasks.events("there"))[-1].reason_message == "not wanted"


@pytest.mark.contract("K16", "T14")
async def test_a_cancel_that_is_rolled_back_never_was(dock: Dock, app: Ferryman) -> None:
    there = await app.tasks.create("mail", {})
    await dock.lender.begin()

    await dock.cancel(there.id)
    with pytest.raises(errors.TaskNotFound):
        await dock.cancel("nobody")
    await dock.lender.rollback()

    assert (await there.refresh()).state == "ready"
    assert [event.to_state for event in await app.tasks.events(there.id)] == ["ready"]


@pytest.mark.contract("K16", "K23")
async def test_what_is_true_of_all_tasks_is_true_of_these(dock: Dock, app: Ferryman) -> None:
    await dock.lender.begin()
    await dock.create("mail", {}, task_id=str(uuid4()))
    gone = await dock.create("mail", {}, ends_at=datetime.now(UTC) + timedelta(days=1))
    await dock.cancel(gone.id)
    await dock.lender.commit()

    async with app.database.session() as tx:
        assert await invariants.check(tx, wiring.invariants()) == []
