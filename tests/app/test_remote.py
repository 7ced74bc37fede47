"""What a server does for remote workers: it finds out what it was not told, and keeps what they hold while they wait (S4)."""

import asyncio
from datetime import datetime
from uuid import UUID

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from tests.crash import judge
from tests.crash.wire import wired
from tests.patience import PATIENCE_SECONDS

LEASE = {"lease": "2s"}
LEASED_UNTIL = "select leased_until from ferryman.tasks where id = $1"


@pytest.mark.contract("S4", "K24")
async def test_an_end_whose_answer_was_lost_is_known_to_be_stored(database_url: str) -> None:
    async with wired(database_url) as (wire, url), Ferryman(url) as app:
        app.declare("shout")
        task = await app.tasks.create("shout", text="a")
        worker = (await app.remote.hello(handlers=["shout"])).worker
        [claim] = await app.remote.claim(worker)
        wire.cut_reply("COMMIT")

        told = await app.remote.complete(worker, claim.id, epoch=claim.epoch, result="told-once")

        assert (wire.cuts, told.state.value) == (1, "succeeded")
        with pytest.raises(errors.LeaseLost):
            await app.remote.fail(worker, claim.id, epoch=claim.epoch, reason="no")
        assert await task.result(timeout=PATIENCE_SECONDS) == "told-once"


async def leased_until(url: str, task: UUID) -> datetime:
    [row] = await judge.read(url, LEASED_UNTIL, task)
    until: datetime = row["leased_until"]
    return until


@pytest.mark.contract("S4", "K5")
async def test_what_is_held_is_kept_while_a_heartbeat_waits(database_url: str) -> None:
    async with Ferryman(database_url, worker=LEASE) as app:
        app.declare("shout")
        await app.tasks.create("shout", text="a")
        worker = (await app.remote.hello(handlers=["shout"])).worker
        [claim] = await app.remote.claim(worker)
        gone = asyncio.Event()
        beating = asyncio.ensure_future(app.remote.renew(worker, {claim.id: claim.epoch}, wait=60, unless=gone))

        until, seen = await leased_until(database_url, claim.id), 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while seen < 3:
                later = await leased_until(database_url, claim.id)
                until, seen = later, seen + (later > until)

        assert not beating.done()
        gone.set()
        assert await beating == {claim.id: True}
