"""A tenant pauses a shared queue for itself alone, by every door (K12, T17)."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from ferryman import Ferryman
from ferryman.http.serving import serving
from ferryman.kernel import errors
from tests.http.conftest import Client

pytestmark = pytest.mark.contract("K12", "T17", "S6")

Act = Callable[[str], Awaitable[object]]


@pytest.fixture(params=["http", "python"])
async def act(request: pytest.FixtureRequest, app: Ferryman) -> AsyncIterator[Act]:
    """Pause or resume the queue `default` as the tenant acme."""
    if request.param == "python":
        queues = app.of("acme").queues
        doing: dict[str, Act] = {"pause": queues.pause, "resume": queues.resume}
        yield lambda action: doing[action]("default")
        return
    token = (await app.tokens.create("shop", tenant="acme", scopes=["admin"])).text
    async with serving(app, port=0) as served, aiohttp.ClientSession() as session:
        client = Client(session, served.url)

        async def post(action: str) -> object:
            reply = await client.post(f"/v1/queues/default/{action}", Authorization=f"Bearer {token}")
            assert reply.status == 200, reply.json
            for route in ("queues/default/pause", "handlers/greet/pause"):
                refused = await client.post(f"/v1/operations/{route}", Authorization=f"Bearer {token}")
                assert refused.json["code"] == "FORBIDDEN"
            return reply

        yield post


async def test_a_tenant_that_pauses_a_shared_queue_stops_nobody_elses_work(app: Ferryman, act: Act) -> None:
    mine, theirs = app.of("acme").tasks, app.of("other").tasks
    await app.queues.set("default", new=True, concurrency=2)
    await act("pause")
    held = [await mine.create("greet", name="Ada") for _ in range(5)]  # ahead of the others in line

    async with app.worker():
        for _ in range(3):
            await (await theirs.create("greet", name="Bob")).result(timeout=30)
        assert {(await each.refresh()).state for each in held} == {"ready"}

        await act("resume")
        for each in held:
            await each.result(timeout=30)


async def test_a_tenant_does_not_lift_the_pause_of_all(app: Ferryman, act: Act) -> None:
    await app.queues.set("default", new=True)
    await app.queues.pause("default")

    await act("resume")

    assert (await app.queues.get("default")).paused_at is not None


async def test_the_door_of_a_tenant_changes_nothing_for_others(app: Ferryman) -> None:
    queues = app.of("acme").queues
    await app.queues.set("default", new=True, concurrency=5)

    await queues.set("default", concurrency=1)
    for change in (
        queues.pause("default", tenant="other"),
        queues.pause("default", tenant="*"),
        queues.set("default", tenant="other", concurrency=1),
        queues.pause_task("greet"),
        queues.resume_task("greet"),
    ):
        with pytest.raises(errors.Forbidden, match=r"operator|acme"):
            await change

    terms = {row.tenant: (row.concurrency, row.paused_at) for row in await app.queues.rows("default")}
    assert terms == {"*": (5, None), "acme": (1, None)}
    assert await app.queues.paused_tasks() == {}
