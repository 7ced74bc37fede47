"""What is a plan doing, a slice, a task, a run, a batch; why does it not run, what ends it? Every reason has its test (K22)."""

from typing import Any
from uuid import UUID

import pytest

from ferryman.kernel import ids
from ferryman.tasks import store
from ferryman.tasks.intake.explain import Explanation
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Harbour, Server, harbour, only
from tests.patience import PATIENCE_SECONDS

WATCHED = "update ferryman.watchdog set ticked_at = clock_timestamp() + ferryman.slack()"


async def write(here: Harbour, sql: str, *args: Any) -> None:
    """Plant a state past the guards."""
    async with here.app.database.transaction() as tx:
        await tx.fetch("select set_config('session_replication_role', 'replica', true)")
        await tx.fetch(sql, *args)


async def told(here: Harbour, id: UUID) -> Explanation:
    return await here.app.explain(id)


async def works(here: Harbour, *sources: str, boot_id: UUID | None = None) -> None:
    await write(here, "delete from ferryman.workers")
    async with here.app.database.session() as tx:
        await store.beat(
            tx, boot_id=boot_id or ids.boot_id(), host="ferry", pid=7, version="1", queues=["default"], handlers=[],
            settings=f'{{"sources": [{", ".join(sources)}]}}', lease=HOUR,
        )  # fmt: skip


async def waiting(here: Harbour) -> tuple[UUID, str]:
    """Plan two tasks, and give the one that comes first."""
    await write(here, WATCHED)
    await here.plan(since=DAWN, until=DAWN + 2 * HOUR)
    [(task, endpoint), *_] = await here.fetch("select id, endpoint from ferryman.ingest_task order by rank, id")
    return task, endpoint


@pytest.mark.contract("K22")
async def test_a_task_says_who_would_take_it(database_url: str) -> None:
    async with harbour(database_url) as here:
        task, endpoint = await waiting(here)
        nobody = await told(here, task)
        await works(here, '"other/place"')
        strangers = await told(here, task)
        await works(here, f'"{SOURCE}/{endpoint}"')
        known = await told(here, task)

        assert (nobody.domain, nobody.codes(), nobody.doing) == (
            "ingest_task", ["no_worker"], "It waits for an executor.",
        )  # fmt: skip
        assert strangers.codes() == ["source_unknown"]
        assert (known.codes(), known.reasons[0].about) == (["in_line"], {"ahead": 0, "workers": 1})
        assert known.ends is not None
        assert known.ends.rule == "I5"
        await write(here, "insert into ferryman.settings values ('ingest.partition_concurrency', '1')")
        other = only(await here.ship().claim())
        assert other.id == task
        rest = only(await here.fetch("select id from ferryman.ingest_task where rank is not null"))[0]
        assert (await told(here, rest)).codes() == ["partition_full"]


@pytest.mark.contract("K22", "I8", "I9")
async def test_a_task_says_what_keeps_its_source_from_being_asked(database_url: str) -> None:
    async with harbour(database_url) as here:
        task, endpoint = await waiting(here)
        await works(here, f'"{SOURCE}/{endpoint}"')
        shut = "now() + interval '1 h'"
        await write(here, f"update ferryman.ingest_task set scheduled_at = {shut}")
        later = await told(here, task)
        await write(here, "update ferryman.ingest_task set attempt = 1, error_code = 'LATE', error_reason = 'slow'")
        again = await told(here, task)
        await write(here, "update ferryman.ingest_task set scheduled_at = now()")
        await write(here, f"update ferryman.ingest_source set open_until = {shut}, failures = 3")
        broken = await told(here, task)
        await write(here, "update ferryman.ingest_source set open_until = null")
        await write(
            here,
            "insert into ferryman.ingest_gate (source, endpoint, top, floor, burst, rate, closed_until, quota_left,"
            f" quota_until) values ($1, $2, 10, 0.1, 1, 10, {shut}, 0, {shut})",
            SOURCE,
            endpoint,
        )
        gated = await told(here, task)

        assert later.codes() == ["not_due"]
        assert again.codes() == ["backing_off"]
        assert again.reasons[0].says.startswith("Run 1 ended with LATE; the next may begin at ")
        assert broken.codes() == ["breaker_open"]
        assert "after 3 failed requests in a row" in broken.reasons[0].says
        assert gated.codes() == ["gate_closed", "quota_spent", "in_line"]
        assert all(each.until is not None for each in (later.reasons[0], broken.reasons[0], *gated.reasons[:2]))


@pytest.mark.contract("K22")
async def test_what_runs_names_its_holder_and_what_has_ended_says_how(database_url: str) -> None:
    async with harbour(database_url, Server().fill(20)) as here:
        task, _ = await waiting(here)
        ship = here.ship()
        claimed = only(await ship.claim())
        run = only(await here.fetch("select id from ferryman.ingest_run"))[0]
        held, running = await told(here, task), await told(here, run)
        await works(here, boot_id=ship.owner)
        heard = await told(here, task)
        await ship.settle(await ship.runner.run(claimed))
        done = [await told(here, id) for id in (task, run)]
        batch = await told(here, only(await here.fetch("select id from ferryman.ingest_batch limit 1"))[0])

        assert (held.codes(), held.doing) == (["leased", "holder_silent"], "It runs, run 1.")
        assert (running.domain, running.codes()) == ("ingest_run", ["leased", "holder_silent"])
        assert (heard.codes(), heard.ends and heard.ends.rule) == (["leased"], "W15")
        assert [(each.codes(), each.state, each.ends) for each in done] == [(["ended"], "SUCCEEDED", None)] * 2
        assert (batch.domain, batch.codes(), batch.ends) == ("ingest_batch", ["ended"], None)
        await write(here, "update ferryman.ingest_task set status = 'PARTIAL' where id = $1", task)
        await write(here, "update ferryman.ingest_slice set resliced_by = array[$1::uuid] where id = $1", task)
        assert set((await told(here, task)).codes()) == {"undecided", "resliced", "ended"}


@pytest.mark.contract("K22", "I3")
async def test_a_plan_and_its_slices_say_what_they_wait_for(database_url: str) -> None:
    async with harbour(database_url, settings={"queued_max": 1}) as here:
        await write(here, WATCHED)
        await write(here, "insert into ferryman.settings values ('ingest.queued_max', '1')")
        plan = (await here.plan(since=DAWN, until=DAWN + 3 * HOUR)).id
        slice_ = only(await here.fetch("select id from ferryman.ingest_slice where status = 'PENDING' limit 1"))[0]
        assert plan is not None
        full, whole = await told(here, slice_), await told(here, plan)
        await write(here, "update ferryman.settings set value = '2' where name = 'ingest.queued_max'")
        room = await told(here, slice_)
        await write(
            here, "update ferryman.ingest_slice set status = 'FAILED', reason = 'too late' where id = $1", slice_
        )
        failed = await told(here, slice_)

        assert (full.domain, full.codes()) == ("ingest_slice", ["inventory_full"])
        assert full.ends is not None
        assert full.ends.rule == "I3"
        assert (whole.domain, whole.codes()) == ("ingest_plan", ["inventory_full", "waiting_for_task"])
        assert room.codes() == ["due"]
        assert (failed.codes(), failed.ends) == (["ended"], None)
        assert failed.reasons[0].says.endswith(": too late.")


@pytest.mark.contract("K22", "I16")
async def test_a_plan_that_is_over_says_what_was_fetched_and_what_to_do(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        await write(here, WATCHED)
        plan = (await here.plan(since=DAWN, until=DAWN + 3 * HOUR)).id
        assert plan is not None
        await here.ship().work()
        whole = await told(here, plan)
        second = only(await here.fetch("select id from ferryman.ingest_slice where slice_no = 2"))[0]
        gone = "update ferryman.ingest_slice set covered = null where id = $1"
        failed = "update ferryman.ingest_task set status = 'FAILED', error_reason = 'HTTP 410.' where slice_id = $1"
        for sql in (gone, failed):
            await write(here, sql, second)
        hole = await told(here, plan)
        await write(here, "update ferryman.ingest_plan set operation = 'UPDATE'")
        update = await told(here, plan)
        await write(here, "update ferryman.ingest_slice set resliced_by = array[id] where id = $1", second)
        resliced = await told(here, plan)
        await write(here, "delete from ferryman.ingest_task where slice_id = $1", second)
        await write(
            here,
            "update ferryman.ingest_slice set resliced_by = null, status = 'FAILED', reason = 'late' where id = $1",
            second,
        )
        taskless = await told(here, plan)
        await write(here, "delete from ferryman.ingest_slice")
        empty = await told(here, plan)

    assert whole.doing == "It was planned (READY) and is over: 3 of its 3 slices were fetched, all of its window."
    assert [(each.code, each.says) for each in whole.reasons] == [
        ("fetched", "Everything was fetched. There is nothing to do.")
    ]
    assert hole.doing.endswith("2 of its 3 slices were fetched, 66.6 % of its window.")
    assert hole.codes() == ["unfetched", "slice_failed"]
    assert hole.reasons[0].says.startswith("1 of its 3 slices were not fetched, and 66.6 % of its window was.")
    assert hole.reasons[0].says.endswith(
        f"The next harvest of {SOURCE} begins at the gap: plan it again, or wait for its schedule."
    )
    assert hole.reasons[1].says == f"Slice 2 ({second}) ended as FAILED: HTTP 410."
    assert update.reasons[0].says.endswith("Mend the cause and plan the same window again: it gets another try.")
    assert resliced.codes() == ["fetched"]
    assert resliced.reasons[0].says.startswith("Everything was fetched, after 1 of its slices had been cut smaller.")
    assert taskless.reasons[1].says == f"Slice 2 ({second}) never had a task: late."
    assert (empty.codes(), empty.doing) == (["empty"], "Nothing was made of it.")


@pytest.mark.contract("I16", "I10")
async def test_a_plan_is_not_over_before_the_planner_has_said_what_becomes_of_the_rest(database_url: str) -> None:
    """An end and the word about it are two transactions: who waits for the plan may look in between."""
    async with harbour(database_url, Server().fill(45)) as here:
        made = await here.plan(since=DAWN, until=DAWN + HOUR, params={"step_seconds": 3600})
        assert made.id is not None
        await here.ship().work()
        await write(here, "update ferryman.ingest_task set status = 'PARTIAL'")

        undecided = only(await here.app.ingest.status())
        explained = await told(here, made.id)
        with pytest.raises(TimeoutError):
            await here.app.ingest.wait(made.id, timeout=0.05)
        await write(here, "update ferryman.ingest_task set decision = 'none'")
        decided = await here.app.ingest.wait(made.id, timeout=PATIENCE_SECONDS)

    assert (undecided.over, undecided.undecided) == (False, 1)
    assert explained.codes() == ["waiting_for_task"]
    assert "have not ended" in explained.doing
    assert (decided.over, decided.undecided) == (True, 0)
