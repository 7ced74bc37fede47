"""The keeper of leases goes on, whatever happens to a round of it."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from ferryman.kernel import errors
from ferryman.kernel.hold import Holding
from ferryman.kernel.keeper import Keeper
from ferryman.kernel.pool import Line
from tests.patience import PATIENCE_SECONDS


class Item(NamedTuple):
    id: UUID = UUID(int=1)
    epoch: int = 1


class Renewals:
    """Answers the keeper's rounds one after the other; the last answer is given for ever."""

    def __init__(self, *answers: Callable[[], Any]) -> None:
        self.answers = list(answers)
        self.rounds = 0
        self.done = threading.Event()

    async def renew(self, line: Line, ids: Sequence[UUID], epochs: Sequence[int]) -> Mapping[UUID, bool]:
        self.rounds += 1
        answer = self.answers.pop(0)() if self.answers else dict.fromkeys(ids, True)
        if asyncio.iscoroutine(answer):
            return await answer  # type: ignore[no-any-return]
        if not self.answers:
            self.done.set()
        return answer


async def beat(line: Line) -> None:
    """Say nothing."""


def fail(error: Exception) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def keep(url: str, renewals: Renewals, refused: Callable[[Any], None]) -> tuple[Keeper, dict[UUID, Holding[Item]]]:
    held = {UUID(int=1): Holding(Item(), time.monotonic())}
    keeper = Keeper(
        lambda: Line(url), held=held, renew=renewals.renew, beat=beat, refused=refused, lease=timedelta(seconds=0.3)
    )
    return keeper, held


@pytest.mark.contract("K5", "K24")
@pytest.mark.parametrize(
    "trouble",
    [errors.DatabaseUnavailable("gone"), ValueError("anything"), TimeoutError()],
    ids=lambda error: type(error).__name__,
)
async def test_a_round_that_fails_is_followed_by_another(database_url: str, trouble: Exception) -> None:
    renewals = Renewals(fail(trouble), fail(trouble), lambda: {UUID(int=1): True})
    keeper, _ = keep(database_url, renewals, refused=lambda ids: None)
    keeper.start()

    assert await asyncio.to_thread(renewals.done.wait, 60)
    await keeper.stop()


@pytest.mark.contract("K5", "K24")
async def test_a_round_that_hangs_is_given_up(database_url: str) -> None:
    renewals = Renewals(lambda: asyncio.sleep(3600), lambda: {UUID(int=1): True})
    keeper, _ = keep(database_url, renewals, refused=lambda ids: None)
    keeper.start()

    assert await asyncio.to_thread(renewals.done.wait, 60)
    await keeper.stop()


@pytest.mark.contract("K5")
async def test_what_is_refused_is_told_and_what_is_being_written_is_not(database_url: str) -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    renewals = Renewals(lambda: {UUID(int=1): False}, lambda: {UUID(int=1): False}, dict)
    keeper, _ = keep(database_url, renewals, refused=told.put_nowait)
    keeper.start()

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await told.get() == [UUID(int=1)]
    assert renewals.rounds >= 3
    await keeper.stop()


@pytest.mark.contract("K5")
async def test_what_was_settled_meanwhile_is_not_aborted(database_url: str) -> None:
    told: list[Any] = []
    keeper, held = keep(database_url, Renewals(), refused=told.append)
    lost = [held.pop(UUID(int=1))]

    keeper._tell(lost)

    assert told == []


@pytest.mark.contract("K5", "K24", "K25")
@pytest.mark.parametrize("bad", [1, 3, 7])
async def test_a_lease_that_cannot_be_written_costs_no_other(database_url: str, bad: int) -> None:
    damaged, renewed, beats = {UUID(int=bad)}, threading.Semaphore(0), threading.Semaphore(0)
    held = {UUID(int=n): Holding(Item(UUID(int=n)), 0.0) for n in range(1, 8)}

    async def renew(line: Line, ids: Sequence[UUID], epochs: Sequence[int]) -> Mapping[UUID, bool]:
        if damaged & set(ids):
            raise errors.DatabaseDamaged("a page cannot be read", narrow=True)
        for _ in ids:
            renewed.release()
        return dict.fromkeys(ids, True)

    async def beats_on(line: Line) -> None:
        beats.release()

    refused: list[Any] = []
    keeper = Keeper(
        lambda: Line(database_url), held=held, renew=renew, beat=beats_on, refused=refused.append,
        lease=timedelta(seconds=300),
    )  # fmt: skip
    keeper.start()

    assert all([await asyncio.to_thread(renewed.acquire, timeout=20) for _ in range(6)])
    assert await asyncio.to_thread(beats.acquire, timeout=20)
    assert held[UUID(int=bad)].renewed == 0.0
    damaged.clear()
    assert await asyncio.to_thread(renewed.acquire, timeout=20)  # soon, and it alone: the others are not due
    await keeper.stop()
    assert refused == []
