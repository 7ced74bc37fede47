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

    async with asyncio.timeout(60):
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
