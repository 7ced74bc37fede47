"""`ferryman demo`."""

import signal

import psutil
import pytest

from ferryman.kernel.pool import Database
from tests.surfaces import ferry


def left_behind(url: str) -> list[psutil.Process]:
    """Find processes that work on this database and are no children of the test's."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FERRYMAN_DATABASE_URL") == url:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.contract("K17", "K4")
async def test_the_story_holds_and_leaves_nothing_behind(db: Database, database_url: str) -> None:
    ran = ferry.run("demo", "--json", url=database_url)

    assert ran.code == 0, ran.err
    assert ran.json["broken"] == []
    assert ran.json["healthy"] is True
    assert ran.json["states"] == {"cancelled": 1, "failed": 1, "succeeded": 10_007}
    assert ran.json["fenced"] >= 1
    assert ran.json["lost_leases"] == 2
    assert left_behind(database_url) == []
    async with db.session() as tx:
        schemas = await tx.fetch("select nspname from pg_namespace where nspname like 'ferryman_demo%'")
    assert list(schemas) == []


def test_a_story_that_is_interrupted_leaves_nothing_behind(database_url: str) -> None:
    with ferry.running("demo", url=database_url) as demo:
        ferry.read_until(demo.stdout, "worker processes are there")
        demo.send_signal(signal.SIGINT)

        assert demo.wait(ferry.PATIENCE_SECONDS) == 130

    assert left_behind(database_url) == []
