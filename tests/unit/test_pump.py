"""The pump against a crew that answers when the test says so: what is lost sight of, kept, spoiled, handed back."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import errors, loop, retry, straggler
from ferryman.kernel.crew import Turned
from ferryman.kernel.loop import Pump
from tests.patience import PATIENCE_SECONDS

AWAY = errors.DatabaseUnavailable("gone")
BROKEN_OFF = errors.DatabaseUnavailable("it takes too long", unfinished=True)


class Item(NamedTuple):
    id: UUID
    epoch: int = 1


class Result(NamedTuple):
    id: UUID
    said: str
    epoch: int = 1


class Asked:
    """One turn that waits for its answer."""

    def __init__(self, line: Any, outcomes: Sequence[Result], room: int) -> None:
        self.line = line
        self.outcomes = list(outcomes)
        self.room = room
        self.answer: asyncio.Future[Turned[Item]] = asyncio.get_running_loop().create_future()

    def give(self, *items: Item, more: bool = False, left: Collection[UUID] = ()) -> None:
        self.answer.set_result(Turned(items, more=more, left=left))

    def fail(self, error: Exception = AWAY) -> None:
        self.answer.set_exception(error)


class Script:
    """A crew in the hands of the test."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.reclaims: list[set[UUID]] = []
        self.finish: dict[UUID, asyncio.Event] = {}
        self.lose_reclaim = False
        self.busy_reclaim = False
        self.breaks: set[UUID] = set()
        self.cancelled: list[Item] = []
        self.fenced = 0
        self.stubborn = asyncio.Event()  # whom a cancellation does not end before this is set
        self.stubborn.set()

    async def turn(self, line: Any, outcomes: Sequence[Result], room: int) -> Turned[Item]:
        turn = Asked(line, outcomes, room)
        self.asked.append(turn)
        return await turn.answer

    def answered(self) -> bool:
        """Let every turn that waits find nothing."""
        for turn in self.asked:
            if not turn.answer.done():
                turn.give()
        return True

    async def run(self, item: Item) -> Result | None:
        try:
            await self.finish.setdefault(item.id, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(item)
            await self.stubborn.wait()
            if item.id in self.breaks:
                raise
            return None
        if item.id in self.breaks:
            raise ValueError("a bug outside of the handler")
        return Result(item.id, "done", item.epoch)

    async def reclaim(self, line: Any, held: Collection[UUID]) -> int | None:
        if self.lose_reclaim:
            self.lose_reclaim = False
            raise AWAY
        self.reclaims.append(set(held))
        if self.busy_reclaim:
            self.busy_reclaim = False
            return None
        return 0

    def doubt(self) -> None:
        """Hear nothing."""

    def lost(self, count: int) -> None:
        self.fenced += count

    def hand_back(self, item: Item) -> Result:
        return Result(item.id, "handed back", item.epoch)

    def spoil(self, outcome: Result, error: Exception) -> Result | None:
        return Result(outcome.id, "spoiled") if outcome.said != "spoiled" else None


def item(number: int) -> Item:
    return Item(UUID(int=number))


async def until(look: Callable[[], object]) -> None:
    """Let the loop turn until something is so; bounded, so that a test that waits in vain fails."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not look():  # noqa: ASYNC110 - any state of the pump, not only events
            await asyncio.sleep(0.001)


class Quiet(Pump[Item, Result]):
    """A pump that looks when it is told, and not by the clock: the turns of a test are those that it asked for."""

    def _doubt(self) -> None:
        """Trust what was heard."""


@asynccontextmanager
async def pumping(crew: Script, *, lanes: int = 2, concurrency: int = 100) -> AsyncIterator[Pump[Item, Result]]:
    lines: list[Any] = list(range(lanes))
    lease = timedelta(minutes=10)
    pump = Quiet(crew, lines, domain="test", concurrency=concurrency, claim_max=5, poll=0.05, lease=lease)
    running = asyncio.create_task(pump.run())
    try:
        yield pump
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await pump.close()


class Answered:
    """Whether the pump has taken an answer: it holds nothing any more, or has asked again."""

    def __init__(self, pump: Pump[Item, Result], crew: Script, number: int) -> None:
        self.pump, self.crew, self.number = pump, crew, number

    def __call__(self) -> bool:
        return not self.pump.held or len(self.crew.asked) >= self.number


async def asked(crew: Script, number: int) -> Asked:
    await until(lambda: len(crew.asked) >= number)
    return crew.asked[number - 1]


@pytest.mark.contract("K24")
async def test_what_another_lane_may_just_have_claimed_is_not_reclaimed() -> None:
    crew = Script()
    async with pumping(crew, lanes=3) as pump:
        first = await asked(crew, 1)
        pump.look()
        second = await asked(crew, 2)
        pump.look()
        third = await asked(crew, 3)

        first.fail()
        second.give(item(2))
        await until(lambda: pump.held)
        assert crew.reclaims == []  # the third may have claimed, and has not answered

        third.give(item(3))
        await until(lambda: crew.answered() and crew.reclaims)
        assert crew.reclaims == [{UUID(int=2), UUID(int=3)}]


@pytest.mark.contract("K24")
async def test_work_that_is_on_its_way_to_be_settled_is_not_reclaimed() -> None:
    crew = Script()
    async with pumping(crew) as pump:
        (await asked(crew, 1)).give(item(1), item(2))
        await until(lambda: len(pump.held) == 2)
        pump.look()
        claim = await asked(crew, 2)
        crew.finish[UUID(int=1)].set()
        settle = await asked(crew, 3)
        assert [each.id for each in settle.outcomes] == [UUID(int=1)]

        settle.fail()
        await until(lambda: pump._sight.lost)
        claim.give()

        await until(lambda: crew.answered() and crew.reclaims)
        assert crew.reclaims == [{UUID(int=1), UUID(int=2)}]


@pytest.mark.contract("K24")
async def test_an_outcome_is_kept_until_an_answer_has_come() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        for number in (2, 3):
            turn = await asked(crew, number)
            assert [each.id for each in turn.outcomes] == [UUID(int=1)]
            turn.fail()
        last = await asked(crew, 4)
        assert [each.id for each in last.outcomes] == [UUID(int=1)]
        last.give()

        pump.look()
        assert (await asked(crew, 5)).outcomes == []


@pytest.mark.contract("K24", "R3")
@pytest.mark.parametrize("lanes", [1, 2])
async def test_after_a_lost_answer_an_outcome_is_sent_again_at_once_and_only_then_later(
    monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    """By another lane, whose connection may live; where none is left by the same, once."""
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(hours=1)))
    crew = Script()
    async with pumping(crew, lanes=lanes) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        for number in range(lanes + 1):
            turn = await asked(crew, 2 + number)
            assert [each.id for each in turn.outcomes] == [UUID(int=1)]
            turn.fail()
        await until(lambda: pump._resting == lanes)
        pump.look()
        await until(lambda: not pump._roused)

        assert len({each.line for each in crew.asked[1:]}) == lanes
        assert len(crew.asked) == lanes + 2


@pytest.mark.contract("K24", "R3")
@pytest.mark.parametrize("lanes", [1, 2])
async def test_after_a_connection_was_cut_an_outcome_is_sent_again_at_once(
    monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(hours=1)))
    crew = Script()
    async with pumping(crew, lanes=lanes) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()
        cut = await asked(crew, 2)
        cut.fail(BROKEN_OFF)

        again = await asked(crew, 3)
        assert (again.outcomes, again.line != cut.line) == (cut.outcomes, lanes > 1)
        again.give()
        await until(lambda: not pump.held)


@pytest.mark.contract("K24", "R3")
async def test_a_lane_that_lost_its_connection_leaves_its_outcomes_to_one_that_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(hours=1)))
    crew = Script()
    async with pumping(crew) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        pump.look()
        claim = await asked(crew, 2)
        crew.finish[UUID(int=1)].set()
        (await asked(crew, 3)).fail()
        await until(lambda: pump._resting)

        claim.give()

        settle = await asked(crew, 4)
        assert ([each.id for each in settle.outcomes], settle.line) == ([UUID(int=1)], claim.line)


@pytest.mark.contract("K24")
async def test_a_reclaim_that_fails_is_tried_again_and_sends_no_outcome_twice() -> None:
    crew = Script()
    crew.lose_reclaim = True
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()
        (await asked(crew, 2)).fail()
        (await asked(crew, 3)).give()
        await until(lambda: not crew.lose_reclaim)

        pump.look()
        again = await asked(crew, 4)
        again.give()

        assert again.outcomes == []
        await until(lambda: crew.reclaims)
        assert crew.reclaims == [set()]


@pytest.mark.contract("K24", "K5")
async def test_a_reclaim_that_met_busy_rows_is_made_again_and_then_no_more() -> None:
    crew = Script()
    crew.busy_reclaim = True
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).fail()
        (await asked(crew, 2)).give()
        await until(lambda: crew.reclaims)
        pump.look()
        (await asked(crew, 3)).give()
        await until(lambda: len(crew.reclaims) == 2)
        pump.look()
        (await asked(crew, 4)).give()
        pump.look()

        await asked(crew, 5)
        assert crew.reclaims == [set(), set()]


@pytest.mark.contract("K24")
async def test_a_lane_that_hangs_does_not_keep_the_other_from_claiming() -> None:
    crew = Script()
    async with pumping(crew) as pump:
        await asked(crew, 1)  # hangs
        pump.look()
        (await asked(crew, 2)).fail()

        (await asked(crew, 3)).give(item(3))

        await until(lambda: pump.held)
        pump.look()
        assert (await asked(crew, 4)).room > 0
        assert crew.reclaims == []


@pytest.mark.contract("K25")
async def test_a_claim_that_is_refused_does_not_spoil_the_outcome_beside_it() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()
        both = await asked(crew, 2)
        assert (len(both.outcomes), both.room > 0) == (1, True)

        both.fail(ValueError("a row that cannot be claimed"))

        alone = await asked(crew, 3)
        assert (alone.outcomes, alone.room) == ([Result(UUID(int=1), "done")], 0)
        alone.give()
        assert (await asked(crew, 4)).outcomes == []


@pytest.mark.contract("K25")
async def test_one_outcome_that_is_refused_is_found_and_the_others_are_settled() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(*(item(n) for n in range(1, 6)))
        await until(lambda: len(pump.held) == 5)
        for number in range(1, 6):
            crew.finish[UUID(int=number)].set()

        settled: list[Result] = []
        number = 2
        while len(settled) < 5:
            turn = await asked(crew, number)
            number += 1
            if Result(UUID(int=3), "done") in turn.outcomes:
                turn.fail(ValueError("unfit"))
            else:
                settled += turn.outcomes
                turn.give()

        assert sorted(settled) == [Result(UUID(int=n), "spoiled" if n == 3 else "done") for n in range(1, 6)]


@pytest.mark.contract("K17")
async def test_what_a_turn_under_way_claims_after_the_stop_is_handed_back() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        turn = await asked(crew, 1)

        stopping = asyncio.create_task(pump.stop(5))
        await until(lambda: pump._stopping)
        turn.give(item(1))

        assert await stopping == 0
        assert (await asked(crew, 2)).outcomes == [Result(UUID(int=1), "handed back")]


@pytest.mark.contract("K17")
async def test_a_handler_that_ends_after_it_was_handed_back_is_not_heard() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)

        assert await pump.stop(0) == 1

        last = await asked(crew, 2)
        assert last.outcomes == [Result(UUID(int=1), "handed back")]
        last.give()
        await until(pump._done)
        assert len(crew.asked) == 2


@pytest.mark.contract("K5")
async def test_a_claim_is_held_and_renewed_until_its_outcome_is_answered() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        settling = await asked(crew, 2)
        assert set(pump.held) == {UUID(int=1)}
        settling.give()
        await until(lambda: not pump.held)


@pytest.mark.contract("K5", "K25")
async def test_an_outcome_that_was_busy_is_sent_again_and_its_claim_kept() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1), item(2))
        await until(lambda: len(pump.held) == 2)
        crew.finish[UUID(int=1)].set()
        crew.finish[UUID(int=2)].set()
        both = await asked(crew, 2)

        both.give(left={UUID(int=2)})

        await until(lambda: set(pump.held) == {UUID(int=2)})
        # Looks without outcomes find nothing; they must not keep the only lane from the outcome.
        await until(lambda: crew.answered() and crew.asked[2:] and any(turn.outcomes for turn in crew.asked[2:]))
        assert [turn.outcomes for turn in crew.asked[2:] if turn.outcomes] == [[Result(UUID(int=2), "done")]]


@pytest.mark.contract("K9", "K25")
async def test_an_outcome_that_can_never_be_settled_is_neither_held_nor_handed_back() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        number = 2
        while pump.held:
            turn = await asked(crew, number)
            number += 1
            if turn.outcomes:
                turn.fail(ValueError("the owner cannot take it"))
            else:
                turn.give()
            await until(Answered(pump, crew, number))
        (await asked(crew, number)).give()
        await until(lambda: crew.reclaims)

        assert crew.reclaims[-1] == {UUID(int=1)}  # known, so that only its lease ends it


@pytest.mark.contract("R6", "K25")
async def test_a_bug_outside_of_a_handler_costs_no_place() -> None:
    crew = Script()
    crew.breaks = {UUID(int=1)}
    async with pumping(crew, lanes=1, concurrency=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        await until(lambda: not pump.held)
        pump.look()
        assert (await asked(crew, 2)).room == 1


@pytest.mark.contract("K17", "K24")
async def test_what_was_claimed_unseen_is_handed_back_before_the_end() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).fail()
        (await asked(crew, 2)).fail()
        crew.lose_reclaim = True  # the first try of it: the database is still away
        await until(lambda: pump._failures == 2)

        await pump.stop(0)

        assert await pump.drained(10)
        assert crew.reclaims == [set()]


@pytest.mark.contract("K17", "K24")
async def test_a_pump_that_is_closed_while_the_database_is_away_begins_nothing_more() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        await pump.stop(0)
        (await asked(crew, 2)).fail()  # what is handed back cannot be settled
        await asked(crew, 3)

        await pump.close()

        assert (len(crew.asked), pump._turns) == (3, set())


@pytest.mark.contract("K17")
async def test_a_stopped_pump_that_knows_all_it_holds_asks_for_nothing_more() -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give()

        await pump.stop(0)

        assert await pump.drained(10)
        assert crew.reclaims == []


NARROW = [errors.DatabaseUnavailable("a lock", narrow=True), errors.DatabaseRefused("read-only")]


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("error", NARROW)
async def test_an_outcome_that_cannot_be_stored_now_is_kept_and_those_beside_it_are_settled(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    bad = Result(UUID(int=3), "done")
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(*(item(n) for n in range(1, 6)))
        await until(lambda: len(pump.held) == 5)
        for number in range(1, 6):
            crew.finish[UUID(int=number)].set()

        number, refused = 2, 0
        while set(pump.held) != {bad.id} or refused < 10:
            turn = await asked(crew, number)
            number += 1
            if bad in turn.outcomes:
                refused += 1
                turn.fail(error)
            else:
                turn.give()
            await until(Answered(pump, crew, number))
        while pump.held:
            (await asked(crew, number)).give()
            number += 1
            await until(Answered(pump, crew, number))

        assert {each.said for turn in crew.asked for each in turn.outcomes} == {"done"}
        assert [each.levelname for each in caplog.records if "cannot be stored now" in each.message] == ["WARNING"]


def _too_many(outcomes: Sequence[Result]) -> bool:
    return len(outcomes) > 2


def _too_large(outcomes: Sequence[Result]) -> bool:
    return any(each.id == UUID(int=1) for each in outcomes)


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("error", [AWAY, BROKEN_OFF])
@pytest.mark.parametrize(("slow", "left"), [(_too_many, 0), (_too_large, 1)])
async def test_outcomes_that_take_too_long_together_go_in_smaller_sets(
    slow: Callable[[Sequence[Result]], bool],
    left: int,
    lanes: int,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=lanes) as pump:
        (await asked(crew, 1)).give(*(item(n) for n in range(1, 6)))
        await until(lambda: len(pump.held) == 5)
        for number in range(1, 6):
            crew.finish[UUID(int=number)].set()

        number = 2
        while len(pump.held) > left:
            turn = await asked(crew, number)
            number += 1
            if slow(turn.outcomes):
                turn.fail(error)
            else:
                turn.give()
            await until(Answered(pump, crew, number))
            assert number < 30

        assert [len(turn.outcomes) for turn in crew.asked if turn.outcomes][:2] == [5, 2]


class Watch:
    """A watch in the hands of the test: it says how long something took."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.contract("K24", "K25")
async def test_an_outcome_that_takes_too_long_by_itself_rests_as_long_and_holds_up_no_other_and_no_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch()
    monkeypatch.setattr(straggler, "time", watch)
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1), item(2))
        await until(lambda: len(pump.held) == 2)
        crew.finish[UUID(int=1)].set()
        (await asked(crew, 2)).fail(BROKEN_OFF)  # with a claim, which may have been what took so long
        alone = await asked(crew, 3)
        assert (alone.outcomes, alone.room) == ([Result(UUID(int=1), "done")], 0)
        watch.now += 3600
        alone.fail(BROKEN_OFF)

        claim = await asked(crew, 4)
        assert (claim.outcomes, claim.room) == ([], 2)
        claim.give(item(3))
        await until(lambda: UUID(int=3) in pump.held)
        crew.finish[UUID(int=2)].set()
        settle = await asked(crew, 5)
        assert (settle.outcomes, settle.room) == ([Result(UUID(int=2), "done")], 4)
        settle.give()
        await until(lambda: set(pump.held) == {UUID(int=1), UUID(int=3)})


@pytest.mark.contract("K24", "K25")
async def test_what_takes_too_long_stands_alone_soon_whoever_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others would join it, and make its set as large again."""
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew, numbers = Script(), itertools.count(1)
    huge = Result(UUID(int=1), "done")
    sets: list[tuple[int, int]] = []
    async with pumping(crew, lanes=1) as pump:
        for number in itertools.count(1):
            turn = await asked(crew, number)
            if huge in turn.outcomes:
                sets.append((len(turn.outcomes), turn.room))
                if len(turn.outcomes) == 1 or len(sets) > 4:
                    break
                turn.fail(BROKEN_OFF)
            else:
                turn.give(*(item(next(numbers)) for _ in range(turn.room)), more=True)
            for done in range(1, 1 + 3 * number):
                crew.finish.setdefault(UUID(int=done), asyncio.Event()).set()
            await until(Answered(pump, crew, number + 1))

    assert len(sets) <= 4
    assert {room for _, room in sets[1:]} == {0}


@pytest.mark.contract("K24", "K25", "K4", "R2")
async def test_an_outcome_that_takes_too_long_is_dropped_and_counted_when_its_lease_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()
        (await asked(crew, 2)).fail(BROKEN_OFF)
        under_way = await asked(crew, 3)
        pump.abort({UUID(int=1)})
        assert pump.held  # its answer may yet come
        assert crew.fenced == 0
        reclaims = len(crew.reclaims)
        under_way.fail(BROKEN_OFF)
        await until(lambda: pump.held and len(crew.asked) >= 4)
        pump.abort({UUID(int=1)})

        assert not pump.held
        assert crew.fenced == 1
        await until(crew.answered)
        assert [turn.outcomes for turn in crew.asked[4:]] == []
        assert len(crew.reclaims) == reclaims  # it had claimed nothing


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("lanes", [1, 2])
async def test_of_several_outcomes_that_take_too_long_by_themselves_one_is_sent_at_a_time(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    slow = {Result(UUID(int=n), "done") for n in (1, 2, 3)}
    async with pumping(crew, lanes=lanes) as pump:
        (await asked(crew, 1)).give(*(item(n) for n in range(1, 6)))
        await until(lambda: len(pump.held) == 5)
        for number in range(1, 6):
            crew.finish[UUID(int=number)].set()

        number, alone = 2, 0
        aside: set[Result] = set()
        while alone < 10:
            turn = await asked(crew, number)
            number += 1
            sent = [each for each in crew.asked if not each.answer.done() and aside.intersection(each.outcomes)]
            assert [(len(each.outcomes), each.room) for each in sent] in ([], [(1, 0)])
            alone += turn in sent
            if slow.isdisjoint(turn.outcomes):
                turn.give()
            else:
                aside |= {each for each in turn.outcomes if len(turn.outcomes) == 1}
                turn.fail(BROKEN_OFF)
            await until(Answered(pump, crew, number))
            assert number < 100
        slow.clear()
        await until(lambda: crew.answered() and not pump.held)


@pytest.mark.contract("K24", "K25")
@pytest.mark.parametrize("lanes", [1, 2])
async def test_a_claim_that_takes_too_long_is_made_smaller_and_grows_again(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=lanes) as pump:
        (await asked(crew, 1)).fail(BROKEN_OFF)
        (await asked(crew, 2)).fail(BROKEN_OFF)
        (await asked(crew, 3)).give(item(1), more=True)
        (await asked(crew, 4)).give(item(2), item(3), more=True)
        (await asked(crew, 5)).give(*(item(n) for n in range(4, 8)), more=True)
        await asked(crew, 6)

        assert [turn.room for turn in crew.asked[:6]] == [5, 2, 1, 2, 4, 5]
        assert len(pump.held) == 7


@pytest.mark.contract("K24", "K25")
async def test_an_outcome_beside_a_claim_that_takes_too_long_is_settled_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish[UUID(int=1)].set()

        number = 2
        while pump.held:
            turn = await asked(crew, number)
            number += 1
            if turn.room > 2:
                turn.fail(BROKEN_OFF)
            else:
                turn.give()
            await until(Answered(pump, crew, number))
            assert number < 10

        assert [(len(turn.outcomes), turn.room) for turn in crew.asked[1:3]] == [(1, 5), (1, 0)]


@pytest.mark.contract("K24")
async def test_a_claim_is_no_smaller_after_a_database_that_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RECONNECT", retry.Backoff.fixed(timedelta(milliseconds=1)))
    crew = Script()
    async with pumping(crew, lanes=1):
        for number in (1, 2, 3):
            (await asked(crew, number)).fail()
        assert (await asked(crew, 4)).room == 5


@pytest.mark.contract("K24")
@pytest.mark.parametrize("error", NARROW)
async def test_a_claim_that_cannot_be_made_now_is_tried_again_with_backoff(error: Exception) -> None:
    crew = Script()
    async with pumping(crew, lanes=1) as pump:
        for number in (1, 2, 3):
            (await asked(crew, number)).fail(error)
        (await asked(crew, 4)).give(item(1))
        await until(lambda: pump.held)


@pytest.mark.contract("K5")
@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("raises", [False, True])
async def test_a_claim_made_again_ends_the_handler_of_the_earlier_one_first(epoch: int, raises: bool) -> None:
    """Also where a backup was put back, and the same fence is given out again."""
    crew = Script()
    again = Item(UUID(int=1), epoch)
    if raises:
        crew.breaks = {again.id}
    async with pumping(crew, lanes=1, concurrency=2) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: again.id in crew.finish)
        pump.look()
        (await asked(crew, 2)).give(again)

        await until(lambda: crew.cancelled == [item(1)] and len(pump._hold.working) == 1)
        assert ([each.item for each in pump.held.values()], pump._hold.running) == ([again], 1)
        crew.breaks = set()
        crew.finish[again.id].set()
        await until(lambda: crew.answered() and not pump.held)
        sent = [each for turn in crew.asked for each in turn.outcomes]
        assert sent == [Result(again.id, "done", epoch)]


@pytest.mark.contract("K5", "K17")
async def test_a_handler_whose_claim_was_made_again_is_waited_for_and_ended_with_the_pump() -> None:
    crew = Script()
    crew.stubborn.clear()
    async with pumping(crew, lanes=1, concurrency=2) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: UUID(int=1) in crew.finish)
        pump.look()
        (await asked(crew, 2)).give(Item(UUID(int=1), 2))
        await until(lambda: crew.cancelled)
        earlier = {each.task for each in pump._hold.working}
        assert len(earlier) == 2
        crew.finish[UUID(int=1)].set()
        await until(lambda: crew.answered() and not pump.held)

        stopping = asyncio.create_task(pump.stop(60))
        await until(lambda: pump._stopping)
        assert not stopping.done()
        crew.stubborn.set()

        assert await stopping == 0
        assert not pump._hold.working


@pytest.mark.contract("K5", "K17")
async def test_an_answer_to_an_earlier_claim_of_the_same_fence_ends_the_later_ones_handler() -> None:
    crew = Script()
    async with pumping(crew) as pump:
        (await asked(crew, 1)).give(item(1))
        await until(lambda: pump.held)
        crew.finish.pop(UUID(int=1)).set()
        settle = await asked(crew, 2)
        pump.look()
        (await asked(crew, 3)).give(item(1))
        await until(lambda: UUID(int=1) in crew.finish)

        settle.give()

        await until(lambda: crew.cancelled == [item(1)] and not pump._hold.working)
        assert (dict(pump.held), pump._hold.running) == ({}, 0)
