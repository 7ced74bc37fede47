"""Each invariant of ingestion notices what it is there for: a check that cannot fail shows nothing (K23)."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from ferryman.ingest import watch
from ferryman.kernel import faults, invariants
from tests.agents.test_invariants import UNBOUND, Undo
from tests.ingest.harbour import DAWN, HOUR, SOURCE, Server, harbour

pytestmark = pytest.mark.usefixtures("patient_transactions")

# Of three slices the first is fetched, of the second a page is in hand, and nobody has begun the third.
PLANTED = {
    "cursor_chain_is_whole": [
        "update ferryman.ingest_cursor_event set prev_position = 7"
        " where seq = (select max(seq) from ferryman.ingest_cursor_event)",
    ],
    "cursor_covers_nothing_open": [
        "update ferryman.ingest_slice set covered = lower",
        # Where a plan was forgotten, at the places where the cursor came to stand.
        "with gone as (update ferryman.ingest_cursor_event set plan_id = gen_random_uuid() where kind = 'begin')"
        " update ferryman.ingest_slice set covered = lower",
        # Past the second slice, which is open, because the third is fetched.
        "with last as (update ferryman.ingest_slice set covered = upper where slice_no = 3 returning cursor_id, plan_id, upper)"
        ", said as (insert into ferryman.ingest_cursor_event (id, cursor_id, at, prev_position, new_position, plan_id, tenant,"
        " kind, idempotent_key) select gen_random_uuid(), cursor.id, now(), cursor.position, last.upper, last.plan_id,"
        " cursor.tenant, 'forward', 'jump' from last join ferryman.ingest_cursor as cursor on cursor.id = last.cursor_id"
        " returning id, cursor_id, new_position)"
        " update ferryman.ingest_cursor as cursor set position = said.new_position, last_event = said.id from said"
        " where cursor.id = said.cursor_id",
    ],
    "cursor_is_its_last_move": [
        "update ferryman.ingest_cursor set position = position + 1",
        "update ferryman.ingest_cursor set last_event = gen_random_uuid()",
    ],
    "ingest_and_log_agree": [
        "update ferryman.ingest_plan set status = 'PARTIAL'",
        "update ferryman.ingest_slice set status = 'FAILED' where slice_no = 1",
        "update ferryman.ingest_task set status = 'FAILED' where status = 'SUCCEEDED'",
        "update ferryman.ingest_run set status = 'FAILED' where status = 'SUCCEEDED'",
        "update ferryman.ingest_batch set status = 'FAILED' where status = 'SUCCEEDED'",
    ],
    "leased_is_running": [
        "update ferryman.ingest_run set leased_until = null",
        "update ferryman.ingest_task set leased_until = null",
        "update ferryman.ingest_run set epoch = epoch + 1 where leased_until is not null",
    ],
    "one_page_per_position": ["update ferryman.ingest_batch set before_token = 'start' where status = 'SUCCEEDED'"],
    "open_batches_run": ["update ferryman.ingest_run set status = 'FAILED' where status = 'RUNNING'"],
    "ready_slices_have_tasks": [
        "delete from ferryman.ingest_task where status = 'QUEUED'",
        "update ferryman.ingest_slice set status = 'DERIVED'",
    ],
    "work_has_one_tenant": [
        "update ferryman.ingest_plan set tenant = 'other'",
        "update ferryman.ingest_slice set tenant = 'other'",
    ],
}
# One position may succeed once: an index says so too.
UNIQUE = """
do $$
declare
    made record;
begin
    for made in
        select indexrelid::regclass as place from pg_index
        where indrelid = 'ferryman.ingest_batch'::regclass and indisunique and not indisprimary
          and not exists (select from pg_constraint where conindid = indexrelid)
    loop
        execute format('drop index %s', made.place);
    end loop;
end $$
"""


def test_every_invariant_of_ingestion_has_its_fault() -> None:
    assert set(PLANTED) == {each.name for each in watch.INGEST_INVARIANTS}


@pytest.mark.contract("K23", "I13")
async def test_each_invariant_of_ingestion_finds_what_it_is_for(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        await here.plan(source=SOURCE, since=DAWN, until=DAWN + 3 * HOUR)
        ship = here.ship()
        await ship.work(1)
        [claimed] = await ship.claim()
        gate = faults.Gate()
        with faults.armed({"ingest.fetched": gate}):
            running = asyncio.create_task(ship.runner.run(claimed))
            await gate.reached.wait()
            await here.sound()

            for name, planted in PLANTED.items():
                for fault in planted:
                    with suppress(Undo):
                        async with here.app.database.transaction() as tx:
                            await tx.fetch("select set_config('session_replication_role', 'replica', true)")
                            await tx.fetch(UNBOUND)
                            await tx.fetch(UNIQUE)
                            await tx.fetch(fault)
                            broken = {each.name for each in await invariants.check(tx, watch.INGEST_INVARIANTS)}
                            assert name in broken, fault
                            raise Undo
            gate.open()
            await ship.settle(await running)
        await here.sound()


@pytest.mark.contract("K21", "K23", "W15", "I3", "I5")
async def test_what_no_rule_has_ended_in_time_is_overdue(database_url: str) -> None:
    """A slice without a task, a task in line, and one in hand, with its run and its page."""
    async with harbour(database_url, Server().fill(180), settings={"queued_max": 2}) as here:
        await here.plan(source=SOURCE, since=DAWN, until=DAWN + 3 * HOUR)
        ship = here.ship(queued_max=2)
        [claimed] = await ship.claim()
        gate = faults.Gate()
        with faults.armed({"ingest.fetched": gate}):
            running = asyncio.create_task(ship.runner.run(claimed))
            await gate.reached.wait()
            await here.sound()

            await here.travel(timedelta(days=40))
            # A machine that froze during the test is an outage to the watchdog, and after one nothing is late for a while.
            await here.fetch("update ferryman.watchdog set grace_until = '-infinity'")
            async with here.app.database.session() as tx:
                [broken] = await invariants.check(tx, invariants.KERNEL_INVARIANTS)
            gate.open()
            assert await running is None  # its lease is over

        assert broken.name == "nothing_is_overdue"
        assert sorted((row["domain"], row["rule"], row["state"]) for row in broken.rows) == [
            ("ingest_batch", "W15", "RUNNING"),
            ("ingest_run", "W15", "RUNNING"),
            ("ingest_slice", "I3", "PENDING"),
            ("ingest_task", "I5", "QUEUED"),
            ("ingest_task", "W15", "EXECUTING"),
        ]
        await here.tick()
        await here.sound()
