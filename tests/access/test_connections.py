"""Clients that keep a server waiting, over real sockets: none of them keeps its connection, and none keeps others out (S6)."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ferryman import Ferryman
from ferryman.cli import metrics
from ferryman.http import connections, serving
from ferryman.http.connections import Connections, within_reach
from ferryman.kernel import telemetry
from tests.access.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
STREAM = b"GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
CREATE = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# More than the answer to it.
DOCUMENT_SIZE = 1024 * 1024
SHORT = "0.5s"
# Longer than that, for what must not be ended by it.
LONGER = 0.8


@dataclass(frozen=True)
class Line:
    """A connection of a client that says what it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> bytes:
        """Read one answer with its body; none where the server has hung up."""
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
            length = next(int(each[15:]) for each in head.split(b"\r\n") if each.startswith(b"content-length:"))
            return head + await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    async def rest(self) -> bytes:
        """Read until the server hangs up."""
        return b"".join([each async for each in self._pieces()])

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), PATIENCE_SECONDS):
                yield piece
        except ConnectionError:
            return

    async def trickle(self, pieces: Iterable[bytes]) -> bytes:
        """Send piece after piece, some each second, until the server hangs up; return what it said meanwhile."""
        listening = asyncio.ensure_future(self.rest())
        for piece in pieces:
            self.writer.write(piece)
            if (await asyncio.wait([listening], timeout=0.02))[0]:
                break
        return await listening

    async def flood(self, piece: bytes, most: int) -> int:
        """Send a piece again and again, as fast as the server takes it, until it hangs up; return how much was sent."""
        sent = 0
        try:
            while sent < most:
                self.writer.write(piece)
                await self.writer.drain()
                sent += len(piece)
        except ConnectionError:
            pass
        return sent


@dataclass(frozen=True)
class Place:
    """A server that runs, and its connections."""

    port: int
    open: Connections

    @asynccontextmanager
    async def line(self, *sent: bytes) -> AsyncIterator[Line]:
        """Connect, and say something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024 * 1024)
        try:
            for each in sent:
                writer.write(each)
                await writer.drain()
            yield Line(reader, writer)
        finally:
            writer.close()

    async def until(self, count: int) -> None:
        """Wait until so many connections are open."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.open) != count:  # noqa: ASYNC110 - it is the server that counts, and it tells nobody
                await asyncio.sleep(0.01)


class MakePlace:
    """Serves apps of a test with settings of their own."""

    def __init__(self, make_app: MakeApp, made: list[Connections]) -> None:
        self._make_app = make_app
        self._made = made

    @asynccontextmanager
    async def __call__(self, **http: Any) -> AsyncIterator[Place]:
        app = await self._make_app(doorbell="none", http=http, worker={"grace": "1s"})
        async with self.of(app) as place:
            yield place

    @asynccontextmanager
    async def of(self, app: Ferryman) -> AsyncIterator[Place]:
        async with serving.serving(app, port=0) as served:
            yield Place(served.port, self._made[-1])


@pytest.fixture
def place(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> MakePlace:
    made: list[Connections] = []

    def kept(*given: Any) -> Connections:
        made.append(Connections(*given))
        return made[-1]

    monkeypatch.setattr(serving, "Connections", kept)
    return MakePlace(make_app, made)


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol], ids=["httptools", "h11"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read HTTP by each of the two that may be installed."""
    monkeypatch.setattr(connections, "AutoHTTPProtocol", request.param)


either = pytest.mark.usefixtures("_either")


@either
@pytest.mark.contract("S6", "R7")
async def test_who_sends_nothing_is_let_go(place: MakePlace) -> None:
    async with place(head_time="0.1s") as here, here.line() as silent:
        assert await silent.rest() == b""
        await here.until(0)


@either
@pytest.mark.contract("S6", "R7")
async def test_a_head_that_comes_a_byte_at_a_time_is_not_waited_for(place: MakePlace) -> None:
    clock = asyncio.get_running_loop().time
    async with place(head_time=SHORT) as here, here.line(b"GET /healthz HTTP/1.1\r\nX: ") as slow:
        began = clock()
        assert await slow.trickle(repeat(b"x")) == b""

    assert 0.4 < clock() - began < 20


@either
@pytest.mark.contract("S6", "R7")
async def test_the_head_of_a_later_request_has_no_more_time_than_the_first(place: MakePlace) -> None:
    async with place(head_time="0.1s") as here, here.line(HEALTH) as slow:
        assert (await slow.answer()).startswith(b"HTTP/1.1 200")
        assert await slow.trickle(chain([HEALTH[:-2]], repeat(b"X: y\r\n"))) == b""


@either
@pytest.mark.contract("S6", "R7")
async def test_a_body_that_trickles_ends_with_the_time_of_its_request(place: MakePlace) -> None:
    async with (
        place(head_time="0.1s", request_time=SHORT) as here,
        here.line(CREATE + b"Content-Length: 100000\r\n\r\n") as slow,
    ):
        said = await slow.trickle(repeat(b" "))

    assert said.startswith(b"HTTP/1.1 503")
    assert b"REQUEST_TIMED_OUT" in said


@either
@pytest.mark.contract("S6", "R7")
async def test_the_rest_of_a_body_is_not_waited_for_when_its_request_was_answered(place: MakePlace) -> None:
    asked = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"
    async with place(head_time=SHORT) as here:
        for length in (b"Content-Length: 100000", b"Transfer-Encoding: chunked"):
            async with here.line(asked % length) as slow:
                assert (await slow.trickle(repeat(b"1\r\nx\r\n"))).startswith(b"HTTP/1.1 404")


@asynccontextmanager
async def deaf(here: Place, asked: bytes) -> AsyncIterator[None]:
    """Ask for more than fits on the way, and do not read it."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", here.port))
        await here.until(1)
        [met] = here.open._open
        met.transport.set_write_buffer_limits(DOCUMENT_SIZE)
        await loop.sock_sendall(client, asked)
        while not met.transport.get_write_buffer_size():  # noqa: ASYNC110 - a transport tells nobody
            await asyncio.sleep(0.01)
        yield


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system keep little of what was not read, so that most of it stays with the server."""
    bind = serving._bind

    def bound(*given: Any) -> socket.socket:
        made = bind(*given)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return made

    monkeypatch.setattr(serving, "_bind", bound)


@either
@pytest.mark.usefixtures("_narrow")
@pytest.mark.contract("S6", "R7")
async def test_an_answer_that_nobody_reads_is_given_up(place: MakePlace) -> None:
    last = DOCUMENT[:-2] + b"Connection: close\r\n\r\n"
    async with place(head_time="0.1s") as here:
        for asked in (last, DOCUMENT * 5):
            async with deaf(here, asked):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(here.until(0), LONGER)
                here.open._unread = 20
                await here.until(0)
            here.open._unread = 1_000_000


@either
@pytest.mark.contract("S6")
async def test_a_stream_goes_on_for_who_reads_now_and_then_and_ends_for_who_has_stopped(place: MakePlace) -> None:
    clock = asyncio.get_running_loop().time
    async with place(head_time="0.1s") as here, here.line(STREAM) as listens:
        assert (await listens.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        here.open._unread = 20
        [met] = here.open._open
        began = clock()
        while clock() - began < LONGER:
            met.resume_writing()
            met.pause_writing()
            await asyncio.sleep(0.02)
        assert len(here.open) == 1

        await here.until(0)


@pytest.mark.usefixtures("_narrow")
@pytest.mark.contract("S6")
async def test_a_server_that_ends_leaves_nobody_who_does_not_read(place: MakePlace) -> None:
    async with AsyncExitStack() as clients:
        async with place() as here:
            await clients.enter_async_context(deaf(here, DOCUMENT * 5))
        await here.until(0)


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "an address": (b"GET /", b"x" * 1000),
    "a header": (b"GET /healthz HTTP/1.1\r\nX: ", b"x" * 1000),
    "headers": (b"GET /healthz HTTP/1.1\r\n", b"a:b\r\n" * 200),
    "empty lines": (b"", b"\r\n" * 500),
    "a trailer": (CREATE + CHUNKED + b"0\r\nX: ", b"x" * 1000),
    "trailers": (CREATE + CHUNKED + b"0\r\n", b"a:b\r\n" * 200),
    "trailers of what was answered": (b"POST /nothing HTTP/1.1\r\n" + CHUNKED + b"0\r\n", b"a:b\r\n" * 200),
    "an extension": (CREATE + CHUNKED + b"1;", b"x" * 1000),
}


@either
@pytest.mark.contract("S6", "R6")
async def test_what_is_no_body_and_has_no_end_is_not_read_for_long(place: MakePlace) -> None:
    most = 32 * 1024 * 1024
    async with place(head_time="1m") as here:
        for what, (begun, piece) in ENDLESS.items():
            async with here.line(begun) as endless:
                assert await endless.flood(piece, most) < most, what
                assert (await endless.rest())[:10] in {b"", b"HTTP/1.1 4"}, what
                await here.until(0)


@either
@pytest.mark.contract("S6", "R7")
async def test_what_follows_a_body_is_no_header(make_app: MakeApp, place: MakePlace) -> None:
    app = await make_app(doorbell="none")
    token = (await app.tokens.create("ci")).text.encode()
    asked = b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n%s\r\n0\r\n%s\r\n"
    word = b"Authorization: Bearer %s\r\n" % token
    async with place.of(app) as here:
        async with here.line(asked % (b"", word)) as behind:
            assert (await behind.answer()).startswith(b"HTTP/1.1 401")
        async with here.line(asked % (word, b"X: y\r\n")) as before:
            assert (await before.answer()).startswith(b"HTTP/1.1 200")


@either
@pytest.mark.contract("S6", "R6")
async def test_many_whose_bodies_do_not_come_keep_nobody_out(place: MakePlace) -> None:
    asked = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    async with place(connections=5) as here, AsyncExitStack() as clients:
        for _ in range(30):
            await clients.enter_async_context(here.line(asked))
        async with here.line(HEALTH) as honest:
            assert (await honest.answer()).startswith(b"HTTP/1.1 200")
            assert len(here.open) <= 5


@either
@pytest.mark.contract("S6")
@pytest.mark.parametrize("path", ["/login", "/v1/tasks"])
async def test_who_hangs_up_in_the_middle_of_a_body_is_no_fault_of_ours(
    place: MakePlace, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    asked = CREATE.replace(b"/v1/tasks", path.encode()) + b"Content-Length: 100\r\n\r\n{"
    async with place() as here:
        async with here.line(asked):
            await here.until(1)
        await here.until(0)

    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


@either
@pytest.mark.contract("S6", "R7")
async def test_many_who_send_nothing_keep_nobody_out(place: MakePlace) -> None:
    async with place(connections=5) as here:
        silent = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(30)]
        async with here.line(HEALTH) as honest:
            assert (await honest.answer()).startswith(b"HTTP/1.1 200")
            assert len(here.open) == 5
        for _, writer in silent:
            writer.close()


@either
@pytest.mark.contract("S6")
async def test_who_is_being_answered_is_not_sent_away_for_another(make_app: MakeApp, place: MakePlace) -> None:
    app = await make_app(doorbell="none", http={"connections": 1})
    task = await app.tasks.create("greet", name="Ada")
    asked = f"GET /v1/tasks/{task.id}/result?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    async with place.of(app) as here, here.line(asked) as first:
        async with here.line(HEALTH) as second:
            assert await second.rest() == b""
        async with app.worker():
            assert b"Hello, Ada" in await first.answer()


@either
@pytest.mark.contract("S6")
async def test_who_is_slow_and_within_the_time_is_answered(place: MakePlace) -> None:
    body = b'{"name": "greet", "payload": {"name": "Ada"}}'
    asked = CREATE + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with place() as here, here.line() as slow:
        for at in range(0, len(asked), 5):
            slow.writer.write(asked[at : at + 5])
            await slow.writer.drain()
            await asyncio.sleep(0)
        assert (await slow.answer()).startswith(b"HTTP/1.1 201")


@either
@pytest.mark.contract("S6")
async def test_the_heads_of_two_requests_are_not_late_together(place: MakePlace) -> None:
    places = []
    async with place() as here, here.line() as slow:
        for _ in range(2):
            slow.writer.write(HEALTH[:20])
            await here.until(1)
            [met] = here.open._open
            while met.waits() is None:  # noqa: ASYNC110 - nobody is told that a piece of a head has come
                await asyncio.sleep(0)
            places.append(met.waits())
            slow.writer.write(HEALTH[20:])
            assert (await slow.answer()).startswith(b"HTTP/1.1 200")

    assert places[0] != places[1]


@either
@pytest.mark.contract("S6")
async def test_nobody_is_late_because_the_server_stood_still(place: MakePlace) -> None:
    async with place(head_time="0.1s") as here, here.line() as honest:
        await here.until(1)
        time.sleep(0.3)  # the loop is to stand still
        await asyncio.sleep(0.03)
        honest.writer.write(HEALTH)
        assert (await honest.answer()).startswith(b"HTTP/1.1 200")


@either
@pytest.mark.contract("S6")
async def test_pauses_long_answers_and_streams_are_no_heads_that_are_late(make_app: MakeApp, place: MakePlace) -> None:
    app = await make_app(doorbell="none", http={"head_time": SHORT})
    task = await app.tasks.create("greet", name="Ada")
    long = f"GET /v1/tasks/{task.id}/result?wait={LONGER} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    async with place.of(app) as here, here.line(HEALTH) as kept, here.line(long) as waits, here.line(STREAM) as listens:
        assert (await kept.answer()).startswith(b"HTTP/1.1 200")
        assert (await listens.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(kept.reader.read(1), LONGER)

        kept.writer.write(HEALTH)
        assert (await kept.answer()).startswith(b"HTTP/1.1 200")
        assert (await waits.answer()).startswith(b"HTTP/1.1 202")
        assert not listens.reader.at_eof()


@either
@pytest.mark.contract("S6")
async def test_requests_that_come_together_are_answered_one_after_another(place: MakePlace) -> None:
    async with place(head_time=SHORT) as here, here.line(HEALTH * 3 + HEALTH[:20]) as quick:
        assert [(await quick.answer())[:12] for _ in range(3)] == [b"HTTP/1.1 200"] * 3
        quick.writer.write(HEALTH[20:])
        assert (await quick.answer()).startswith(b"HTTP/1.1 200")


@pytest.mark.contract("S6", "R6")
async def test_requests_that_are_sent_without_end_ahead_of_their_answers_are_not_taken_in(
    place: MakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "AutoHTTPProtocol", HttpToolsProtocol)  # the other reads one at a time
    most = 32 * 1024 * 1024
    async with place() as here:
        async with here.line() as flooding:
            assert await flooding.flood(HEALTH * 1000, most) < most
            await here.until(0)
        async with here.line(HEALTH * connections.AHEAD) as honest:
            assert [(await honest.answer())[:12] for _ in range(connections.AHEAD)] == [
                b"HTTP/1.1 200"
            ] * connections.AHEAD


@either
@pytest.mark.contract("S6")
async def test_a_stream_whose_client_has_gone_ends_also_where_another_request_was_sent_ahead(
    place: MakePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, ended = telemetry.streaming, asyncio.Event()

    def count(change: int) -> None:
        counted(change)
        if change < 0:
            ended.set()

    monkeypatch.setattr(telemetry, "streaming", count)
    async with place() as here:
        async with here.line(STREAM + HEALTH) as gone:
            assert (await asyncio.wait_for(gone.reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)).startswith(
                b"HTTP/1.1 200"
            )
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)


@pytest.mark.contract("S6")
async def test_a_body_is_as_long_as_it_may_be_in_however_many_pieces(place: MakePlace) -> None:
    body = b'{"name": "greet", "payload": {"name": "' + b"x" * 300_000 + b'"}}'
    pieces = b"".join(b"5\r\n%b\r\n" % body[at : at + 5].ljust(5) for at in range(0, len(body), 5))
    asked = CREATE + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    async with place() as here, here.line(asked, HEALTH) as honest:
        assert (await honest.answer()).startswith(b"HTTP/1.1 201")
        assert (await honest.answer()).startswith(b"HTTP/1.1 200")


@either
@pytest.mark.contract("S6")
async def test_an_upgrade_is_passed_over(place: MakePlace, caplog: pytest.LogCaptureFixture) -> None:
    asked = HEALTH[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    async with place() as here, here.line(asked) as other:
        assert (await other.answer()).startswith(b"HTTP/1.1 200")

    assert "WebSocket" not in caplog.text


def ended(connection: socket.socket) -> bool:
    """Send a byte, and look for a moment whether the other end has hung up."""
    try:
        connection.send(b"x")
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.contract("S6")
def test_who_says_nothing_to_the_metrics_of_a_worker_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LONGEST_SECONDS", 0.3)
    with socket.socket() as kept:
        # Bound until the end, so that nobody else is given this port; who asks for it by its number may listen there.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        with metrics.serving(port):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
                assert silent.recv(1) == b""
            with socket.create_connection(("127.0.0.1", port), timeout=0.02) as dripping:
                deadline = time.monotonic() + 20
                while not ended(dripping):
                    assert time.monotonic() < deadline, "a byte now and then keeps a thread"


@pytest.mark.contract("S6")
def test_clients_do_not_get_all_descriptors_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert (within_reach(4000), within_reach(10)) == (768, 10)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert within_reach(4000) == 4000
