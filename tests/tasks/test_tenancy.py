"""No call crosses a tenant (K12)."""

import asyncio
from typing import Any

import pytest

from ferryman.kernel import errors
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
        await handle.result(timeout=15)

    with pytest.raises(errors.TaskNotFound):
        await asyncio.wait_for(zeta.tasks.end(handle.id), 60)
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
        assert [await handle.result(timeout=15) for handle in handles] == ["sent", "sent"]


@pytest.mark.contract("K12")
async def test_a_tenant_with_much_work_does_not_starve_another(both: tuple[Any, Any]) -> None:
    order: list[str] = []
    acme, zeta = both
    await acme.tasks.create_many(mail, [{} for _ in range(300)])
    late = await zeta.tasks.create(mail)

    async with acme.worker(concurrency=10):
        await late.result(timeout=15)
        async with acme.database.session() as tx:
            [row] = await tx.fetch("select count(*) as count from ferryman.tasks where state = 'succeeded'")
            order.append(str(row["count"]))

    assert int(order[0]) < 150
