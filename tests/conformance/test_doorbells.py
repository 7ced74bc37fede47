"""K2, R8: one suite for every doorbell. It only saves waiting, and never gets in the caller's way."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from ferryman.kernel import doorbell_pg, errors
from ferryman.kernel.doorbell import MAX_HINTS, Doorbell, NoDoorbell
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from ferryman.kernel.pool import Database, Line
from ferryman.testing import Cluster, Doubled, Late, Lossy, NatsServer

PATIENCE_SECONDS = 15.0
NOWHERE = {
    "postgres": "postgresql://nobody@/nowhere?host=/nonexistent",
    "nats": "nats://127.0.0.1:1",
}

Make = Callable[..., Doorbell]


class Ear:
    """A listener that remembers, and can be waited for."""

    def __init__(self, bell: Doorbell, topic: str = "ready") -> None:
        self.heard: list[frozenset[str]] = []
        self._called = asyncio.Event()
        self.stop = bell.listen(topic, self._hear)

    def _hear(self, hints: frozenset[str]) -> None:
        self.heard.append(hints)
        self._called.set()

    @property
    def hints(self) -> set[str]:
        return {hint for hints in self.heard for hint in hints}

    async def until(self, come: Callable[["Ear"], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not come(self):
                self._called.clear()
                await self._called.wait()


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def schema() -> str:
    """A name that no other test rings under, so that all can share one database."""
    return f"test_{uuid4().hex}"


@pytest.fixture
def make(cluster: Cluster, nats: NatsServer, schema: str) -> Make:
    """Give doorbells by name, as many processes would have them: one object each."""

    def by_name(name: str, *, schema: str = schema) -> Doorbell:
        match name:
            case "postgres":
                return PostgresDoorbell(cluster.address("postgres"), schema=schema)
            case "nats":
                return NatsDoorbell(nats.url, schema=schema)
            case "none":
                return NoDoorbell()
            case "lossy":
                return Lossy(by_name("postgres", schema=schema), share=0.5, seed=7)
            case "doubled":
                return Doubled(by_name("postgres", schema=schema))
            case "late":
                return Late(by_name("postgres", schema=schema))
        raise LookupError(name)

    return by_name


@asynccontextmanager
async def opened(*bells: Doorbell) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for bell in bells:
            stack.push_async_callback(bell.close)
            await bell.open()
        yield


everyone = pytest.mark.parametrize("name", ["none", "postgres", "nats", "lossy", "doubled", "late"])
prompt = pytest.mark.parametrize("name", ["none", "postgres", "nats", "doubled"])
carrying = pytest.mark.parametrize("name", ["postgres", "nats", "doubled"])
wired = pytest.mark.parametrize("name", ["postgres", "nats"])


@pytest.mark.contract("K2", "R8")
@prompt
async def test_a_ring_reaches_the_listeners_of_its_own_process(make: Make, name: str) -> None:
    bell = make(name)
    async with opened(bell):
        ear, deaf = Ear(bell, "ready"), Ear(bell, "done")

        bell.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}
    assert deaf.heard == []


@pytest.mark.contract("K2", "R8")
@carrying
async def test_a_ring_reaches_another_process(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    async with opened(here, there):
        ear, deaf = Ear(there, "ready"), Ear(there, "done")

        here.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}
    assert deaf.heard == []


@pytest.mark.contract("K2", "R8")
@pytest.mark.parametrize("name", ["lossy", "late"])
async def test_rings_that_go_on_are_heard_in_the_end(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    async with opened(here, there):
        ear = Ear(there, "ready")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not ear.heard:
                here.ring("ready")
                await asyncio.sleep(0)


@pytest.mark.contract("K2", "R8")
async def test_none_carries_nothing_to_another_process(make: Make) -> None:
    here, there = make("none"), make("none")
    async with opened(here, there):
        near, far = Ear(here), Ear(there)

        here.ring("ready")
        await near.until(lambda ear: bool(ear.heard))

    assert far.heard == []


@pytest.mark.contract("K2")
@prompt
async def test_many_rings_in_one_turn_are_one_look(make: Make, name: str) -> None:
    bell = make(name)
    async with opened(bell):
        ear = Ear(bell)

        for number in range(1000):
            bell.ring("ready", [f"queue {number % 3}"])
        await ear.until(lambda ear: bool(ear.heard))

    looks = 2 if name == "doubled" else 1
    assert ear.heard == [frozenset({"queue 0", "queue 1", "queue 2"})] * looks


@pytest.mark.contract("K2")
@wired
async def test_rings_that_come_while_one_is_sent_travel_together(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    assert isinstance(here, PostgresDoorbell | NatsDoorbell)
    async with opened(here, there):
        ear = Ear(there)

        for number in range(500):
            here.ring("ready", [f"queue {number % 10}"])
            await asyncio.sleep(0)
        await ear.until(lambda ear: len(ear.hints) == 10)

    assert here.rung == 500
    assert here.sent < 250


@pytest.mark.contract("K2")
@carrying
async def test_too_many_hints_mean_everything(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    async with opened(here, there):
        near, far = Ear(here, "done"), Ear(there, "done")

        here.ring("done", [f"task {number}" for number in range(MAX_HINTS + 1)])
        await near.until(lambda ear: bool(ear.heard))
        await far.until(lambda ear: bool(ear.heard))

    assert set(near.heard) == set(far.heard) == {frozenset()}


@pytest.mark.contract("K2")
@carrying
async def test_hints_that_do_not_fit_are_left_out_and_the_ring_still_comes(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    async with opened(here, there):
        ear = Ear(there, "done")

        here.ring("done", [f"{number:02}" + "й" * 198 for number in range(MAX_HINTS)])
        await ear.until(lambda ear: bool(ear.heard))

    assert len(ear.heard[0]) in {0, MAX_HINTS}


@pytest.mark.contract("K2")
@prompt
async def test_a_ring_without_hints_widens_those_that_wait_with_it(make: Make, name: str) -> None:
    bell = make(name)
    async with opened(bell):
        ear = Ear(bell)

        bell.ring("ready", ["mail"])
        bell.ring("ready")
        bell.ring("ready", ["post"])
        await ear.until(lambda ear: bool(ear.heard))

    assert set(ear.heard) == {frozenset()}


@pytest.mark.contract("K2")
@everyone
async def test_ringing_a_doorbell_that_is_not_open_does_no_harm(make: Make, name: str) -> None:
    bell = make(name)

    bell.ring("ready", ["before"])
    await bell.open()
    await bell.close()
    bell.ring("ready", ["after"])
    await bell.close()


@pytest.mark.contract("K2")
@pytest.mark.parametrize("name", ["postgres", "nats"])
async def test_with_the_server_gone_ringing_neither_fails_nor_waits(name: str) -> None:
    bell = PostgresDoorbell(NOWHERE[name]) if name == "postgres" else NatsDoorbell(NOWHERE[name])
    async with asyncio.timeout(PATIENCE_SECONDS), opened(bell):
        ear = Ear(bell)

        for _ in range(1000):
            bell.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.heard == [frozenset({"mail"})]
    assert bell.sent == 0


@pytest.mark.contract("K2")
@prompt
async def test_a_ring_from_another_thread_is_heard(make: Make, name: str) -> None:
    bell = make(name)
    async with opened(bell):
        ear = Ear(bell)

        thread = threading.Thread(target=bell.ring, args=("ready", ["mail"]))
        thread.start()
        await ear.until(lambda ear: bool(ear.heard))
        thread.join()

    assert ear.hints == {"mail"}


@pytest.mark.contract("K2")
@prompt
async def test_a_listener_that_fails_keeps_nobody_from_hearing(
    make: Make, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_hints: frozenset[str]) -> None:
        raise ArithmeticError

    bell = make(name)
    async with opened(bell):
        bell.listen("ready", fail)
        ear = Ear(bell)

        bell.ring("ready")
        await ear.until(lambda ear: bool(ear.heard))

    assert "a listener of 'ready' failed" in caplog.text


@pytest.mark.contract("K2")
@everyone
async def test_who_stopped_listening_hears_nothing(make: Make, name: str) -> None:
    bell = make(name)
    async with opened(bell):
        gone = Ear(bell)
        stays = Ear(bell)
        gone.stop()
        gone.stop()

        async with asyncio.timeout(PATIENCE_SECONDS):
            while not stays.heard:
                bell.ring("ready")
                await asyncio.sleep(0)

    assert gone.heard == []


@pytest.mark.contract("K2")
@wired
async def test_two_products_do_not_meet(make: Make, schema: str, name: str) -> None:
    ours, ours_too = make(name), make(name)
    theirs, theirs_too = make(name, schema=f"{schema}_2"), make(name, schema=f"{schema}_2")
    async with opened(ours, ours_too, theirs, theirs_too):
        near, far = Ear(ours_too), Ear(theirs_too)

        # Each ring is heard before the next is sent: one that strayed would have come by then.
        theirs.ring("ready", ["theirs"])
        await far.until(lambda ear: bool(ear.heard))
        ours.ring("ready", ["ours"])
        await near.until(lambda ear: bool(ear.heard))
        theirs.ring("ready", ["theirs again"])
        await far.until(lambda ear: "theirs again" in ear.hints)

    assert near.hints == {"ours"}
    assert far.hints == {"theirs", "theirs again"}


@pytest.mark.contract("K2")
@wired
async def test_an_own_ring_does_not_come_back(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    async with opened(here, there):
        own, answer = Ear(here, "ready"), Ear(here, "done")
        there.listen("ready", lambda _hints: there.ring("done"))

        here.ring("ready")
        await answer.until(lambda ear: bool(ear.heard))

    assert len(own.heard) == 1


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


@pytest.mark.contract("R8")
async def test_a_lossy_doorbell_loses_its_share_and_the_same_for_one_seed() -> None:
    async def heard_with(seed: int) -> list[frozenset[str]]:
        bell = Lossy(NoDoorbell(), share=0.5, seed=seed)
        async with opened(bell):
            ear, witness = Ear(bell), Ear(bell.inner)
            for number in range(100):
                bell.ring("ready", [str(number)])
                await witness.until(lambda ear, number=number: len(ear.heard) > number)  # type: ignore[misc]
        return ear.heard

    first, again, other = await heard_with(1), await heard_with(1), await heard_with(2)

    assert first == again != other
    assert 30 < len(first) < 70


@pytest.mark.contract("R8")
async def test_a_late_doorbell_delivers_at_the_next_ring_or_when_released() -> None:
    bell = Late(NoDoorbell())
    async with opened(bell):
        ear, witness = Ear(bell), Ear(bell.inner)

        bell.ring("ready", ["first"])
        await witness.until(lambda ear: len(ear.heard) == 1)
        after_one = list(ear.heard)
        bell.ring("ready", ["second"])
        await witness.until(lambda ear: len(ear.heard) == 2)
        after_two = list(ear.heard)
        bell.release()

    assert after_one == []
    assert after_two == [frozenset({"first"})]
    assert ear.heard == [frozenset({"first"}), frozenset({"second"})]
