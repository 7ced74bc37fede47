"""Those who wait share one look, and not each other's faults (T18, K24)."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

import pytest

from ferryman.kernel import errors, waiting
from ferryman.kernel.doorbell import NoDoorbell
from ferryman.kernel.pool import Standstill
from ferryman.kernel.retry import Backoff
from ferryman.kernel.waiting import Waiting
from tests.patience import PATIENCE_SECONDS

ONE, OTHER = UUID(int=0xA), UUID(int=0xB)


@pytest.mark.contract("T18")
async def test_what_is_no_id_is_told_to_its_caller_alone_and_an_id_may_be_spelled_in_any_way() -> None:
    go = asyncio.Event()

    async def read(ids: Collection[UUID]) -> dict[UUID, str | Exception]:
        await go.wait()
        return {each: "over" for each in ids}

    place = Waiting[str](read, NoDoorbell(), topic="ends", poll=0.01)
    innocent = asyncio.create_task(place.end(ONE))
    with pytest.raises(ValueError, match="badly formed"):
        await place.end("nonsense")
    spelled = asyncio.create_task(place.end(str(OTHER).upper()))
    go.set()

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await innocent, await spelled) == ("over", "over")


@pytest.mark.contract("K24", "T18")
@pytest.mark.parametrize(
    ("met", "told"),
    [
        ([Standstill("all in use")] * waiting.STANDSTILLS, True),
        ([Standstill("all in use"), errors.DatabaseUnavailable("away")] * waiting.STANDSTILLS, False),
    ],
)
async def test_a_pool_that_stands_still_is_told_to_those_who_wait_and_an_outage_is_outlasted(
    met: list[Exception], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits may be the one who holds the connections."""
    monkeypatch.setattr(waiting, "RECONNECT", Backoff(base=timedelta(0), factor=1.0, cap=timedelta(0)))
    left = list(met)

    async def read(ids: Collection[UUID]) -> dict[UUID, str | Exception]:
        if left:
            raise left.pop(0)
        return {each: "over" for each in ids}

    place = Waiting[str](read, NoDoorbell(), topic="ends", poll=0.01)
    async with asyncio.timeout(PATIENCE_SECONDS):
        if told:
            with pytest.raises(Standstill):
                await place.end(ONE)
        else:
            assert await place.end(ONE) == "over"
    assert left == []
