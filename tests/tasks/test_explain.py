"""What is it doing, why is it not running, what ends it? Every reason has its test (K22)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ferryman import Client, Ferryman
from ferryman.kernel import errors, ids, migrate
from ferryman.kernel.pool import Database, Session
from ferryman.tasks import store
from ferryman.tasks.intake.explain import Explanation, explain
from ferryman.tasks.states import CANCELLED, FAILED, PENDING, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant, travel
from tests.patience import PATIENCE_SECONDS

HOUR = timedelta(hours=1)
# The database is the copy of one that was made a while ago.
WATCHED = "update ferryman.watchdog set ticked_at = clock_timestamp() + ferryman.slack()"


@pytest.fixture
async def tx(db: Database) -> AsyncIterator[Session]:
    async with db.session() as session:
        await session.fetch(WATCHED)
        yield session


async def told(tx: Session, id: UUID | str) -> Explanation:
    explanation = await explain(tx, id, tenant="default")
    assert explanation is not None
    return explanation


async def says(tx: Session, id: UUID, code: str) -> str:
    return next(each.says for each in (await told(tx, id)).reasons if each.code == code)


async def work(
    tx: Session,
    *,
    queues: Sequence[str] = ("default",),
    handlers: Sequence[str] = ("mail",),
    settings: str = '{"callbacks": []}',
    lease: timedelta = HOUR,
    tenant: str | None = None,
) -> UUID:
    """Let a worker say that it lives."""
    boot_id = ids.boot_id()
    await store.beat(
        tx, boot_id=boot_id, host="ferry", pid=7, version="1", queues=list(queues), handlers=list(handlers),
        settings=settings, lease=lease, tenant=tenant,
    )  # fmt: skip
    return boot_id


async def now(tx: Session) -> datetime:
    [row] = await tx.fetch("select ferryman.clock() as now")
    moment: datetime = row["now"]
    return moment


@pytest.mark.contract("K22")
async def test_not_due(tx: Session) -> None:
    await work(tx)
    task = await plant(tx, TASK, PENDING, wake_at=HOUR, due_at=HOUR)

    explained = await told(tx, task)

    assert explained.codes() == ["not_due"]
    assert explained.reasons[0].until is not None
    assert abs(explained.reasons[0].until - await now(tx) - HOUR) < timedelta(minutes=1)
    assert (explained.state, explained.doing) == ("pending", "It waits for a time.")


@pytest.mark.contract("K22")
async def test_backing_off(tx: Session) -> None:
    await work(tx)
    task = await plant(
        tx, TASK, READY, rank=None, wake_at=HOUR, attempt=3, last_error_code="TASK_TIMEOUT", last_error_reason="slow"
    )

    explained = await told(tx, task)

    assert explained.codes() == ["backing_off"]
    assert explained.reasons[0].says.startswith("Attempt 2 ended with TASK_TIMEOUT; the next one may begin at ")
    assert explained.reasons[0].about["last_error_reason"] == "slow"
    assert explained.reasons[0].until is not None


@pytest.mark.contract("K22")
async def test_due_and_not_let_in_yet(tx: Session) -> None:
    task = await plant(tx, TASK, PENDING, wake_at=-HOUR, due_at=-HOUR)

    assert (await told(tx, task)).codes() == ["due", "no_worker"]


@pytest.mark.contract("K22")
async def test_no_worker_is_alive(tx: Session) -> None:
    task = await plant(tx, TASK, READY)
    await work(tx, lease=-HOUR)

    assert (await told(tx, task)).codes() == ["no_worker"]


@pytest.mark.contract("K22", "K12")
async def test_a_worker_of_another_tenant_is_none_for_it(tx: Session) -> None:
    task = await plant(tx, TASK, READY)
    await work(tx, tenant="other")
    alone = (await told(tx, task)).codes()
    await work(tx, tenant="default")

    assert alone == ["no_worker"]
    assert "one living worker would take it" in await says(tx, task, "in_line")


@pytest.mark.contract("K22")
async def test_nobody_serves_its_queue(tx: Session) -> None:
    task = await plant(tx, TASK, READY, queue="far")
    await work(tx, queues=["near", "nearer"])

    assert (await told(tx, task)).codes() == ["queue_not_served"]
    assert await says(tx, task, "queue_not_served") == "No living worker serves its queue far; they serve near, nearer."


@pytest.mark.contract("K22")
async def test_nobody_knows_its_handler(tx: Session) -> None:
    task = await plant(tx, TASK, READY)
    await work(tx, handlers=["post"])
    await work(tx, queues=["far"])

    assert (await told(tx, task)).codes() == ["handler_unknown"]


@pytest.mark.contract("K22")
async def test_nobody_knows_the_owner_of_its_end(tx: Session) -> None:
    task = await plant(tx, TASK, READY, callback="batch", callback_ref="1")
    await work(tx, settings='{"callbacks": ["tool"]}')

    unknown = (await told(tx, task)).codes()
    await work(tx, settings="{}")  # of a release that does not tell

    assert unknown == ["callback_unknown"]
    assert (await told(tx, task)).codes() == ["in_line"]


@pytest.mark.contract("K22")
async def test_a_worker_tells_which_owners_it_knows(database_url: str, db: Database) -> None:
    class Owner:
        async def lock(self, tx: Any, refs: Any) -> None: ...

        async def settle(self, tx: Any, ended: Any) -> None: ...

    app = Ferryman(database_url)
    app.on_end("batch", Owner())

    @app.task
    async def mail() -> None: ...

    said = "select settings ->> 'callbacks' as callbacks from ferryman.workers"
    async with app, app.worker(), db.session() as tx, asyncio.timeout(PATIENCE_SECONDS):
        while not (rows := await tx.fetch(said)):  # until it has beaten for the first time
            pass

    assert ['"batch"' in row["callbacks"] for row in rows] == [True]


@pytest.mark.contract("K22")
async def test_its_place_in_the_line(tx: Session) -> None:
    for _ in range(3):
        await plant(tx, TASK, READY, rank=-HOUR)
    await plant(tx, TASK, READY, rank=-HOUR, tenant="other")
    await plant(tx, TASK, READY, rank=-HOUR, queue="other")
    task = await plant(tx, TASK, READY)
    await plant(tx, TASK, READY, rank=HOUR)
    await work(tx)

    explained = await told(tx, task)

    assert explained.codes() == ["in_line"]
    assert explained.reasons[0].about == {"ahead": 3, "workers": 1}
    assert explained.doing == "It waits for a worker."


@pytest.mark.contract("K22")
async def test_past_its_ends_at(tx: Session) -> None:
    task = await plant(tx, TASK, READY, ends_at=timedelta(seconds=-1))
    await work(tx)

    assert (await told(tx, task)).codes() == ["expired"]


@pytest.mark.contract("K22")
async def test_leased_by_whom_and_until_when(tx: Session) -> None:
    worker = await work(tx)
    task = await plant(tx, TASK, RUNNING, lease_owner=worker, leased_until=timedelta(seconds=30), attempt=2)

    explained = await told(tx, task)

    assert explained.codes() == ["leased"]
    assert "Worker ferry (pid 7) holds it since" in explained.reasons[0].says
    assert explained.reasons[0].about["lease_owner"] == str(worker)
    assert explained.doing == "It runs, attempt 2 of 4."
    assert explained.ends is not None
    assert (explained.ends.rule, explained.ends.ends_by) == ("W13", explained.reasons[0].until)


@pytest.mark.contract("K22")
async def test_leased_by_a_worker_that_is_silent_or_gone(tx: Session) -> None:
    silent = await plant(tx, TASK, RUNNING, lease_owner=await work(tx, lease=-HOUR))
    orphan = await plant(tx, TASK, RUNNING)

    assert (await told(tx, silent)).codes() == (await told(tx, orphan)).codes() == ["leased", "holder_silent"]
    assert "has not been heard of since" in await says(tx, silent, "holder_silent")
    assert "Its worker is gone." in await says(tx, orphan, "holder_silent")


@pytest.mark.contract("K22", "K24")
async def test_nobody_watches_or_grace_is_given(tx: Session) -> None:
    task = await plant(tx, TASK, RUNNING, lease_owner=await work(tx))
    ended = await plant(tx, TASK, SUCCEEDED)
    await tx.fetch("update ferryman.watchdog set ticked_at = clock_timestamp() - interval '1 hour'")
    silent = (await told(tx, task)).codes()
    await tx.fetch(
        "update ferryman.watchdog set ticked_at = clock_timestamp(), grace_until = clock_timestamp() + interval '20 s'"
    )

    assert silent == ["leased", "watchdog_silent"]
    assert (await told(tx, task)).codes() == ["leased", "grace"]
    assert (await told(tx, ended)).codes() == ["ended"]


@pytest.mark.contract("K22", "K24")
async def test_a_tick_and_a_grace_of_a_clock_that_was_set_back_are_no_word_of_now(tx: Session) -> None:
    orphan = await plant(tx, TASK, RUNNING)
    await tx.fetch(
        "update ferryman.watchdog"
        " set ticked_at = clock_timestamp() + $1::interval, grace_until = clock_timestamp() + $1::interval",
        HOUR,
    )

    explained = await told(tx, orphan)

    assert explained.codes() == ["leased", "holder_silent", "watchdog_silent"]
    assert "since the clock was set back" in await says(tx, orphan, "watchdog_silent")
    assert explained.reasons[1].until == explained.reasons[0].until


@pytest.mark.contract("K22")
async def test_how_it_ended(tx: Session, database_url: str) -> None:
    won = await plant(tx, TASK, SUCCEEDED)
    lost = await plant(tx, TASK, FAILED, last_error_code="TASK_RETRY_EXHAUSTED", last_error_reason="ValueError: boom.")
    gone = await plant(tx, TASK, CANCELLED)
    await tx.fetch("insert into ferryman.settings values ('tasks.retention_seconds', '3600')")
    async with Ferryman(database_url) as app:
        stopped = await app.tasks.create("mail", {})
        await stopped.cancel(reason="not wanted")

    assert (await told(tx, won)).codes() == ["ended"]
    assert (await says(tx, won, "ended")).startswith("It succeeded at 20")
    assert (await says(tx, lost, "ended")).endswith("with TASK_RETRY_EXHAUSTED: ValueError: boom.")
    assert (await says(tx, gone, "ended")).endswith(": nobody said why.")
    assert (await says(tx, stopped.id, "ended")).endswith(": not wanted.")
    explained = await told(tx, won)
    assert explained.ends is None
    kept = datetime.fromisoformat(explained.reasons[0].about["kept_until"])
    assert kept - datetime.fromisoformat(explained.reasons[0].about["finished_at"]) == HOUR


@pytest.mark.contract("K22", "K21")
async def test_the_rule_that_ends_it_is_that_of_the_bounds(tx: Session) -> None:
    waiting = await plant(tx, TASK, READY)
    [bound] = await tx.fetch("select rule, ends_by, terminal_by from ferryman.bounds where id = $1", waiting)

    ends = (await told(tx, waiting)).ends

    assert ends is not None
    assert (ends.rule, ends.ends_by, ends.terminal_by) == (bound["rule"], bound["ends_by"], bound["terminal_by"])
    assert ends.says.startswith("T21 cancels it at ")


@pytest.mark.contract("K22")
async def test_a_domain_adds_its_reasons_beside(tx: Session) -> None:
    await tx.fetch(
        "create function ferryman.reasons_zeal(id uuid) returns table (code text, says text, until timestamptz, about jsonb)"
        " language sql stable as $$ select 'zeal', 'It is too eager.', null::timestamptz, '{}'::jsonb $$"
    )
    await tx.fetch(
        "create function ferryman.explained_zeal(id uuid) returns jsonb language sql stable as"
        """ $$ select '{"domain": "zeal", "id": "0190f000-0000-7000-8000-000000000000", "tenant": "default",
                        "state": "eager", "doing": "It waits."}'::jsonb $$"""
    )
    task = await plant(tx, TASK, READY)

    assert (await told(tx, task)).codes() == ["no_worker", "zeal"]
    assert ((await told(tx, uuid4())).domain, (await told(tx, task)).domain) == ("zeal", "task")


@pytest.mark.contract("K22", "K12")
async def test_what_is_not_there_or_another_tenants_is_not_found(database_url: str) -> None:
    async with Ferryman(database_url) as app, Ferryman(database_url, tenant="other") as other:
        mine = await app.tasks.create("mail", {}, task_id="mine")
        for door, asked in ((other, "mine"), (other, mine.id), (other, str(mine.id)), (app, uuid4()), (app, "nobody")):
            with pytest.raises(errors.TaskNotFound):
                await door.tasks.explain(asked)
        with pytest.raises(errors.TaskInvalidRequest):
            await app.tasks.explain("a b")
        assert (await app.tasks.explain("mine")).id == (await app.tasks.explain(str(mine.id))).id == mine.id
    with Client(database_url) as client:
        assert "no_worker" in client.explain("mine").codes()


@pytest.mark.contract("K22", "K14")
async def test_reasons_follow_the_clock_of_the_database(tx: Session) -> None:
    await work(tx, lease=timedelta(days=9))
    task = await plant(tx, TASK, PENDING, wake_at=HOUR, due_at=HOUR)

    await travel(tx, 2 * HOUR)

    assert (await told(tx, task)).codes() == ["due"]


@pytest.mark.contract("K22", "K15")
async def test_it_explains_in_any_schema(empty_database_url: str) -> None:
    await migrate.migrate(empty_database_url, schema="elsewhere")
    async with Ferryman(empty_database_url, schema="elsewhere") as app:
        later = await app.tasks.create("mail", {}, at=datetime.now(UTC) + HOUR)

        assert (await app.tasks.explain(later.id)).codes()[:2] == ["not_due", "no_worker"]
