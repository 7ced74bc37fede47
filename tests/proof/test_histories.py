"""K10, K24: every event of the history that is there in the end is delivered, whatever became of the servers.

docs/guide/restore.md says how each is done. Workers go on all the time, at one address; events go to a NATS stream, a webhook
and a consumer, and are counted by their identities. Events that are lost with a server had come out before.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from ferryman.kernel import migrate
from tests.crash import cargo, judge
from tests.crash.conftest import Launch
from tests.crash.yard import Ship
from tests.proof.conftest import Tell
from tests.proof.outlets import Outlets, outlets
from tests.proof.server import NEWER, OLDER, Server

WORKERS = 2
MORE = 80
Make = Callable[..., Server]


@pytest.fixture
def make(ground: Path) -> Iterator[Make]:
    """Make servers; those that run at the end are stopped."""
    made: list[Server] = []

    def server(name: str, **settings: str) -> Server:
        made.append(Server(ground, name, **settings))
        return made[-1]

    yield server
    for each in made:
        each.stop(signal.SIGQUIT)


class Load:
    """Workers and producers at one address."""

    def __init__(self, url: str, ship: Launch, folder: Path, out: Outlets) -> None:
        self._url, self._ship, self._out = url, ship, out
        self._folder = folder / "enough"
        self._folder.mkdir(exist_ok=True)
        self.workers = [ship(url).start(**out.terms()) for _ in range(WORKERS)]
        self.producers: list[Ship] = []

    async def more(self, count: int = MORE) -> None:
        """Wait until so many more creates were acknowledged."""
        if not self.producers or not self.producers[-1].alive():
            name = f"p{uuid4().hex[:8]}-"
            self._enough = self._folder / name
            self.producers.append(
                self._ship(self._url, role="producer", count=1, until=str(self._enough), prefix=name).start()
            )
        await self.producers[-1].seen("ok", count=len(self.producers[-1].lines("ok")) + count)

    async def end(self, url: str) -> None:
        """Create no more; wait until every task has ended and everything has come out."""
        self._enough.touch()
        await self.producers[-1].ended()
        await judge.all_ended(url)
        await self._out.caught_up(url)

    def acknowledged(self) -> set[str]:
        return {line["task"] for each in self.producers for line in each.lines("ok")}

    async def stop(self, url: str) -> None:
        """End everything, and stop the workers."""
        await self.end(url)
        for each in self.workers:
            each.signal(signal.SIGTERM)
            await each.ended()


@asynccontextmanager
async def loaded(server: Server, ship: Launch, folder: Path) -> AsyncIterator[tuple[Load, Outlets]]:
    """Put load on a new database of a server that runs."""
    await migrate.migrate(server.url)
    async with outlets(folder) as out:
        await out.begin(server.url)
        load = Load(server.url, ship, folder, out)
        await load.more()
        yield load, out


async def judged(url: str, load: Load, out: Outlets, tell: Tell, what: str) -> None:
    """Go on for a while, end, and count."""
    await load.more()
    await load.end(url)
    await out.delivered(url, tell, what)
    assert await cargo.broken(url) == []
    assert all(each.alive() for each in load.workers)


@pytest.mark.contract("K10", "K24")
async def test_a_dump_taken_under_load_is_restored(make: Make, ship: Launch, ground: Path, tell: Tell) -> None:
    first, second = make("first"), make("second")
    first.create()
    first.start()
    async with loaded(first, ship, ground) as (load, out):
        dump = first.folder("dump") / "ferryman.dump"
        await asyncio.to_thread(
            first.run, "pg_dump", "-h", first.sockets, "-U", "postgres", "-Fc", "-f", dump, "postgres"
        )
        await load.more()
        await load.end(first.url)
        first.stop(signal.SIGQUIT)

        # Where no worker finds it: one that meets half a schema ends.
        second.at("aside")
        second.create()
        second.start()
        await asyncio.to_thread(
            second.run, "pg_restore", "-h", second.sockets, "-U", "postgres", "-d", "postgres", "--exit-on-error", dump
        )
        second.stop()
        second.at("sockets")
        second.start()

        await judged(second.url, load, out, tell, "pg_dump and pg_restore")


@pytest.mark.contract("K10", "K24")
async def test_a_database_is_recovered_to_a_point_in_time(make: Make, ship: Launch, ground: Path, tell: Tell) -> None:
    first, second = make("first"), make("second")
    archive = first.folder("archive")
    first.configure(archive_mode="on", archive_command=f"cp %p {archive}/%f")
    first.create()
    first.start()
    async with loaded(first, ship, ground) as (load, out):
        await asyncio.to_thread(second.copy_of, first)
        await load.more()
        await judge.read(first.url, "select pg_create_restore_point('before')")
        await load.more()
        await load.end(first.url)
        await judge.read(first.url, "select pg_switch_wal()")
        first.stop()

        (second.data / "recovery.signal").touch()
        second.configure(
            restore_command=f"cp {archive}/%f %p", recovery_target_name="before", recovery_target_action="promote"
        )
        second.start()

        await judged(second.url, load, out, tell, "recovery to a point in time")


@pytest.mark.contract("K10", "K24")
async def test_an_asynchronous_standby_is_promoted(make: Make, ship: Launch, ground: Path, tell: Tell) -> None:
    first, second = make("first"), make("second")
    first.create()
    first.start()
    async with loaded(first, ship, ground) as (load, out):
        await asyncio.to_thread(second.copy_of, first)
        (second.data / "standby.signal").touch()
        with (second.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = 'host={first.sockets} user=postgres'\n")
        second.at("aside")
        second.start()
        await judge.nothing_of(
            first.url, "select where not exists (select from pg_stat_replication where state = 'streaming')"
        )
        await load.more()
        await judge.read(second.url, "alter system set primary_conninfo = ''")
        await judge.read(second.url, "select pg_reload_conf()")
        await judge.nothing_of(first.url, "select from pg_stat_replication")
        await load.more()  # the standby lacks this
        await load.end(first.url)
        first.stop(signal.SIGQUIT)

        await judge.read(second.url, "select pg_promote()")
        second.stop()
        second.at("sockets")
        second.start()

        await judged(second.url, load, out, tell, "an asynchronous standby promoted")


@pytest.mark.contract("K10", "K24")
async def test_a_database_is_switched_over_by_logical_replication(
    make: Make, ship: Launch, ground: Path, tell: Tell
) -> None:
    first, second = make("first", wal_level="logical"), make("second", sockets="others")
    for each in (first, second):
        each.create()
        each.start()
    async with loaded(first, ship, ground) as (load, out):
        schema = first.run("pg_dump", "-h", first.sockets, "-U", "postgres", "--schema-only", "postgres")
        second.run(
            "psql", "-h", second.sockets, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-q", "postgres", given=schema
        )
        await judge.read(
            first.url,
            "create publication ferryman for tables in schema ferryman with (publish_via_partition_root = true)",
        )
        await judge.read(
            second.url,
            f"create subscription ferryman connection 'host={first.sockets} user=postgres dbname=postgres'"
            " publication ferryman",
        )
        await judge.nothing_of(second.url, "select from pg_subscription_rel where srsubstate <> 'r'")
        await load.more()
        await load.stop(first.url)
        await judge.nothing_of(
            first.url,
            "select from pg_replication_slots where confirmed_flush_lsn < $1::text::pg_lsn",
            (await judge.read(first.url, "select pg_current_wal_lsn()::text as lsn"))[0]["lsn"],
        )
        await judge.read(second.url, "drop subscription ferryman")
        before = await judge.read(first.url, "select count(*) as n, max(id) as last from ferryman.events")
        first.stop()

        # Creates that come before the first worker get ids that are in use.
        made = await cargo.load(second.url, 20)
        behind = await judge.read(
            second.url, "select last_id, needed_id from ferryman.sequences where table_name = 'events'"
        )
        await out.consume(second.url)
        after = Load(second.url, ship, ground, out)
        await judged(second.url, after, out, tell, "a logical switch-over")

    [row] = await judge.read(
        second.url,
        "select count(*) filter (where id <= $1) as old, count(*) as n from ferryman.events",
        before[0]["last"],
    )
    assert behind[0]["last_id"] < behind[0]["needed_id"]
    assert row["old"] == before[0]["n"], "the old log is as it was"
    ended = await judge.read(second.url, "select id::text from ferryman.tasks where state = 'succeeded'")
    assert {each["id"] for each in ended} >= {*made, *load.acknowledged()}


@pytest.mark.contract("K10", "K24")
async def test_a_server_is_upgraded_in_place(make: Make, ship: Launch, ground: Path, tell: Tell) -> None:
    first, second = make("first", install=OLDER), make("second", install=NEWER)
    first.create()
    second.create()
    first.start()
    async with loaded(first, ship, ground) as (load, out):
        first.stop()
        await asyncio.to_thread(
            second.run, "pg_upgrade", "-b", first.programs, "-B", second.programs, "-d", first.data, "-D", second.data,
            "-U", "postgres", "-s", second.folder("upgrade"), cwd=second.folder("upgrade"),
        )  # fmt: skip
        second.start()

        await judged(second.url, load, out, tell, "pg_upgrade from 16 to 18")
