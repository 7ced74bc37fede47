"""K2, R8: one suite for every doorbell. It only saves waiting, and never gets in the caller's way."""

import asyncio
import threading

import pytest

from ferryman.kernel.doorbell import MAX_HINTS
from ferryman.kernel.doorbell_nats import NatsDoorbell
from ferryman.kernel.doorbell_pg import PostgresDoorbell
from tests.conformance.ear import NOWHERE, Ear, Make, opened
from tests.patience import PATIENCE_SECONDS

everyone = pytest.mark.parametrize("name", ["none", "postgres", "nats", "lossy", "doubled", "late"])
prompt = pytest.mark.parametrize("name", ["none", "postgres", "nats", "doubled"])
carrying = pytest.mark.parametrize("name", ["postgres", "nats", "doubled"])
wired = pytest.mark.parametrize("name", ["postgres", "nats"])


@pytest.mark.contract("K2", "R8")
@prompt
async def test_a_ring_reaches_the_listeners_of_its_own_process(make: Make, name: str) -> None:
    bell = make(name)
    ear, deaf = Ear(bell, "ready"), Ear(bell, "done")
    async with opened(bell):
        bell.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}
    assert deaf.heard == []


@pytest.mark.contract("K2", "R8")
@carrying
async def test_a_ring_reaches_another_process(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    ear, deaf = Ear(there, "ready"), Ear(there, "done")
    async with opened(here, there):
        here.ring("ready", ["mail"])
        await ear.until(lambda ear: bool(ear.heard))

    assert ear.hints == {"mail"}
    assert deaf.heard == []


@pytest.mark.contract("K2", "R8")
@pytest.mark.parametrize("name", ["lossy", "late"])
async def test_rings_that_go_on_are_heard_in_the_end(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    ear = Ear(there, "ready")
    async with opened(here, there):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not ear.heard:
                here.ring("ready")
                await asyncio.sleep(0)


@pytest.mark.contract("K2", "R8")
async def test_none_carries_nothing_to_another_process(make: Make) -> None:
    here, there = make("none"), make("none")
    near, far = Ear(here), Ear(there)
    async with opened(here, there):
        here.ring("ready")
        await near.until(lambda ear: bool(ear.heard))

    assert far.heard == []


@pytest.mark.contract("K2")
@prompt
async def test_many_rings_in_one_turn_are_one_look(make: Make, name: str) -> None:
    bell = make(name)
    ear = Ear(bell)
    async with opened(bell):
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
    ear = Ear(there)
    async with opened(here, there):
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
    near, far = Ear(here, "done"), Ear(there, "done")
    async with opened(here, there):
        here.ring("done", [f"task {number}" for number in range(MAX_HINTS + 1)])
        await near.until(lambda ear: bool(ear.heard))
        await far.until(lambda ear: bool(ear.heard))

    assert set(near.heard) == set(far.heard) == {frozenset()}


@pytest.mark.contract("K2")
@carrying
async def test_hints_that_do_not_fit_are_left_out_and_the_ring_still_comes(make: Make, name: str) -> None:
    here, there = make(name), make(name)
    ear = Ear(there, "done")
    async with opened(here, there):
        here.ring("done", [f"{number:02}" + "й" * 198 for number in range(MAX_HINTS)])
        await ear.until(lambda ear: bool(ear.heard))

    assert len(ear.heard[0]) in {0, MAX_HINTS}


@pytest.mark.contract("K2")
@prompt
async def test_a_ring_without_hints_widens_those_that_wait_with_it(make: Make, name: str) -> None:
    bell = make(name)
    ear = Ear(bell)
    async with opened(bell):
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
    ear = Ear(bell)
    async with opened(bell):
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
    gone = Ear(bell)
    stays = Ear(bell)
    async with opened(bell):
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
    near, far = Ear(ours_too), Ear(theirs_too)
    async with opened(ours, ours_too, theirs, theirs_too):
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
    own, answer = Ear(here, "ready"), Ear(here, "done")
    async with opened(here, there):
        there.listen("ready", lambda _hints: there.ring("done"))

        here.ring("ready")
        await answer.until(lambda ear: bool(ear.heard))

    assert len(own.heard) == 1
