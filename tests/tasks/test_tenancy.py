"""No call crosses a tenant (K12)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ferryman import current
from ferryman.kernel import errors
from ferryman.kernel.db import Tx
from ferryman.tasks.model import Ended
from tests.patience import PATIENCE_SECONDS
from tests.tasks.conftest import MakeApp


async def mail() -> str:
    return "sent"


@pytest.fixture
async def both(make_app: MakeApp) -> tuple[Any, Any]:
    return await make_app(mail, tenant="acme"), await make_app(mail, tenant="zeta")


@pytest.mark.contract("K12")
@pytest.mark.parametrize("by", ["id", "task_id"])
@pytest.mark.parametrize("call", ["get", "record", "events", "logs"])
async def test_a_foreign_task_is_not_found(both: tuple[Any, Any], by: str, call: str) -> None:
    acme, zeta = both
    handle = await acme.tasks.create(mail, task_id="order")

    with pytest.raises(errors.TaskNotFound):
        await getattr(zeta.tasks, call)(getattr(handle, by))

    assert await zeta.tasks.list() == []


@pytest.mark.contract("K12", "T14")
async def test_a_foreign_task_is_not_cancelled(both: tuple[Any, Any]) -> None:
    acme, zeta = both
    handle = await acme.tasks.create(mail, task_id="order")

    assert await zeta.tasks.cancel(handle.id, str(handle.id)) == []
    with pytest.raises(errors.TaskNotFound):
        await zeta.tasks.cancel("order")

    assert (await handle.refresh()).state == "ready"


@pytest.mark.contract("K12", "T18")
async def test_a_foreign_result_and_progress_are_not_shown(both: tuple[Any, Any]) -> None:
    acme, zeta = both
    handle = await acme.tasks.create(mail)
    async with acme.worker():
        await handle.result(timeout=PATIENCE_SECONDS)

    with pytest.raises(errors.TaskNotFound):
        await asyncio.wait_for(zeta.tasks.end(handle.id), PATIENCE_SECONDS)
    with pytest.raises(errors.TaskNotFound):
        await anext(zeta.tasks.watch(handle.id))


@pytest.mark.contract("K12", "T12")
async def test_keys_and_names_of_two_tenants_do_not_meet(both: tuple[Any, Any]) -> None:
    acme, zeta = both

    ours = await acme.tasks.create(mail, task_id="order", idempotency_key="k")
    theirs = await zeta.tasks.create(mail, task_id="order", idempotency_key="k", max_retries=9)

    assert not theirs.idempotent_hit
    assert theirs.id != ours.id


@pytest.mark.contract("K12", "T12")
async def test_the_id_of_a_foreign_task_is_a_conflict_that_shows_nothing(both: tuple[Any, Any]) -> None:
    acme, zeta = both
    handle = await acme.tasks.create(mail)

    with pytest.raises(errors.TaskDuplicate) as conflict:
        await zeta.tasks.create(mail, task_id=handle.id)

    assert conflict.value.details["existing"] is None


@pytest.mark.contract("K12")
async def test_a_worker_serves_every_tenant(both: tuple[Any, Any]) -> None:
    acme, zeta = both
    handles = [await app.tasks.create(mail) for app in (acme, zeta)]

    async with acme.worker():
        assert [await handle.result(timeout=PATIENCE_SECONDS) for handle in handles] == ["sent", "sent"]


@pytest.mark.contract("K12")
async def test_a_tenant_with_much_work_does_not_starve_another(both: tuple[Any, Any]) -> None:
    acme, zeta = both
    await acme.tasks.create_many(mail, [{} for _ in range(300)])
    late = await zeta.tasks.create(mail)

    async with acme.worker(concurrency=10):
        await late.result(timeout=PATIENCE_SECONDS)

    async with acme.database.session() as tx:
        [row] = await tx.fetch(
            "select count(*) as count from ferryman.tasks as task, ferryman.tasks as late"
            " where late.id = $1 and task.started_at < late.started_at",
            late.id,
        )
    assert row["count"] < 150


async def planter(app: Any) -> str:
    """Let a task of tenant zeta create another one, in a worker whose app belongs to acme; return the other's tenant."""
    handle = await app.tasks.of("zeta").create("plants")
    async with app.worker():
        planted = await handle.result(timeout=PATIENCE_SECONDS)
    async with app.database.session() as tx:
        [row] = await tx.fetch("select tenant from ferryman.tasks where task_id = $1", planted)
    return str(row["tenant"])


@pytest.mark.contract("K12")
async def test_what_a_handler_creates_belongs_to_the_tenant_of_its_task(make_app: MakeApp) -> None:
    async def plants() -> str:
        return (await app.tasks.create("mail", task_id="planted")).task_id

    app = await make_app(plants, mail, tenant="acme")

    assert await planter(app) == "zeta"


@pytest.mark.contract("K12", "T16")
async def test_what_a_plain_function_creates_belongs_to_the_tenant_of_its_task(make_app: MakeApp) -> None:
    loop = asyncio.get_running_loop()

    def plants() -> str:
        creating = app.tasks.create("mail", task_id="planted")
        return asyncio.run_coroutine_threadsafe(creating, loop).result(60).task_id

    app = await make_app(plants, mail, tenant="acme")

    assert await planter(app) == "zeta"


@pytest.mark.contract("K12")
async def test_what_a_handler_starts_and_leaves_running_keeps_the_tenant_of_its_task(make_app: MakeApp) -> None:
    go, created = asyncio.Event(), asyncio.Event()
    kept: list[asyncio.Task[None]] = []

    async def later() -> None:
        await go.wait()
        await app.tasks.create("mail", task_id="planted")
        created.set()

    async def plants() -> str:
        kept.append(asyncio.create_task(later()))
        return "planted"

    app = await make_app(plants, mail, tenant="acme")
    handle = await app.tasks.of("zeta").create("plants")
    async with app.worker():
        await handle.result(timeout=PATIENCE_SECONDS)
        go.set()
        await asyncio.wait_for(created.wait(), PATIENCE_SECONDS)

    assert (await app.tasks.of("zeta").get("planted")).task.tenant == "zeta"


@pytest.mark.contract("K12")
async def test_a_handler_reads_waits_for_and_cancels_what_is_its_own_tenants(make_app: MakeApp) -> None:
    async def asks() -> list[Any]:
        other = await app.tasks.create("mail")
        later = await app.tasks.create_many("mail", [{}], queue="nobodys")
        return [
            app.tasks.tenant,
            await other.result(timeout=PATIENCE_SECONDS),
            [task.tenant for task in await app.tasks.list()],
            len(await app.tasks.cancel(later[0].id)),
        ]

    app = await make_app(asks, mail, tenant="acme")
    await app.tasks.create("mail", queue="nobodys")
    handle = await app.tasks.of("zeta").create("asks")
    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == ["zeta", "sent", ["zeta"] * 3, 1]

    assert app.tasks.tenant == "acme"


@pytest.mark.contract("K12")
async def test_a_handle_stays_with_its_tenant_whoever_holds_it(make_app: MakeApp) -> None:
    made: list[Any] = []

    async def asks() -> str:
        made.append(await app.tasks.create("mail"))
        return str(await outer.result(timeout=PATIENCE_SECONDS))

    app = await make_app(asks, mail, tenant="acme")
    outer = await app.tasks.create("mail")
    handle = await app.tasks.of("zeta").create("asks")
    async with app.worker():
        assert await handle.result(timeout=PATIENCE_SECONDS) == "sent"
        assert await made[0].result(timeout=PATIENCE_SECONDS) == "sent"

    assert [(await each.refresh()).tenant for each in (outer, made[0])] == ["acme", "zeta"]


@pytest.mark.contract("K12")
async def test_another_app_in_a_handlers_hands_keeps_its_own_tenant(make_app: MakeApp) -> None:
    other = await make_app(mail, tenant="other")

    async def plants() -> str:
        return (await other.tasks.create("mail", task_id="planted")).task_id

    app = await make_app(plants, mail, tenant="acme")

    assert await planter(app) == "other"


class Ear:
    """An owner that hears for whom it is called."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def lock(self, tx: Tx, refs: Sequence[str]) -> None: ...

    async def settle(self, tx: Tx, ended: Sequence[Ended]) -> None:
        try:
            self.heard.append(current().tenant)
        except errors.NotOpen:
            self.heard.append("nobody")


@pytest.mark.contract("K12", "K6")
async def test_an_owner_is_not_called_in_the_name_of_the_task_that_happened_to_ring(make_app: MakeApp) -> None:
    async def rings() -> None:
        await app.tasks.create("mail")  # which rings, from inside a handler

    ear = Ear()
    app = await make_app(rings, mail, tenant="acme", owners={"ledger": ear})
    handles = [await app.tasks.of("zeta").create("rings") for _ in range(20)]
    async with app.database.session() as tx:
        await tx.fetch("update ferryman.tasks set callback = 'ledger', callback_ref = '1'")
    async with app.worker(concurrency=2):
        for handle in handles:
            await handle.result(timeout=PATIENCE_SECONDS)

    assert set(ear.heard) == {"nobody"}


async def test_a_door_for_a_tenant_that_cannot_be_is_refused(make_app: MakeApp) -> None:
    app = await make_app(mail)

    with pytest.raises(errors.FerrymanError, match="tenant"):
        app.tasks.of("two words")
