"""The log as a stream: nothing skipped, one reader for all, slow ones cut, resumed by id."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ferryman import Ferryman
from ferryman.http import streams
from ferryman.kernel import events, follow
from ferryman.kernel.follow import Choice, Reader
from tests.conformance import ear as bells
from tests.conformance.forger import at_postgres, forge
from tests.http.conftest import Client
from tests.http.test_tasks import GREET
from tests.patience import PATIENCE_SECONDS
from tests.sql import days


class Ear:
    """One end of a stream."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines
        self.last: str | None = None

    async def events(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many events; heartbeats move the last id."""
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < count:
                line = (await anext(self._lines)).decode().rstrip("\n")
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last = value
                elif name == "data":
                    found.append(json.loads(value))
        return found


@asynccontextmanager
async def listening(client: Client, query: str = "", **headers: str) -> AsyncIterator[Ear]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.session.get(f"{client.url}/v1/events/stream{query}", headers=named) as answer:
        assert answer.status == 200, await answer.text()
        yield Ear(aiter(answer.content))


@pytest.mark.contract("K10", "S4")
async def test_a_stream_goes_on_where_its_client_left_it(app: Ferryman, client: Client) -> None:
    first = (await client.post("/v1/tasks", GREET)).json["task"]["id"]
    async with listening(client, "?after=0") as ear:
        [born] = await ear.events(1)
        assert (born["subject"], born["kind"], born["to_state"]) == (first, "task", "ready")
    second = (await client.post("/v1/tasks", GREET)).json["task"]["id"]
    await client.post(f"/v1/tasks/{second}/cancel")
    async with listening(client, Last_Event_ID=str(ear.last)) as ear:
        told = [(each["subject"], each["to_state"]) for each in await ear.events(2)]
        assert told == [(second, "ready"), (second, "cancelled")]
        await client.post(f"/v1/tasks/{first}/cancel")
        [live] = await ear.events(1)
        assert (live["subject"], live["to_state"]) == (first, "cancelled")
    page = (await client.get("/v1/events?after=0&limit=3")).json
    rest = (await client.get(f"/v1/events?after={page['next']}")).json
    assert [each["id"] for each in page["items"] + rest["items"]] == [1, 2, 3, 4]
    assert (await client.get(f"/v1/events?after={rest['next']}")).json == {"items": [], "next": rest["next"]}
    assert len((await client.get("/v1/events?last=2")).json["items"]) == 2


@pytest.mark.contract("K10", "K12")
async def test_a_stream_tells_what_was_asked_for_and_nothing_of_other_tenants(app: Ferryman, client: Client) -> None:
    theirs = app.of("other").tasks
    one = await app.tasks.create("greet", name="a")
    async with (
        listening(client, f"?after=0&subject={one.id}") as mine,
        listening(client, "?kind=schedule&after=0") as some,
    ):
        await theirs.create("greet", name="b")
        await app.tasks.create("greet", name="c")
        await app.schedules.create("greet", every=60, name="d")
        await one.cancel()
        assert [each["to_state"] for each in await mine.events(2)] == ["ready", "cancelled"]
        assert [each["kind"] for each in await some.events(1)] == ["schedule"]
    async with listening(client, "?after=0") as ear:
        assert len(await ear.events(4)) == 4
        assert str(ear.last).startswith("5-")  # the event of the other tenant has a number, too


@pytest.mark.contract("K2", "K10", "K12")
async def test_a_ring_that_names_anothers_task_tells_a_stream_nothing(
    app: Ferryman, client: Client, database_url: str
) -> None:
    theirs = await app.of("other").tasks.create("greet", name="theirs")
    async with listening(client) as mine, at_postgres(database_url, "ferryman") as forger:
        ears = [bells.Ear(app.doorbell, topic) for topic in ("ready", "due", "done", "cancel")]
        await theirs.cancel()
        await forge(forger, ears, [[str(theirs.id)], [str(uuid4())], ["default\x1fother"], []])
        ours = await app.tasks.create("greet", name="ours")

        assert [(each["subject"], each["to_state"]) for each in await mine.events(1)] == [(str(ours.id), "ready")]


@pytest.mark.contract("K10")
async def test_the_reader_of_a_stream_stands_before_the_head_of_its_answer_is_sent(
    app: Ferryman, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    opening, streaming = Reader._open, streams.Stream.__call__

    async def stand(self: Reader) -> None:
        await opening(self)
        order.append("the reader stands")

    async def answer(self: streams.Stream, *asgi: Any) -> None:
        order.append("the head is sent")
        await streaming(self, *asgi)

    monkeypatch.setattr(Reader, "_open", stand)
    monkeypatch.setattr(streams.Stream, "__call__", answer)
    async with listening(client) as ear:
        made = await app.tasks.create("greet", name="at once")
        assert [each["subject"] for each in await ear.events(1)] == [str(made.id)]
    assert order == ["the reader stands", "the head is sent"]


TELL = """
insert into ferryman.events (at, subject, tenant, kind, from_state, to_state)
values (now(), $1, 'default', 'task', 'ready', 'cancelled')
"""


@pytest.mark.contract("K10")
@pytest.mark.parametrize("began", ["before", "meanwhile", "resumed"])
async def test_a_row_that_commits_late_is_not_skipped(
    app: Ferryman, client: Client, database_url: str, began: str
) -> None:
    late, quick = [await app.tasks.create("greet", name=name) for name in ("late", "quick")]
    if began == "before":
        await app.log.follow().begin(10)  # so that the reader is open when the writer begins
    writer = await asyncpg.connect(database_url)
    try:
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute(TELL, late.id)
        async with listening(client, "?after=2" if began == "resumed" else "") as ear:
            await quick.cancel()
            assert (await app.log.page(after=2)).items == []
            await transaction.commit()
            told = [each["subject"] for each in await ear.events(2)]
    finally:
        await writer.close()
    assert told == [str(late.id), str(quick.id)]


@pytest.mark.contract("K10")
async def test_all_followers_share_one_reader_and_a_slow_one_is_cut(
    app: Ferryman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "WAITING_MAX", 10)
    looks = 0
    plain = Reader._look

    async def counted(self: Reader) -> None:
        nonlocal looks
        looks += 1
        await plain(self)

    monkeypatch.setattr(Reader, "_look", counted)
    reader = Reader(app.database, app.doorbell, topics=("ready", "cancel"))
    many = [reader.follow(Choice("default")) for _ in range(50)]
    for each in many:
        await each.begin(10)
        await each.next(0)  # near enough to hear what the reader reads
    slow = many[0]
    seen: list[int] = []
    try:
        for _ in range(4):
            await app.tasks.create_many("greet", [{"name": "x"}] * 4)
            for each in many[1:]:
                got = [event.id for event in await each.next(10)]
                seen += got if each is many[1] else []
        while len(seen) < 16:
            seen += [event.id for event in await many[1].next(10)]
        assert seen == list(range(1, 17))
        assert looks < 50
        assert slow.over
        given = [event.id for event in await slow.next(1)]
        again = reader.follow(Choice("default"), after=slow.position)
        while len(given) < 16:
            given += [event.id for event in await again.next(10)]
        assert given == seen
    finally:
        await reader.close()


@pytest.mark.contract("S4")
async def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STUCK_SECONDS", 0.01)
    sent: list[str] = []
    gone = asyncio.Event()

    async def left() -> None:
        gone.set()

    async def tell(seconds: float) -> bytes:
        return b"data: 1\n\n"

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message.get("body"):
            await asyncio.Event().wait()

    async def receive() -> Any:
        return await asyncio.Event().wait()

    stream = streams.Stream(tell, rouse=gone.set, left=left, closing=asyncio.Event())
    await asyncio.wait_for(stream({"type": "http"}, receive, send), PATIENCE_SECONDS)
    assert sent == ["http.response.start", "http.response.body"]
    assert gone.is_set()


@pytest.mark.contract("R6")
async def test_a_stream_that_is_broken_off_leaves_nothing_behind() -> None:
    async def source() -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b""

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    began = asyncio.Event()

    async def send(_message: Any) -> None:
        began.set()

    before = asyncio.all_tasks()
    stream = asyncio.create_task(streams.told(source(), closing=asyncio.Event())({"type": "http"}, receive, send))
    await began.wait()
    await asyncio.sleep(0)  # it waits for what is to come
    stream.cancel()
    await asyncio.wait([stream])
    for _ in range(3):  # what was cancelled with it ends
        await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


@pytest.mark.contract("S4")
async def test_whoever_listens_is_let_go_when_the_server_closes() -> None:
    closing, closed = asyncio.Event(), asyncio.Event()
    sent: list[bytes] = []

    async def silence() -> AsyncGenerator[bytes, None]:
        try:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if message.get("body"):
            closing.set()

    async def receive() -> Any:
        return await asyncio.Event().wait()

    stream = streams.told(silence(), closing=closing)
    await asyncio.wait_for(stream({"type": "http"}, receive, send), PATIENCE_SECONDS)
    assert sent[1] == b"data: 1\n\n"
    assert sent[-1] == b""
    assert closed.is_set()


@pytest.mark.contract("K10", "S4")
async def test_a_stream_from_before_what_is_kept_is_told_of_the_gap(
    app: Ferryman, client: Client, database_url: str
) -> None:
    for _ in range(3):
        await app.tasks.create("greet", name="x")
    async with listening(client, "?after=1") as ear:
        assert [each["id"] for each in await ear.events(2)] == [2, 3], "nothing was dropped yet"
    await days.drop_the_first(database_url)
    dropped = {"from": 2, "to": 3, "reason": "dropped", "resume": "3"}
    async with listening(client, "?after=1") as ear:
        assert await ear.events(1) == [dropped], "nothing is left of the log"
        made = await app.tasks.create("greet", name="y")
        [born] = await ear.events(1)
        assert (born["id"], born["subject"], "evt_" + str(ear.last)) == (4, str(made.id), born["event_id"])
    async with listening(client, Last_Event_ID="1") as ear:
        gap, born = await ear.events(2)
        assert (gap, born["id"]) == (dropped, 4)
    async with listening(client, Last_Event_ID="3") as ear:
        assert [each["id"] for each in await ear.events(1)] == [4], (
            "whoever saw the last that was dropped missed nothing"
        )


@pytest.mark.contract("K10")
async def test_who_comes_while_a_stranger_is_open_hears_when_it_has_ended_and_misses_nothing(
    app: Ferryman, database_url: str
) -> None:
    """Who followed before hears at once: where nothing is missing, the stranger can have nothing to add."""
    before, reader = (Reader(app.database, app.doorbell, topics=("ready",)) for _ in range(2))
    there = before.follow(Choice("default"))
    assert await there.begin(10)
    await there.next(0)  # near enough to hear what the reader reads
    stranger = await asyncpg.connect(database_url)
    try:
        async with stranger.transaction():
            await stranger.execute("select pg_current_xact_id()")
            late = reader.follow(Choice("default"))
            assert not await late.begin(0.5)
            made = await app.tasks.create("greet", name="meanwhile")
            assert [event.subject for event in await there.next(10)] == [made.id]
            assert await late.next(0.5) == ()
        assert [event.subject for event in await late.next(10)] == [made.id]
    finally:
        await before.close()
        await reader.close()
        await stranger.close()


@pytest.mark.contract("K10")
async def test_the_reader_rests_while_nobody_follows(app: Ferryman) -> None:
    reader = Reader(app.database, app.doorbell, topics=("ready",))
    first = reader.follow(Choice("default"))
    await first.begin(10)
    assert reader._running is not None
    running = reader._running
    first.leave()
    reader._rung.set()
    await asyncio.wait_for(running, PATIENCE_SECONDS)
    await app.tasks.create("greet", name="unheard")
    second = reader.follow(Choice("default"))
    try:
        await second.begin(10)
        made = await app.tasks.create("greet", name="x")
        assert [event.subject for event in await second.next(10)] == [made.id]
    finally:
        await reader.close()


@pytest.mark.contract("K10")
async def test_the_reader_outlives_whatever_it_meets(app: Ferryman, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(app.database, app.doorbell, topics=("ready",))
    follower = reader.follow(Choice("default"))
    await follower.begin(10)
    tail, met = events.tail, asyncio.Event()

    async def broken(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(events, "tail", tail)
        met.set()
        raise LookupError("not one of ours")

    monkeypatch.setattr(events, "tail", broken)
    try:
        while not met.is_set():  # a look that was under way may see the first
            made = await app.tasks.create("greet", name="x")
            assert [event.subject for event in await follower.next(10)] == [made.id]
    finally:
        await reader.close()
