import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import psutil
import pytest

from ferryman.kernel import migrate
from ferryman.kernel.db import Row
from ferryman.kernel.pool import Database, Line, Session
from ferryman.testing import Cluster, NatsServer, travel
from ferryman.testing import cluster as lending

OWNER = """
import sys
from ferryman.testing import NatsServer
server = NatsServer(sys.argv[1])
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


DAYS = """
    select inhrelid::regclass::text from pg_inherits
    where inhparent = 'ferryman.events'::regclass and inhrelid <> 'ferryman.events_default'::regclass
"""


@pytest.mark.contract("K14")
async def test_time_moves_for_every_connection_at_once(db: Database) -> None:
    ahead = "select ferryman.clock() - clock_timestamp() > interval '899 seconds'"
    async with db.session() as one, db.session() as other:
        assert (await other.fetch(ahead))[0][0] is False

        await travel(one, timedelta(seconds=900))

        assert (await other.fetch(ahead))[0][0] is True


@pytest.mark.contract("K14")
async def test_the_clock_may_stand_in_an_index_condition(tx: Session) -> None:
    volatility = await tx.fetch("select provolatile::text from pg_proc where oid = 'ferryman.clock()'::regprocedure")

    assert volatility[0][0] == "s"


async def test_every_database_is_fresh(cluster: Cluster) -> None:
    async with cluster.database() as one, cluster.database() as other:
        assert one != other


@pytest.mark.contract("R9")
async def test_a_database_is_lent_by_one_copy_and_taken_back_by_one_drop(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long that takes is the machine's affair; what makes it milliseconds is that nothing is migrated and nothing asked."""
    said: list[str] = []

    class Heard(Line):
        async def fetch(self, query: str, /, *args: Any) -> Sequence[Row]:
            said.append(query)
            return await super().fetch(query, *args)

        async def execute(self, script: str) -> None:
            said.append(script)
            await super().execute(script)

    async def migrated(url: str, **_options: Any) -> None:
        said.append(f"migrate {url}")

    async with cluster.database():
        pass  # the first of a day makes the template
    monkeypatch.setattr(lending, "Line", Heard)
    monkeypatch.setattr(migrate, "migrate", migrated)

    async with cluster.database() as url:
        name = urlsplit(url).path[1:]

    assert said == [
        f"create database {name} template {cluster._templates[cluster.schema].name} strategy file_copy",
        f"drop database {name} with (force)",
    ]


async def test_a_database_that_is_lent_after_midnight_has_a_place_for_what_happens_today(cluster: Cluster) -> None:
    async with cluster.database():
        pass  # from a template, which is made to look like one of yesterday
    template = cluster._templates[cluster.schema]
    old = template._replace(day=datetime.now(UTC).date() - timedelta(days=1))
    cluster._templates[cluster.schema] = old
    yesterdays = Line(cluster.address(template.name))
    for row in await yesterdays.fetch(DAYS):
        await yesterdays.execute(f"drop table {row[0]}")
    await yesterdays.close()

    async with cluster.database() as url:
        line = Line(url)
        days = await line.fetch(DAYS)
        left = await line.fetch("select from pg_database where datname = $1", urlsplit(yesterdays.url).path[1:])
        await line.close()

    assert len(days) == 1
    assert left == []


@pytest.mark.contract("R9")
async def test_a_database_has_its_tables_in_the_schema_that_is_asked_for(cluster: Cluster) -> None:
    schemas = "select distinct table_schema from information_schema.tables where table_name = 'tasks'"
    found = []
    for schema in (None, "harbour", "harbour", None):
        async with cluster.database(schema=schema) as url:
            line = Line(url)
            found.append([row[0] for row in await line.fetch(schemas)])
            await line.close()

    assert found == [[cluster.schema], ["harbour"], ["harbour"], [cluster.schema]]


async def test_a_nats_server_answers_and_keeps_streams(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="log", subjects=["log.>"])
        await client.close()
        process = psutil.Process(server.pid)

    assert not process.is_running()


def test_a_nats_server_that_is_started_again_keeps_an_address_that_nobody_is_given_meanwhile(tmp_path: Path) -> None:
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
    with NatsServer(tmp_path) as server:
        first = server.url
        server.stop()
        again = server.start()

    assert again == first
    assert int(first.rpartition(":")[2]) < given


def test_a_killed_owner_takes_its_nats_server_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        server = psutil.Process(int(owner.stdout.readline()))
        owner.kill()

    server.wait(timeout=60.0)
