"""Natural batching: the first goes alone and at once, a crowd shares the next trip."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from ferryman.kernel import gather
from ferryman.kernel.gather import Again, Gather, Ways
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.contract("P2")


class Wire:
    """A way on which each set waits until it is let go."""

    def __init__(self) -> None:
        self.sets: list[list[int]] = []
        self.sent = asyncio.Event()
        self._gates: list[asyncio.Event] = []

    async def send(self, things: list[int]) -> Sequence[int | Exception]:
        gate = asyncio.Event()
        self.sets.append(things)
        self._gates.append(gate)
        self.sent.set()
        await gate.wait()
        return [ValueError(str(thing)) if thing < 0 else thing * 2 for thing in things]

    async def let_go(self) -> None:
        await self.sent.wait()
        self.sent.clear()
        self._gates[-1].set()


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def test_the_first_goes_alone_and_those_who_come_meanwhile_share_the_next_set(wire: Wire) -> None:
    gather = Gather(wire.send)
    first = asyncio.ensure_future(gather(1))
    await wire.sent.wait()
    others = [asyncio.ensure_future(gather(n)) for n in (2, 3, 4)]
    await asyncio.sleep(0)
    await wire.let_go()
    await wire.let_go()

    assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
    assert wire.sets == [[1], [2, 3, 4]]


async def test_what_goes_alone_may_have_a_way_of_its_own_and_is_drained_like_the_rest(wire: Wire) -> None:
    gone, back = asyncio.Event(), asyncio.Event()

    async def alone(thing: int) -> int | Exception:
        gone.set()
        await back.wait()
        return ValueError("no") if thing < 0 else thing * 3

    gather = Gather(wire.send, alone=alone)
    first = asyncio.ensure_future(gather(1))
    await gone.wait()
    second = asyncio.ensure_future(gather(2))
    drained = asyncio.ensure_future(gather.drain())
    await asyncio.sleep(0)
    too_soon = drained.done()
    back.set()
    await wire.let_go()
    await drained

    assert [await first, await second] == [3, 4]
    assert wire.sets == [[2]]
    assert not too_soon
    with pytest.raises(ValueError, match="no"):
        await gather(-1)
    assert await gather(5) == 15


async def test_a_set_is_bounded(wire: Wire) -> None:
    gather = Gather(wire.send, most=2)
    answers = [gather.put(n) for n in range(5)]
    for _ in range(3):
        await wire.let_go()

    assert await asyncio.gather(*answers) == [0, 2, 4, 6, 8]
    assert wire.sets == [[0, 1], [2, 3], [4]]


async def test_an_answer_that_is_an_error_is_raised_at_its_caller_alone(wire: Wire) -> None:
    gather = Gather(wire.send)
    answers = [gather.put(n) for n in (1, -2, 3)]
    await wire.let_go()

    told = await asyncio.gather(*answers, return_exceptions=True)

    assert (told[0], told[2]) == (2, 6)
    assert isinstance(told[1], ValueError)


async def test_a_set_that_fails_as_a_whole_fails_for_each_and_the_next_goes_on() -> None:
    broken = True

    async def send(things: list[int]) -> Sequence[int]:
        if broken:
            raise OSError("gone")
        return things

    gather = Gather(send)
    told = await asyncio.gather(gather.put(1), gather.put(2), return_exceptions=True)
    broken = False

    assert [type(error) for error in told] == [OSError, OSError]
    assert await gather(3) == 3


async def test_a_caller_who_went_away_takes_nothing_from_the_others(wire: Wire) -> None:
    gather = Gather(wire.send)
    gone, stays = gather.put(1), gather.put(2)
    await wire.sent.wait()
    gone.cancel()
    await wire.let_go()

    assert await stays == 4
    assert wire.sets == [[1, 2]]


@pytest.mark.parametrize("revocable", [False, True])
async def test_what_nobody_waits_for_any_more_is_not_sent_if_it_can_be_revoked(wire: Wire, revocable: bool) -> None:
    gather = Gather(wire.send, most=2, revocable=revocable)
    first = asyncio.ensure_future(gather(1))
    await wire.sent.wait()
    others = [asyncio.ensure_future(gather(n)) for n in range(2, 8)]
    await asyncio.sleep(0)
    for gone in others[:3]:  # a whole set, and one of the next
        gone.cancel()
    for _ in range(3 if revocable else 4):
        await wire.let_go()

    assert await asyncio.gather(first, *others[3:]) == [2, 10, 12, 14]
    assert wire.sets == ([[1], [5], [6, 7]] if revocable else [[1], [2, 3], [4, 5], [6, 7]])


async def test_a_lonely_caller_who_goes_away_leaves_the_way_to_those_behind(wire: Wire) -> None:
    gather = Gather(wire.send)
    gone = asyncio.ensure_future(gather(1))
    await wire.sent.wait()
    behind = asyncio.ensure_future(gather(2))
    await asyncio.sleep(0)
    wire.sent.clear()
    gone.cancel()
    await wire.let_go()

    assert await behind == 4
    assert wire.sets == [[1], [2]]


async def test_what_is_busy_goes_with_a_later_set_and_nobody_waits_for_it() -> None:
    sets: list[list[int]] = []
    busy = {1}

    async def send(things: list[int]) -> Sequence[int | Exception]:
        sets.append(things)
        return [Again() if thing in busy else thing for thing in things]

    gather = Gather(send)
    slow, quick = gather.put(1), gather.put(2)

    assert await quick == 2
    assert await gather(3) == 3
    alone = asyncio.ensure_future(gather(1))
    await asyncio.sleep(0)  # it goes, and is told to come again
    assert not slow.done()
    draining = asyncio.ensure_future(gather.drain())
    busy.clear()
    assert (await slow, await alone) == (1, 1)
    await draining
    assert sets[0] == [1, 2]
    assert [1] in sets


async def test_what_cannot_be_written_is_told_once_and_put_off_for_ever_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    sound = loop.call_later

    def call_later(delay: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
        pauses.append(delay)
        return sound(0, callback, *args, **more)

    async def send(things: list[int]) -> Sequence[int | Exception]:
        return [Again(ValueError("a page")) if len(pauses) < 7 else thing for thing in things]

    monkeypatch.setattr(loop, "call_later", call_later)
    assert await Gather(send).put(1) == 1

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert [record.levelname for record in caplog.records if "coming back" in record.message] == ["WARNING"]


@pytest.mark.contract("K25")
async def test_what_takes_long_in_vain_leaves_the_way_to_others_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    loop, now = asyncio.get_running_loop(), 0.0
    sound = loop.call_later

    def call_later(delay: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
        nonlocal now
        pauses.append(delay)
        now += delay
        return sound(0, callback, *args, **more)

    async def send(things: list[int]) -> Sequence[int | Exception]:
        nonlocal now
        now += 8.0
        return [Again(ValueError("too slow")) if thing == 1 and len(pauses) < 3 else thing for thing in things]

    monkeypatch.setattr(loop, "call_later", call_later)
    monkeypatch.setattr(gather, "time", SimpleNamespace(monotonic=lambda: now))
    made = Gather(send)

    assert [await each for each in [made.put(1), made.put(2)]] == [1, 2]

    assert pauses == [0.1, pytest.approx(8.0), pytest.approx(8.0)]


class Clock:
    """Time that passes for who sends, and for who waits when nothing else is to be done."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> SimpleNamespace:
        self._due.append((self.now + delay, callback))
        return SimpleNamespace(cancel=lambda: None)

    async def timed(self, waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
        """Wait in vain."""
        waiting.close()
        until = self.now + seconds
        while any(at <= until for at, _ in self._due):
            self.go_on()
        self.now = max(self.now, until)
        raise TimeoutError

    def go_on(self) -> None:
        """Go on to what is due next."""
        at, callback = min(self._due, key=lambda each: each[0])
        self._due.remove((at, callback))
        self.now = max(self.now, at)
        callback()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(gather, "time", clock)
    monkeypatch.setattr(gather, "timed", clock.timed)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", clock.call_later)
    return clock


@pytest.mark.contract("K25")
async def test_several_that_take_long_in_vain_leave_the_way_to_others_between_them(clock: Clock) -> None:
    """Each rests for as long as it took; if another went meanwhile, all of them together would have the whole way."""
    took, slow = 8.0, {1, 2, 3}
    sent: list[float] = []

    async def send(things: list[int]) -> Sequence[int | Exception]:
        if slow.issuperset(things):
            sent.append(clock.now)
            clock.now += took
        return [Again(ValueError("too slow")) if thing in slow else thing for thing in things]

    made = Gather(send)
    late = [made.put(n) for n in (*slow, 4)]
    assert await late.pop() == 4
    while len(sent) < 7:
        if made.idle:
            clock.go_on()
        await asyncio.sleep(0)

    gaps = [later - earlier - took for earlier, later in pairwise(sent)]
    assert gaps == [pytest.approx(took)] * 6


@pytest.mark.contract("K25")
async def test_while_what_is_late_rests_who_comes_goes_at_once_and_who_leaves_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "LATER_SECONDS", 0.0)

    async def send(things: list[int]) -> Sequence[int | Exception]:
        return [Again(ValueError("too slow")) if thing == 1 else thing for thing in things]

    made = Gather(send)
    made._late_at = time.monotonic() + 3600
    late = made.put(1)
    while not made._late:  # noqa: ASYNC110 - until its own pause is over
        await asyncio.sleep(0)

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await made.put(2) == 2
        late.cancel()
        await made.drain()


@pytest.mark.contract("K25")
async def test_what_could_not_be_written_is_tried_alone_and_after_those_who_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each set that it is part of may have to wait for it, and to be halved."""
    monkeypatch.setattr(gather, "LATER_SECONDS", 0.0)
    monkeypatch.setattr(gather, "SOON_SECONDS", 0.0)
    sets: list[list[int]] = []
    stuck, gone = {1, 2}, asyncio.Event()

    async def send(things: list[int]) -> Sequence[int | Exception]:
        sets.append(things)
        await gone.wait()
        return [Again(ValueError("a page")) if thing in stuck else thing for thing in things]

    made = Gather(send)
    late = [made.put(n) for n in (1, 2)]
    await asyncio.sleep(0)
    gone.set()
    others = [await asyncio.gather(*(made.put(n) for n in (each, each + 1))) for each in range(3, 23, 2)]
    stuck.clear()

    assert await asyncio.gather(*late) == [1, 2]
    assert [n for some in others for n in some] == [*range(3, 23)]
    assert sets[0] == [1, 2]
    assert [1] in sets
    assert [2] in sets
    assert all(not {1, 2}.intersection(some) for some in sets[1:] if len(some) > 1)
    await made.drain()


@pytest.mark.contract("K25")
async def test_what_went_alone_and_could_not_be_written_comes_back_alone() -> None:
    sets: list[list[int]] = []
    stuck, gone = {1}, asyncio.Event()

    async def send(things: list[int]) -> Sequence[int | Exception]:
        sets.append(things)
        await gone.wait()
        return [Again(ValueError("a page")) if thing in stuck else thing for thing in things]

    made = Gather(send)
    late = asyncio.ensure_future(made(1))
    await asyncio.sleep(0)
    others = asyncio.gather(made.put(2), made.put(3))
    gone.set()
    await others
    stuck.clear()
    await late

    assert sets == [[1], [2, 3], [1]]


async def test_two_who_are_called_in_one_breath_do_not_both_go_alone(wire: Wire) -> None:
    gather = Gather(wire.send)
    calls = [gather(1), gather(2)]
    answers = asyncio.gather(*calls)
    await asyncio.sleep(0)
    assert wire.sets == [[1]]

    await wire.let_go()
    await wire.let_go()

    assert await answers == [2, 4]
    await gather.drain()


async def test_what_was_stopped_is_sent_no_more() -> None:
    async def send(things: list[int]) -> Sequence[int | Exception]:
        return [Again() if thing == 1 else thing for thing in things]

    gather = Gather(send)
    slow = gather.put(1)
    assert await gather(2) == 2

    await gather.stop()

    assert slow.cancelled()
    await gather.drain()


async def test_draining_waits_until_all_is_sent(wire: Wire) -> None:
    gather = Gather(wire.send, most=1)
    answers = [gather.put(n) for n in range(3)]
    draining = asyncio.ensure_future(gather.drain())
    for _ in range(3):
        await wire.let_go()

    await draining

    assert all(answer.done() for answer in answers)


async def test_draining_does_not_wait_for_what_was_put_off_and_nobody_wants_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "LATER_SECONDS", 3600.0)

    async def send(things: list[int]) -> Sequence[int | Exception]:
        return [Again(ValueError("a page")) for _ in things]

    made = Gather(send)
    put_off = made.put(1)
    while not made._again:  # noqa: ASYNC110 - until it was answered
        await asyncio.sleep(0)
    put_off.cancel()

    async with asyncio.timeout(PATIENCE_SECONDS):
        await made.drain()


async def test_when_the_sender_is_cancelled_nobody_waits_for_ever(wire: Wire) -> None:
    gather = Gather(wire.send)
    answer = gather.put(1)
    await wire.sent.wait()
    sender = gather._sender
    assert sender is not None

    sender.cancel()
    await asyncio.wait([sender])

    assert answer.cancelled()


async def test_a_crowd_goes_two_ways_and_each_caller_gets_its_answer() -> None:
    one, other = Wire(), Wire()
    ways = Ways(Gather(one.send), Gather(other.send))

    async def call(n: int) -> int:
        return await ways(n)

    callers = [asyncio.ensure_future(call(n)) for n in range(6)]
    for wire in (one, other, one, other):
        await wire.let_go()

    assert await asyncio.gather(*callers) == [n * 2 for n in range(6)]
    # The first of each way went at once; the others parted evenly.
    assert (one.sets, other.sets) == ([[0], [2, 4]], [[1], [3, 5]])


async def test_a_lonely_call_goes_the_first_way(wire: Wire) -> None:
    ways = Ways(Gather(wire.send), Gather(Wire().send))
    for n in (1, 2):
        answer = asyncio.ensure_future(ways(n))
        await wire.let_go()
        assert await answer == n * 2

    assert wire.sets == [[1], [2]]


async def test_those_who_come_again_at_once_go_together_on_the_way_on_which_they_were_answered() -> None:
    one, other = Wire(), Wire()
    ways = Ways(Gather(one.send), Gather(other.send))

    async def twice(n: int) -> int:
        return await ways(n) + await ways(n + 10)

    callers = [asyncio.ensure_future(twice(n)) for n in range(6)]
    await other.sent.wait()
    await one.let_go()  # the first alone: it comes again, to those who wait
    await one.let_go()
    await one.sent.wait()

    assert one.sets == [[0], [2, 4, 10], [12, 14]]
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
