"""Agents on NATS, against a real server: what a turn streams, and where their events stand (A15)."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.msg import Msg

from ferryman import Ferryman, Turn
from ferryman.kernel import ids
from ferryman.kernel.nats_flush import flush_all
from ferryman.kernel.stream import Streams
from ferryman.testing import NatsServer
from tests.patience import PATIENCE_SECONDS


@pytest.mark.contract("A15", "A13", "K12")
async def test_what_a_turn_streams_and_what_happens_to_it_stand_under_its_agent(
    database_url: str, nats_server: NatsServer
) -> None:
    """One app works, as in a process of its own, another listens; the tenants differ in one character of their names."""
    listening, heard_there = asyncio.Event(), asyncio.Event()
    prefix = f"turns{ids.new_id().hex}"  # a server is for many tests, a stream for one database

    def made(tenant: str, **relays: str) -> Ferryman:
        return Ferryman(
            database_url, nats_url=nats_server.url, tenant=tenant, doorbell="postgres",
            relays={"prefix": prefix, "stream": prefix, **relays},
        )  # fmt: skip

    app = made("a.b", nats="on")

    @app.agent
    async def talker(turn: Turn) -> str:
        await listening.wait()
        for word in ("one", "two"):
            turn.emit(word)
        await heard_there.wait()  # no end waits for what is streamed, and it may be there first
        return await turn.step("think", lambda: "done")

    heard: list[Msg] = []

    async def hear(message: Msg) -> None:
        heard.append(message)

    client = await nats.connect(nats_server.url)
    await client.subscribe(f"{prefix}.>", cb=hear)
    await flush_all(client)
    async with made("a.b") as page, app, app.worker():
        await app.agents.ensure("ann", talker)
        sent = await app.agents.send("ann", "go", channel="tea")
        here = asyncio.create_task(told(app.agents.stream(sent.id)))
        there = asyncio.create_task(told(page.agents.stream(sent.id), last=("two", heard_there)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(str(sent.id) in door._open.streams._listeners for door in (app, page)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for door in (app, page):
                while not door._open.streams._client or not door._open.streams._client._subs:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await flush_all(door._open.streams._client)
            listening.set()
            found = await sent.end()
            # Who is in the process of the turn hears each word once, and so does who is elsewhere.
            assert await here == await there == ["one", "two"]
            while not any(each.subject.endswith(".task") for each in heard):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await client.close()

    place = f"{prefix}.v1.a=2Eb.tea"
    words = [json.loads(each.data) for each in heard if ".str." in each.subject]
    assert {each.subject for each in heard if ".str." in each.subject} == {f"{place}.str.agent.ann.chunk"}
    assert words == [{"key": str(sent.id), "text": text} for text in ("one", "two")]
    events = [each for each in heard if each.subject.startswith(f"{place}.evt.")]
    assert {each.subject for each in events} == {f"{place}.evt.agent.ann.{kind}" for kind in ("state", "step", "task")}
    assert len(events) + len(words) == len(heard)
    [end] = [json.loads(each.data) for each in events if each.subject.endswith(".task")]
    told_of = (end["agent_id"], end["agent_turn_id"], end["status"], end["data"]["deliverable_card_id"])
    assert told_of == ("ann", str(sent.id), "success", str(found.deliverable_card_id))


@pytest.mark.contract("A15", "R6")
async def test_what_strangers_say_on_the_subject_of_a_stream_is_not_told_and_stops_nobody(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    key, to = "a turn", f"strangers.{ids.new_id().hex}"
    streams, stranger = Streams(nats_server.url), await nats.connect(nats_server.url)
    word = {"key": key, "text": "one"}
    async with asyncio.timeout(PATIENCE_SECONDS), streams.listen(key, to=to) as heard:
        for said in (
            "look",
            None,
            5,
            [],
            [key],
            {},
            {"key": key},
            {**word, "text": {}},
            {**word, "key": "another turn"},
        ):
            await stranger.publish(to, json.dumps(said).encode())
        for spoiled in (b"", b"\xff", b"[" * 100_000):
            await stranger.publish(to, spoiled)
        await stranger.publish(to, json.dumps(word).encode())

        assert await heard.get() == "one"
    await stranger.close()
    await streams.close()
    assert caplog.records == []


@pytest.mark.contract("A15", "K24")
async def test_a_stream_whose_server_stands_still_is_closed_all_the_same(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as frozen:
        streams = Streams(frozen.url)
        client = await streams._connected()
        wire = client._transport._io_writer.transport  # type: ignore[union-attr]
        others = asyncio.all_tasks()
        for n in range(3):
            await client.subscribe(f"frozen.{n}", cb=_nothing)
        hearing = asyncio.all_tasks() - others
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            wire.write(bytes(64 * 1024 * 1024))  # more than the buffers between it and us hold
            streams.say("a turn", "one", to="frozen")
            ended, _ = await asyncio.wait([closing := asyncio.create_task(streams.close())], timeout=10)
            left = wire.get_write_buffer_size()
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await asyncio.wait([closing])

    assert ended == {closing}
    assert (wire.is_closing(), left) == (True, 0)
    assert len(hearing) == 3
    assert hearing & asyncio.all_tasks() == set()  # the client goes to its subscriptions last


async def _nothing(_message: Any) -> None:
    pass


async def told(words: Any, *, last: tuple[str, asyncio.Event] | None = None) -> list[str]:
    """Collect what is streamed; tell when a word has come."""
    found = []
    async for word in words:
        found.append(word)
        if last is not None and word == last[0]:
            last[1].set()
    return found
