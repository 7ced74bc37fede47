"""What the reading statements of tasks answer with, and what they keep to themselves: one test for one condition."""

import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel import ids
from ferryman.kernel.pool import Session
from ferryman.tasks import store
from ferryman.tasks.intake import cancel, read
from ferryman.tasks.states import CANCELLED, FAILED, READY, RUNNING, SUCCEEDED, TASK
from ferryman.testing import plant
from tests.sql.moves import EPOCH, HOUR, SECOND, SOUND, outcome

DAY = timedelta(days=1)


@pytest.mark.contract("K12")
async def test_a_task_is_read_by_its_own_tenant_only(given: Session) -> None:
    task = await plant(given, TASK, SUCCEEDED, tenant="acme", task_id="mail_1")
    other = await plant(given, TASK, SUCCEEDED, tenant="acme")

    for tenant, found in (("acme", task), ("default", None)):
        by_id = await store.get(given, tenant=tenant, id=task, task_id=None)
        by_name = await store.get(given, tenant=tenant, id=None, task_id="mail_1")
        page = await store.list_page(given, tenant=tenant, state=None, queue=None, name=None, before=None, limit=10)
        assert [each and each.id for each in (by_id, by_name)] == [found, found]
        assert [each.id for each in page] == ([other, task] if found else [])


@pytest.mark.contract("T15")
@pytest.mark.parametrize(
    ("asked", "count"),
    [({}, 3), ({"state": "ready"}, 2), ({"queue": "slow"}, 1), ({"name": "fax"}, 1), ({"limit": 1}, 1)],
    ids=str,
)
async def test_a_list_is_narrowed_by_each_of_its_filters(given: Session, asked: dict[str, Any], count: int) -> None:
    await plant(given, TASK, READY)
    await plant(given, TASK, READY, queue="slow")
    await plant(given, TASK, CANCELLED, name="fax")
    everything: dict[str, Any] = {"state": None, "queue": None, "name": None, "before": None, "limit": 10}

    page = await store.list_page(given, tenant="default", **everything | asked)

    assert len(page) == count


@pytest.mark.contract("T15", "K12")
@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 3),
        ({"state": "failed"}, 1),
        ({"queue": "slow"}, 1),
        ({"name": "fax"}, 1),
        ({"limit": 2}, 2),
        ({"tenant": "acme"}, 1),
    ],
    ids=str,
)
async def test_a_list_of_what_was_lost_is_narrowed_too(given: Session, asked: dict[str, Any], count: int) -> None:
    await plant(given, TASK, CANCELLED, queue="slow")
    await plant(given, TASK, CANCELLED, name="fax")
    newest = await plant(given, TASK, CANCELLED)
    await plant(given, TASK, FAILED)
    await plant(given, TASK, SUCCEEDED)
    await plant(given, TASK, CANCELLED, tenant="acme")
    everything: dict[str, Any] = {
        "tenant": "default", "state": "cancelled", "queue": None, "name": None, "before": None, "limit": 10,
    }  # fmt: skip

    page = await store.list_page(given, **everything | asked)

    assert len(page) == count
    assert [each.id for each in page] == sorted((each.id for each in page), reverse=True)
    if not asked:
        further = await store.list_page(given, **everything | {"before": newest})
        assert [each.id for each in further] == [each.id for each in page[1:]]


@pytest.mark.contract("T15")
async def test_a_list_goes_on_behind_the_last_id_of_a_page(given: Session) -> None:
    tasks = [await plant(given, TASK, READY) for _ in range(3)]

    page = await store.list_page(given, tenant="default", state=None, queue=None, name=None, before=tasks[2], limit=10)

    assert [each.id for each in page] == [tasks[1], tasks[0]]


@pytest.mark.contract("T18", "K12")
async def test_the_ended_and_the_unknown_among_those_asked_for_are_told(given: Session) -> None:
    ended = await plant(given, TASK, SUCCEEDED, result=[1])
    running = await plant(given, TASK, RUNNING)
    foreign = await plant(given, TASK, FAILED, tenant="acme")
    await plant(given, TASK, FAILED)

    rows = await store.finished(given, [ended, running, foreign], tenant="default")

    assert {(row["id"], row["state"], row["result"]) for row in rows} == {
        (ended, "succeeded", "[1]"),
        (foreign, None, None),
    }


@pytest.mark.contract("K5")
async def test_the_lanes_are_the_pairs_with_something_to_claim(given: Session) -> None:
    for tenant in ("acme", "acme", "zeta"):
        await plant(given, TASK, READY, tenant=tenant)
    await plant(given, TASK, READY, tenant="beta", rank=None, wake_at=HOUR)
    await plant(given, TASK, RUNNING, tenant="dora")
    await plant(given, TASK, READY, queue="slow")
    await plant(given, TASK, READY, queue="unserved")

    assert await lanes(given, {"default": "", "slow": ""}) == [
        ("lane", "default", "acme"), ("lane", "slow", "default"), ("lane", "default", "zeta"),
    ]  # fmt: skip
    assert len(await lanes(given, {"default": "", "slow": ""}, limit=2)) == 2


@pytest.mark.contract("K5", "T17")
async def test_a_look_at_the_lanes_goes_on_behind_a_tenant(given: Session) -> None:
    for tenant in ("acme", "beta", "zeta"):
        await plant(given, TASK, READY, tenant=tenant)
        await plant(given, TASK, READY, tenant=tenant, limit_key="k")

    assert await lanes(given, {"default": "acme"}) == [
        ("lane", "default", "beta"), ("lane", "default", "zeta"), ("keyed", "default", "beta"), ("keyed", "default", "zeta"),
    ]  # fmt: skip
    assert len(await lanes(given, {"default": ""}, limit=1)) == 2


@pytest.mark.contract("T17")
async def test_tasks_with_a_key_are_lanes_of_their_own(given: Session) -> None:
    await plant(given, TASK, READY, tenant="acme", limit_key="k")
    await plant(given, TASK, READY, tenant="beta", limit_key="k", rank=None, wake_at=HOUR)
    await plant(given, TASK, READY, tenant="dora", limit_key="k", queue="unserved")
    await plant(given, TASK, RUNNING, tenant="zeta", limit_key="k")

    assert await lanes(given, {"default": ""}) == [("keyed", "default", "acme")]


@pytest.mark.contract("T17")
async def test_a_look_at_the_lanes_tells_what_is_agreed_for_the_queues_and_what_is_paused(given: Session) -> None:
    await given.execute(
        "insert into ferryman.queues (name, tenant, weight, concurrency, paused_at)"
        " values ('default', '*', 3, null, null), ('slow', '*', 1, 5, null), ('slow', 'acme', 1, null, now()),"
        " ('other', '*', 1, 1, null);"
        "insert into ferryman.paused_names values ('mail')"
    )

    rows = await store.lanes(given, {"default": "", "slow": ""}, limit=10)

    told = sorted(
        (row["kind"], row["queue"], row["tenant"], row["weight"], row["open"], row["paused"]) for row in rows[:-1]
    )
    assert told == [
        ("queue", "default", "*", 3, True, False), ("queue", "slow", "*", 1, False, False),
        ("queue", "slow", "acme", 1, False, True),
    ]  # fmt: skip
    assert (rows[-1]["kind"], rows[-1]["queue"]) == ("name", "mail")


async def lanes(tx: Session, afters: dict[str, str], *, limit: int = 10) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["queue"], row["tenant"]) for row in await store.lanes(tx, afters, limit=limit)]


@pytest.mark.contract("K6")
async def test_the_owed_are_those_who_carry_a_callback_among_those_asked_for(given: Session) -> None:
    owing = await plant(given, TASK, READY, callback="tool", callback_ref="7")
    free = await plant(given, TASK, READY)
    await plant(given, TASK, READY, callback="tool", callback_ref="8")

    assert await store.callbacks(given, [owing, free]) == [("tool", "7")]


@pytest.mark.contract("K12")
async def test_callbacks_are_those_of_one_tenant_or_of_all(given: Session) -> None:
    ours = await plant(given, TASK, READY, tenant="acme", callback="tool", callback_ref="7")
    theirs = await plant(given, TASK, READY, tenant="zeta", callback="tool", callback_ref="8")

    assert await store.callbacks(given, [ours, theirs], tenant="acme") == [("tool", "7")]
    assert await store.callbacks(given, [ours, theirs]) == [("tool", "7"), ("tool", "8")]


@pytest.mark.contract("K12", "T14")
async def test_the_reason_of_a_cancel_is_read_from_its_own_event(given: Session) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING])
    other = await plant(given, TASK, READY)
    await store.settle(given, [outcome(task, READY)])
    await store.cancel(given, [task], reason="not wanted")
    await store.cancel(given, [other], reason="nor this")

    assert await store.reasons(given, [task], tenant="default") == {task: "not wanted"}
    assert await store.reasons(given, [task], tenant="acme") == {}


# What handlers say


@pytest.mark.contract("T18", "K4")
@pytest.mark.parametrize("held", [{}, {"epoch": 8}, {"epoch": 6}], ids=str)
async def test_only_the_present_holder_reports_progress(given: Session, held: dict[str, Any]) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | held)
    await plant(given, TASK, RUNNING, **SOUND[RUNNING])

    written = await store.report(given, [(task, EPOCH, 40, "half")])

    assert written == (set() if held else {task})


@pytest.mark.contract("T18", "K4")
async def test_the_latest_word_is_kept_also_when_it_comes_after_the_outcome(given: Session) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING])
    await store.report(given, [(task, EPOCH, 40, "half")])
    await store.report(given, [(task, EPOCH, 80, None)])
    await store.settle(given, [outcome(task, SUCCEEDED)])

    assert await store.report(given, [(task, EPOCH, 100, "all")]) == {task}

    [row] = await store.progress(given, [task], tenant="default")
    assert (row["percent"], row["message"], row["state"]) == (100, "all", SUCCEEDED)
    assert await store.progress(given, [task], tenant="acme") == []


@pytest.mark.contract("T18", "K4")
@pytest.mark.parametrize("held", [{}, {"epoch": 8}, {"epoch": 6}], ids=str)
async def test_only_the_present_holder_adds_to_the_log(given: Session, held: dict[str, Any]) -> None:
    task = await plant(given, TASK, RUNNING, **SOUND[RUNNING] | held)

    written = await store.append_log(
        given, [(task, EPOCH, 1, "info", "one"), (UUID(int=1), EPOCH, 1, "info", "of nobody")]
    )

    assert written == (0 if held else 1)
    assert len(await store.read_log(given, task, tenant="default", after=0, limit=10)) == written


@pytest.mark.contract("T18", "K12")
async def test_a_log_is_read_in_order_by_its_own_tenant(given: Session) -> None:
    task, other = [await plant(given, TASK, RUNNING, tenant="acme", epoch=EPOCH) for _ in range(2)]
    said = [(task, "info", "one"), (other, "info", "no"), (task, "error", "two")]
    await store.append_log(given, [(id, EPOCH, 1, level, message) for id, level, message in said])

    lines = await store.read_log(given, task, tenant="acme", after=0, limit=10)

    assert [line["message"] for line in lines] == ["one", "two"]
    assert [
        line["message"] for line in await store.read_log(given, task, tenant="acme", after=lines[0]["id"], limit=9)
    ] == ["two"]
    assert len(await store.read_log(given, task, tenant="acme", after=0, limit=1)) == 1
    assert await store.read_log(given, task, tenant="default", after=0, limit=10) == []


@pytest.mark.contract("K19")
@pytest.mark.parametrize("count", [store.depth, store.queues])
async def test_the_depth_counts_what_is_live(given: Session, count: Any) -> None:
    await plant(given, TASK, SUCCEEDED)
    await plant(given, TASK, READY)
    await plant(given, TASK, RUNNING, queue="slow")

    rows = await count(given)

    assert sorted((row["queue"], row["state"], row["count"]) for row in rows) == [
        ("default", "ready", 1), ("slow", "running", 1),
    ]  # fmt: skip


@pytest.mark.contract("K5")
async def test_a_worker_that_goes_takes_the_long_dead_with_it(given: Session) -> None:
    living, going, dead = ids.boot_id(), ids.boot_id(), ids.boot_id()
    for boot, lease in ((living, SECOND * 30), (going, SECOND * 30), (dead, -DAY * 2)):
        await store.beat(
            given,
            boot_id=boot,
            host="h",
            pid=1,
            version="0",
            queues=["default"],
            handlers=[],
            settings="{}",
            lease=lease,
        )

    await store.leave(given, going)

    assert [row["boot_id"] for row in await given.fetch("select boot_id from ferryman.workers")] == [living]


@pytest.mark.contract("K23")
async def test_orphans_are_what_waits_for_a_handler_that_no_living_worker_has(given: Session) -> None:
    for handlers, lease in ((["mail"], SECOND * 30), (["fax"], -SECOND)):
        await store.beat(
            given, boot_id=ids.boot_id(), host="h", pid=1, version="0", queues=["default"], handlers=handlers,
            settings="{}", lease=lease,
        )  # fmt: skip
    await plant(given, TASK, READY, name="mail")
    await plant(given, TASK, READY, name="fax", due_at=-SECOND)
    await plant(given, TASK, READY, name="mail", queue="slow", due_at=-HOUR * 5)
    await plant(given, TASK, READY, name="zip", due_at=-HOUR * 9)
    await plant(given, TASK, READY, name="bag", due_at=-HOUR * 3)
    await plant(given, TASK, RUNNING, name="fax")
    await plant(given, TASK, SUCCEEDED, name="fax")

    found = await read.orphans(given)

    assert [(each.queue, each.name, each.count, each.queue_served) for each in found] == [
        ("default", "zip", 1, True), ("slow", "mail", 1, False), ("default", "bag", 1, True), ("default", "fax", 1, True),
    ]  # fmt: skip


@pytest.mark.contract("K23", "K12")
async def test_a_worker_of_one_tenant_leaves_the_tasks_of_others_orphans(given: Session) -> None:
    await store.beat(
        given, tenant="other", boot_id=ids.boot_id(), host="h", pid=1, version="0", queues=["default"],
        handlers=["mail"], settings="{}", lease=SECOND * 30,
    )  # fmt: skip
    await plant(given, TASK, READY, name="mail", tenant="other")
    served = await read.orphans(given)
    await plant(given, TASK, READY, name="mail", tenant="third", due_at=SECOND)
    await plant(given, TASK, READY, name="mail", tenant="fourth")

    assert served == []
    [found] = await read.orphans(given)
    assert (found.queue, found.name, found.count, found.queue_served) == ("default", "mail", 2, False)


@pytest.mark.contract("K19")
async def test_workers_are_listed_from_their_start_and_forgotten_a_day_after_their_last_word(given: Session) -> None:
    first, second, dead = (ids.boot_id() for _ in range(3))
    for boot, lease in ((second, SECOND), (first, SECOND), (dead, -DAY * 2)):
        await store.beat(
            given,
            boot_id=boot,
            host="h",
            pid=1,
            version="0",
            queues=["default"],
            handlers=[],
            settings="{}",
            lease=lease,
        )
    await given.fetch(
        "update ferryman.workers set started_at = started_at - interval '1 hour' where boot_id = $1", first
    )

    assert [each.boot_id for each in await read.workers(given)] == [first, second]


@pytest.mark.contract("K19")
async def test_people_are_told_how_much_is_live_in_each_queue(given: Session) -> None:
    await plant(given, TASK, SUCCEEDED)
    for queue in ("slow", "default", "quick", "slow"):
        await plant(given, TASK, READY, queue=queue, due_at=-SECOND * 60)
    await plant(given, TASK, RUNNING, queue="default")

    found = await read.depth(given)

    assert [(each.queue, each.state, each.count) for each in found] == [
        ("default", "ready", 1), ("default", "running", 1), ("quick", "ready", 1), ("slow", "ready", 2),
    ]  # fmt: skip
    assert found[0].oldest_seconds >= 60


@pytest.mark.contract("K4", "K12")
async def test_a_claim_is_known_by_its_task_tenant_owner_and_epoch(given: Session) -> None:
    task = await plant(given, TASK, RUNNING, tenant="acme")
    await plant(given, TASK, RUNNING, tenant="acme", task_id="another")
    [row] = await given.fetch("select lease_owner, epoch from ferryman.tasks where id = $1", task)
    owner, epoch = row["lease_owner"], row["epoch"]

    async def told(**asked: Any) -> tuple[bool, bool] | None:
        found = await store.claim(given, task, **{"tenant": "acme", "owner": owner, "epoch": epoch, **asked})
        return None if found is None else found[2:]

    assert await told() == (True, True)
    assert await told(tenant="default") is None
    assert await told(owner=ids.boot_id()) == (True, False)
    assert await told(epoch=epoch + 1) == (False, False)
    await given.fetch(
        "update ferryman.tasks set state = 'succeeded', lease_owner = null, leased_until = null, finished_at = now()"
        " where id = $1",
        task,
    )
    assert await told() == (True, False)


@pytest.mark.contract("K17")
async def test_a_worker_is_read_by_its_boot_id(given: Session) -> None:
    first, second = ids.boot_id(), ids.boot_id()
    for boot, tenant in ((first, "acme"), (second, None)):
        await store.beat(
            given, boot_id=boot, tenant=tenant, host="h", pid=1, version="0", queues=["q"], handlers=["mail"], settings="{}",
            lease=SECOND,
        )  # fmt: skip

    found = [await store.worker(given, boot) for boot in (first, second, ids.boot_id())]

    assert [row and (row["boot_id"], row["tenant"]) for row in found] == [(first, "acme"), (second, None), None]


@pytest.mark.contract("K24", "K12")
async def test_only_what_a_tenant_has_just_cancelled_is_told_of_a_lost_cancel(given: Session) -> None:
    just = await plant(given, TASK, CANCELLED, finished_at=-SECOND)
    others = [
        await plant(given, TASK, CANCELLED, finished_at=-HOUR),
        await plant(given, TASK, SUCCEEDED, finished_at=-SECOND),
        await plant(given, TASK, CANCELLED, finished_at=-SECOND, tenant="acme"),
    ]
    await plant(given, TASK, CANCELLED, finished_at=-SECOND)  # nobody asks about it

    found = await cancel.since(given, [just, *others], tenant="default", began=time.monotonic() - 60)

    assert found == [just]
