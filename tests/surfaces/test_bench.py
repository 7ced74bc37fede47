"""`ferryman bench`."""

import signal

import pytest

from ferryman.cli import boundary
from ferryman.kernel.pool import Database
from tests.patience import PATIENCE_SECONDS
from tests.surfaces import ferry


async def schemas(db: Database) -> list[str]:
    async with db.session() as tx:
        rows = await tx.fetch("select nspname::text from pg_namespace where nspname like 'ferryman_bench%'")
    return [row["nspname"] for row in rows]


@pytest.mark.contract("S3")
async def test_it_measures_in_a_schema_of_its_own_and_leaves_nothing(db: Database, database_url: str) -> None:
    ran = ferry.run("bench", "--tasks", "300", "--json", url=database_url)

    assert ran.code == 0, ran.err
    assert (ran.json["created"], ran.json["done"]) == (300, 300)
    assert min(ran.json[name] for name in ran.json) > 0
    assert "which is dropped at the end" in ran.err
    assert await schemas(db) == []
    async with db.session() as tx:
        assert list(await tx.fetch("select from ferryman.tasks")) == []


async def test_who_interrupts_it_finds_nothing_left(db: Database, database_url: str) -> None:
    with ferry.running("bench", "--tasks", "200000", url=database_url) as bench:
        ferry.read_until(bench.stderr, "creating")
        bench.send_signal(signal.SIGINT)

        assert bench.wait(PATIENCE_SECONDS) == 130

    assert await schemas(db) == []


@pytest.mark.parametrize("typed", ["0", "-5", "many", "99999999"])
def test_a_number_that_cannot_be_meant_is_refused(typed: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = boundary.run(["bench", f"--tasks={typed}"])

    said = capfd.readouterr()
    assert (code, said.out) == (2, "")
    assert "tasks" in said.err.lower()
