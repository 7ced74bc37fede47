"""Plans are kept for their time, and then leave with all that came of them; cursors stand where they stood (T20, I11)."""

from datetime import timedelta

import pytest

from ferryman.ingest import watch
from ferryman.kernel import watchdog
from ferryman.kernel.pool import Line
from tests.ingest.harbour import DAWN, HOUR, Harbour, Server, harbour

MONTH = timedelta(days=30)
TABLES = ("schedule_instance", "plan", "slice", "task", "run", "batch", "quarantine")


async def walk(here: Harbour, url: str) -> int:
    line = Line(url)
    await here.fetch("update ferryman.retention set next_at = '-infinity'")
    try:
        return (await watchdog.tick(line, [watch.retention(kept=MONTH)])).acted()
    finally:
        await line.close()


async def left(here: Harbour) -> dict[str, int]:
    counts = {name: (await here.fetch(f"select count(*) from ferryman.ingest_{name}"))[0][0] for name in TABLES}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.contract("T20", "I11", "I12")
async def test_a_plan_leaves_whole_and_the_moves_of_its_cursor_stay(database_url: str) -> None:
    server = Server().fill(120)
    server.records[3]["value"] = None  # put aside
    async with harbour(database_url, server) as here:
        await here.plan(since=DAWN, until=DAWN + 2 * HOUR)
        await here.ship().work()
        cursor, moves = await here.cursor(), await here.fetch("select id from ferryman.ingest_cursor_event")
        assert len(await left(here)) == len(TABLES)
        await here.travel(timedelta(days=29))
        early = await walk(here, database_url)
        await here.travel(timedelta(days=2))

        assert (early, await walk(here, database_url)) == (0, 1)

        assert await left(here) == {}
        assert await here.fetch("select id from ferryman.ingest_cursor_event") == moves != []
        assert await here.cursor() == cursor == DAWN + 2 * HOUR
        await here.sound()
        # A harvest goes on from there.
        server.fill(60, since=DAWN + 2 * HOUR)
        await here.plan(until=DAWN + 3 * HOUR)
        await here.ship().work()
        assert await here.cursor() == DAWN + 3 * HOUR


@pytest.mark.contract("T20", "I11")
async def test_what_lies_before_a_gap_or_is_live_stays(database_url: str) -> None:
    async with harbour(database_url, Server().fill(180)) as here:
        await here.plan(since=DAWN, until=DAWN + 3 * HOUR)
        # The first hour fails for good, so the cursor stays; the others are done, and must still be known when it is mended.
        ship = here.ship()
        first = (await here.fetch("select id from ferryman.ingest_task order by rank, id limit 1"))[0][0]
        await here.fetch(
            "update ferryman.ingest_task set status = 'CANCELLED', rank = null, finished_at = ferryman.clock() where id = $1",
            first,
        )
        await ship.work()
        await here.plan(since=DAWN, until=DAWN + HOUR, operation="UPDATE", campaign="live")
        await here.travel(timedelta(days=31))

        assert await walk(here, database_url) == 0
        assert (await left(here))["plan"] == 2
        assert await here.cursor() == DAWN
