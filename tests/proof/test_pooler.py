"""K24: through a real PgBouncer in transaction mode, every server connection shared by all (chaos has it too: `--pooler`)."""

import asyncio
from pathlib import Path

import pytest

from chaos.pooler import Pooler
from ferryman import Ferryman
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.proof.conftest import Tell
from tests.surfaces import ferry


@pytest.mark.contract("K24", "K2")
async def test_everything_works_through_a_pooler_that_gives_each_transaction_another_server(
    database_url: str, ship: Launch, tmp_path: Path, tell: Tell
) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)  # the pooler of root runs as somebody else
    pooler = Pooler(tmp_path / "pooler")
    url = pooler.start(database_url)
    try:
        held = await cargo.load(url, 100, hold=0.02)
        ships = [ship(url).start(FERRYMAN_LISTEN_URL=database_url) for _ in range(2)]
        await ships[0].seen("start")
        async with Ferryman(url, listen_url=database_url) as app:
            app.declare("job", backoff=0.05)
            named = await asyncio.gather(
                *(app.tasks.create("job", {"key": f"n{n}"}, idempotency_key=f"n{n // 2}-{n % 2}") for n in range(40))
            )
            assert [await each.result(timeout=60) for each in named] == [f"n{n}" for n in range(40)]
        await judge.all_ended(database_url)
        doctor = await asyncio.to_thread(ferry.run, "doctor", "--json", url=url)
        servers = await judge.read(
            database_url,
            "select count(*) as n from pg_stat_activity where datname = current_database() and application_name = 'ferryman'",
        )
    finally:
        pooler.stop()

    lines = [line for each in ships for line in each.lines()]
    await judge.judge(database_url, [*held, *(str(each.id) for each in named)], lines)
    readings = {each["name"]: each for each in doctor.json["readings"]}
    assert readings["pooler"]["verdict"] == "note"
    assert all("Traceback" not in each.output() for each in ships)
    assert await cargo.broken(database_url) == []
    tell(f"PgBouncer: 140 tasks by two workers; {servers[0]['n']} connections of the pooler and ours")
