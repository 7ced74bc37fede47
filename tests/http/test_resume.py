"""K10 over HTTP: a client that resumes after an event which the log does not have gets a gap, and misses nothing after it."""

import pytest

from ferryman import Ferryman
from ferryman.kernel.follow import Choice, Reader
from ferryman.kernel.resume import GapReason
from tests.http.conftest import Client
from tests.http.test_stream import listening
from tests.sql.going_back import go_back


async def written(app: Ferryman, *names: str) -> list[str]:
    return [str((await app.tasks.create("greet", name=name)).id) for name in names]


@pytest.mark.contract("K10", "S4")
async def test_a_number_beyond_the_end_is_a_gap_and_what_happens_next_is_sent(app: Ferryman, client: Client) -> None:
    await written(app, "a", "b")
    gap = {"from": 3, "to": 9999, "reason": "beyond_end", "resume": "2"}
    async with listening(client, Last_Event_ID="9999") as header, listening(client, "?after=9999") as query:
        for ear in (header, query):
            assert await ear.events(1) == [gap]
        [new] = await written(app, "c")
        for ear in (header, query):
            assert [each["subject"] for each in await ear.events(1)] == [new]
    page = (await client.get("/v1/events?after=9999")).json
    assert page["gap"] == gap | {"from": 4, "resume": "3"}
    assert page["items"] == []
    [last] = await written(app, "d")
    rest = (await client.get(f"/v1/events?after={page['next']}")).json
    assert [each["subject"] for each in rest["items"]] == [last]
    assert "gap" not in rest


@pytest.mark.contract("K10", "S4")
@pytest.mark.parametrize("meanwhile", [0, 8])
async def test_a_client_of_a_lost_history_gets_every_event_that_was_written_since(
    app: Ferryman, client: Client, database_url: str, meanwhile: int
) -> None:
    await written(app, "a", "b", "c", "d")
    async with listening(client, "?after=0") as ear:
        seen = [each["event_id"] for each in await ear.events(4)]
    page = (await client.get("/v1/events?after=0")).json
    assert [each["event_id"] for each in page["items"]] == seen
    assert page["next"] == ear.last == seen[-1].removeprefix("evt_")

    await go_back(database_url, to=2)
    new = await written(app, *[f"new {n}" for n in range(meanwhile)])
    reason = "other_history" if meanwhile else "beyond_end"
    async with listening(client, Last_Event_ID=str(ear.last)) as ear:
        told = await ear.events(1 + 2 + len(new))
    assert (told[0]["reason"], told[0]["to"]) == (reason, 4)
    assert [each["subject"] for each in told[3:]] == new
    for after in (page["next"], seen[-1]):
        found = (await client.get(f"/v1/events?after={after}")).json
        assert found["gap"] == told[0]
        assert [each["subject"] for each in found["items"][2:]] == new
    story = (await client.get(f"/v1/events?after={seen[-1]}&subject={(new or [seen[0]])[-1]}")).json if new else None
    assert story is None or [each["subject"] for each in story["items"]] == new[-1:]


@pytest.mark.contract("K10")
async def test_followers_are_cut_when_the_log_goes_back_and_get_the_gap_when_they_come_again(
    app: Ferryman, database_url: str
) -> None:
    reader = Reader(app.database, app.doorbell, topics=("ready",))
    follower = reader.follow(Choice("default"))
    try:
        await follower.begin(10)
        await follower.next(0)
        old = await written(app, "a", "b", "c")
        heard: list[str] = []
        while len(heard) < len(old):
            heard += [str(each.subject) for each in await follower.next(10)]
        await go_back(database_url, to=1)
        new = await written(app, "x", "y", "z", "more")
        while not follower.over:
            assert list(await follower.next(10)) == []
        again = reader.follow(Choice("default"), after=follower.position)
        found: list[str] = []
        gap = None
        while len(found) < 1 + len(new):
            found += [str(each.subject) for each in await again.next(10)]
            gap = again.missed() or gap
    finally:
        await reader.close()

    assert heard == old
    assert found == old[:1] + new
    assert gap is not None
    assert (gap.reason, gap.last) == (GapReason.OTHER_HISTORY, 3)


@pytest.mark.contract("S4")
@pytest.mark.parametrize("after", ["-1", "x", "1-", "1-xyz", "evt_", str(2**63), "1-" + 15 * "f"])
async def test_what_is_no_event_is_refused(client: Client, after: str) -> None:
    for path in ("/v1/events", "/v1/events/stream"):
        answer = await client.get(f"{path}?after={after}")
        assert (answer.status, answer.json["code"]) == (422, "REQUEST_INVALID")
