"""What a server does for remote workers: it finds out what it was not told, and keeps what they hold while they wait (S4)."""

import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from tests.crash.wire import wired

SECONDS = 20.0


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
        assert await task.result(timeout=SECONDS) == "told-once"
