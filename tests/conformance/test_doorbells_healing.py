"""K2, K24: what a doorbell does about a server that goes away, and about strangers on its wire."""

import sys
from pathlib import Path

import pytest

from ferryman.kernel import doorbell_pg, errors
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.testing import Cluster, NatsServer
from tests.conformance.ear import NOWHERE, Ear, Make, opened


@pytest.mark.contract("K2", "K24")
async def test_killed_connections_heal_and_every_listener_looks_once(database_url: str, db: Database) -> None:
    here, there = PostgresDoorbell(database_url), PostgresDoorbell(database_url)
    async with opened(here, there):
        ready, done = Ear(there, "ready"), Ear(there, "done")
        here.ring("ready", ["before"])
        await ready.until(lambda ear: ear.hints == {"before"})

        async with db.session() as session:
            await session.fetch(
                """select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""
            )
        await ready.until(lambda ear: frozenset() in ear.heard)
        await done.until(lambda ear: frozenset() in ear.heard)
        here.ring("ready", ["after"])
        await ready.until(lambda ear: "after" in ear.hints)

    assert there.healed == 1
    assert done.heard == [frozenset()]


@pytest.mark.contract("K2", "K24")
async def test_a_nats_server_that_comes_back_is_found_and_every_listener_looks_once(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        here, there = NatsDoorbell(server.url), NatsDoorbell(server.url)
        async with opened(here, there):
            ready, done = Ear(there, "ready"), Ear(there, "done")
            here.ring("ready", ["before"])
            await ready.until(lambda ear: ear.hints == {"before"})

            server.stop()
            here.ring("ready", ["during"])
            server.start()
            await done.until(lambda ear: frozenset() in ear.heard)
            here.ring("ready", ["after"])
            await ready.until(lambda ear: "after" in ear.hints)

    assert there.healed == 1


@pytest.mark.contract("K2", "K24")
async def test_a_nats_server_that_starts_late_is_found(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    url = server.start()
    server.stop()
    here, there = NatsDoorbell(url), NatsDoorbell(url)
    async with opened(here, there):
        near, far = Ear(here), Ear(there)

        server.start()
        await near.until(lambda ear: frozenset() in ear.heard)
        await far.until(lambda ear: frozenset() in ear.heard)
        here.ring("ready", ["mail"])
        await far.until(lambda ear: "mail" in ear.hints)
    server.stop()


@pytest.mark.contract("K2")
@pytest.mark.parametrize("text", ["", "look", "[1, 2]", "{}", '["someone", "ready", 5]', "null"])
async def test_a_payload_of_another_make_means_look_at_everything(
    cluster: Cluster, make: Make, schema: str, text: str
) -> None:
    bell = make("postgres")
    stranger = Line(cluster.address("postgres"))
    async with opened(bell):
        ear = Ear(bell)

        await stranger.fetch("select pg_notify($1, $2)", doorbell_pg.channel(schema), text)
        await ear.until(lambda ear: bool(ear.heard))
    await stranger.close()

    assert ear.heard == [frozenset()]


@pytest.mark.contract("K2", "K24")
async def test_a_connection_that_has_become_deaf_is_made_anew(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell_pg, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(doorbell_pg, "PROBE_TIMEOUT_SECONDS", 0.5)
    bell = make("postgres")
    assert isinstance(bell, PostgresDoorbell)
    async with opened(bell):
        ear = Ear(bell)

        await bell._listening.fetch("unlisten *")
        await ear.until(lambda ear: bool(ear.heard))

    assert bell.healed >= 1


@pytest.mark.contract("K2")
async def test_the_address_that_listens_may_differ_from_the_one_that_rings(cluster: Cluster, schema: str) -> None:
    address = cluster.address("postgres")
    here = PostgresDoorbell(address, listen_url=NOWHERE["postgres"], schema=schema)
    there = PostgresDoorbell(NOWHERE["postgres"], listen_url=address, schema=schema)
    async with opened(here, there):
        ear = Ear(there)

        here.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}


def test_a_long_schema_still_has_a_channel_of_its_own() -> None:
    names = {doorbell_pg.channel("s" * 60 + letter) for letter in "ab"}

    assert len(names) == 2
    assert all(len(name) < 64 for name in names)


def test_nats_without_its_package_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(errors.SettingsInvalid, match="nats-py"):
        NatsDoorbell("nats://127.0.0.1:4222")
