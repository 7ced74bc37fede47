"""K2, K24: what a doorbell does about a server that goes away, or that it cannot keep up with."""

import asyncio
import os
import signal
import socket
import sys
from functools import partialmethod
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client

from ferryman.kernel import doorbell_nats, doorbell_pg, errors
from ferryman.kernel.doorbell import Bundle
from ferryman.kernel.doorbell_nats import PREFIX, NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.pool import Database
from ferryman.testing import Cluster, NatsServer
from tests.conformance.ear import NOWHERE, Ear, Make, opened
from tests.conformance.forger import at_nats
from tests.patience import PATIENCE_SECONDS

MEBIBYTE = 1024 * 1024
# A server keeps 64 for a client that does not read; as many more may be on the wire.
MEBIBYTES_TO_BE_CUT = 128


@pytest.mark.contract("K2", "K24")
async def test_killed_connections_heal_and_every_listener_looks_once(database_url: str, db: Database) -> None:
    here, there = PostgresDoorbell(database_url), PostgresDoorbell(database_url)
    ready, done = Ear(there, "ready"), Ear(there, "done")
    async with opened(here, there):
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
        ready, done = Ear(there, "ready"), Ear(there, "done")
        async with opened(here, there):
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
    near, far = Ear(here), Ear(there)
    async with opened(here, there):
        server.start()
        await near.until(lambda ear: frozenset() in ear.heard)
        await far.until(lambda ear: frozenset() in ear.heard)
        here.ring("ready", ["mail"])
        await far.until(lambda ear: "mail" in ear.hints)
    server.stop()


@pytest.mark.contract("K2", "K24")
async def test_a_subscription_to_nats_that_falls_behind_drops_rings_and_every_listener_looks(
    nats: NatsServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client keeps half a million messages for whoever is slow; so many do not come before a test ends.
    monkeypatch.setattr(Client, "subscribe", partialmethod(Client.subscribe, pending_msgs_limit=1))
    bell = NatsDoorbell(nats.url, schema=schema)
    rung, unrung = Ear(bell, "ready"), Ear(bell, "done")
    async with opened(bell), at_nats(nats.url, schema) as other:
        await other.flood("ready", 1000)
        await unrung.until(lambda ear: bool(ear.heard))
        await other.ring("ready", "after")
        await rung.until(lambda ear: "after" in ear.hints)

    assert set(unrung.heard) == {frozenset()}
    assert 0 < len([each for each in rung.heard if each]) < 1000
    assert bell.healed == 0  # the connection was never lost


def overrun(url: str, schema: str) -> None:
    """Publish more than a server keeps for a client that does not read; then, when that one has been cut, ring."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_SECONDS) as wire:
        wire.sendall(b'CONNECT {"verbose": false}\r\n')
        for _ in range(MEBIBYTES_TO_BE_CUT):
            wire.sendall(f"PUB {PREFIX}.{schema}.nobody {MEBIBYTE}\r\n".encode() + bytes(MEBIBYTE) + b"\r\n")
        wire.sendall(f'PUB {PREFIX}.{schema}.ready 10\r\n["during"]\r\nPING\r\n'.encode())
        while b"PONG" not in wire.recv(4096):
            continue


@pytest.mark.contract("K2", "K24")
async def test_who_is_cut_by_nats_while_a_handler_blocks_the_loop_comes_back_and_every_listener_looks(
    nats: NatsServer, schema: str
) -> None:
    bell = NatsDoorbell(nats.url, schema=schema)
    ready, done = Ear(bell, "ready"), Ear(bell, "done")
    async with opened(bell), at_nats(nats.url, schema) as other:
        overrun(nats.url, schema)  # nothing else runs in this loop meanwhile

        await ready.until(lambda ear: frozenset() in ear.heard)
        await done.until(lambda ear: frozenset() in ear.heard)
        await other.ring("ready", "after")
        await ready.until(lambda ear: "after" in ear.hints)

    assert (bell.healed, done.heard) == (1, [frozenset()])
    assert ready.heard == [frozenset(), frozenset({"after"})]


class Impatient(NatsDoorbell):
    """Says when a ring was given up."""

    def __init__(self, url: str, *, schema: str) -> None:
        super().__init__(url, schema=schema)
        self.gave_up = asyncio.Event()

    async def _send(self, bundle: Bundle) -> None:
        try:
            await super()._send(bundle)
        except Exception:
            self.gave_up.set()
            raise


@pytest.mark.contract("K2", "K24")
async def test_an_answer_of_nats_that_comes_too_late_makes_nobody_deaf(
    tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doorbell_nats, "FLUSH_SECONDS", 0.2)
    with NatsServer(tmp_path) as server:
        bell = Impatient(server.url, schema=schema)
        ear = Ear(bell)
        async with opened(bell), at_nats(server.url, schema) as other:
            os.kill(server.pid, signal.SIGSTOP)
            bell.ring("ready", ["during"])
            await asyncio.wait_for(bell.gave_up.wait(), PATIENCE_SECONDS)
            os.kill(server.pid, signal.SIGCONT)

            await ear.until(lambda ear: frozenset() in ear.heard)
            await other.ring("ready", "after")
            await ear.until(lambda ear: "after" in ear.hints)

    assert "nats: encountered error" not in caplog.text


@pytest.mark.contract("K2", "K24")
async def test_a_doorbell_gives_up_a_connection_to_nats_that_takes_nothing_any_more(
    tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_nats, "FLUSH_SECONDS", 0.2)
    with NatsServer(tmp_path) as server:
        bell = Impatient(server.url, schema=schema)
        ear = Ear(bell)
        async with opened(bell):
            assert bell._client is not None
            wire = bell._client._transport._io_writer.transport  # type: ignore[union-attr]
            os.kill(server.pid, signal.SIGSTOP)
            try:
                wire.write(bytes(64 * MEBIBYTE))  # more than the buffers between it and us hold
                bell.ring("ready", ["during"])
                await asyncio.wait_for(bell.gave_up.wait(), PATIENCE_SECONDS)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not wire.is_closing() or wire.get_write_buffer_size():  # noqa: ASYNC110 - nothing tells of it
                        await asyncio.sleep(0.01)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await ear.until(lambda ear: frozenset() in ear.heard)


class Sending(NatsDoorbell):
    """Says when the answer to a ring is waited for, and when it has come."""

    def __init__(self, url: str, *, schema: str) -> None:
        super().__init__(url, schema=schema)
        self.flushing, self.went = asyncio.Event(), asyncio.Event()

    async def _send(self, bundle: Bundle) -> None:
        await super()._send(bundle)
        self.went.set()

    async def _connect(self) -> Client:
        client = await super()._connect()
        flush = client.flush

        async def begin(timeout: int = 10) -> None:
            if self._client is client:
                self.flushing.set()
            await flush(timeout)

        client.flush = begin  # type: ignore[method-assign]
        return client


@pytest.mark.contract("K2", "K24")
async def test_a_ring_under_way_when_its_client_ends_by_itself_is_rung_again(
    tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell_nats, "FLUSH_SECONDS", 10 * PATIENCE_SECONDS)
    with NatsServer(tmp_path) as server:
        bell = Sending(server.url, schema=schema)
        async with opened(bell):
            os.kill(server.pid, signal.SIGSTOP)
            bell.ring("ready", ["during"])
            await asyncio.wait_for(bell.flushing.wait(), PATIENCE_SECONDS)
            assert bell._client is not None
            await bell._client._close(Client.CLOSED)  # as it does at an error of the protocol
            os.kill(server.pid, signal.SIGCONT)

            await asyncio.wait_for(bell.went.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("K2", "K24")
async def test_a_connection_that_has_become_deaf_is_made_anew(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell_pg, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(doorbell_pg, "PROBE_TIMEOUT_SECONDS", 0.5)
    bell = make("postgres")
    assert isinstance(bell, PostgresDoorbell)
    ear = Ear(bell)
    async with opened(bell):
        await bell._listening.fetch("unlisten *")
        await ear.until(lambda ear: bool(ear.heard))

    assert bell.healed >= 1


@pytest.mark.contract("K2")
async def test_the_address_that_listens_may_differ_from_the_one_that_rings(cluster: Cluster, schema: str) -> None:
    address = cluster.address("postgres")
    here = PostgresDoorbell(address, listen_url=NOWHERE["postgres"], schema=schema)
    there = PostgresDoorbell(NOWHERE["postgres"], listen_url=address, schema=schema)
    ear = Ear(there)
    async with opened(here, there):
        here.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}


@pytest.mark.contract("K2")
async def test_a_process_listens_to_what_it_has_listeners_for(make: Make, schema: str) -> None:
    bell = make("postgres")
    assert isinstance(bell, PostgresDoorbell)
    Ear(bell, "done")
    async with opened(bell):
        channels = {row[0] for row in await bell._listening.fetch("select pg_listening_channels()")}

    assert channels == {f"{schema}_doorbell", f"{schema}_doorbell_done"}


@pytest.mark.contract("K2")
async def test_who_begins_to_listen_later_looks_once_and_hears_what_is_rung_then(make: Make) -> None:
    here, there = make("postgres"), make("postgres")
    async with opened(here, there):
        ear = Ear(there)
        await ear.until(lambda ear: bool(ear.heard))
        here.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.hints))

    assert ear.heard == [frozenset(), frozenset({"mail"})]


def test_a_long_schema_still_has_channels_of_its_own() -> None:
    names = {doorbell_pg.channel("s" * 60 + letter, topic) for letter in "ab" for topic in ("", "ready", "done")}

    assert len(names) == 6
    assert all(len(name) < 64 for name in names)


def test_nats_without_its_package_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(errors.SettingsInvalid, match="nats-py"):
        NatsDoorbell("nats://127.0.0.1:4222")
