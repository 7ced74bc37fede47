"""What every request and every answer is held to (S6)."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from ferryman import Ferryman
from ferryman.http import defence
from ferryman.http.callers import Reading
from ferryman.http.rates import Rates
from ferryman.http.server import make
from tests.access.conftest import MakeApp, operator
from tests.access.wire import Reply, Wire, nothing
from tests.patience import PATIENCE_SECONDS

GREET = {"name": "greet", "payload": {"name": "Ada"}}
BODY = b'{"name": "greet", "payload": {"name": "' + b"x" * 2000 + b'"}}'


def furnished(app: Ferryman) -> FastAPI:
    """The server, with routes that misbehave."""
    web = make(app)

    @web.get("/test/forgotten")
    async def forgotten() -> str:
        return "open to all"

    @web.get("/test/slow")
    async def slow(visit: Reading) -> None:
        await asyncio.Event().wait()

    @web.get("/test/broken")
    async def broken(visit: Reading) -> None:
        raise RuntimeError("secret words")

    @web.get("/test/split")
    async def split(visit: Reading) -> Response:
        return Response(headers={"X-Said": "a\r\nSet-Cookie: x=1"})

    @web.post("/test/deaf")
    async def deaf(visit: Reading, request: Request) -> str:
        try:
            await request.body()
        except Exception:  # noqa: BLE001 - whatever the application makes of it
            return "all is well"
        return "read"

    streaming(web)
    return web


def streaming(web: FastAPI) -> None:
    """Add streams that do not end by themselves."""

    @web.get("/test/silence")
    async def silence(visit: Reading) -> Response:
        async def words() -> AsyncIterator[str]:
            yield "data: tick\n\n"
            await asyncio.Event().wait()

        return StreamingResponse(words(), media_type="text/event-stream")

    @web.get("/test/stream")
    async def stream(visit: Reading, request: Request) -> Response:
        async def words() -> AsyncIterator[str]:
            while True:
                yield "data: tick\n\n"
                await asyncio.sleep(0)

        return StreamingResponse(words(), media_type="text/event-stream")


@pytest.mark.contract("S6")
async def test_every_answer_tells_browsers_to_run_nothing_but_our_own_files(wire: Wire) -> None:
    for target in ("/v1/tasks", "/healthz", "/nothing", "/openapi.json", "/v1/tasks/nobody"):
        _check_headers(await wire.get(target))


def _check_headers(answer: Reply) -> None:
    policy = dict(
        part.strip().partition(" ")[::2] for part in (answer.header("content-security-policy") or "").split(";")
    )

    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert set(policy.values()) == {"'none'", "'self'"}
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("x-frame-options") == "DENY"
    assert answer.header("referrer-policy") == "same-origin"
    assert answer.header("cross-origin-opener-policy") == answer.header("cross-origin-resource-policy") == "same-origin"
    assert "camera=()" in (answer.header("permissions-policy") or "")
    assert answer.header("cache-control") == "no-store"
    assert answer.header("access-control-allow-origin") is None
    assert answer.header("server") is None


@pytest.mark.contract("S6")
async def test_a_route_that_forgot_to_say_what_it_needs_is_closed_all_the_same(app: Ferryman) -> None:
    await operator(app)
    wire = Wire(furnished(app))

    assert (await wire.get("/test/forgotten")).status == 401
    assert (await wire.get("/nothing")).status == 401


@pytest.mark.contract("S6", "R6")
async def test_a_body_is_read_up_to_the_limit_whatever_it_says_of_its_length(make_app: MakeApp) -> None:
    app = await make_app(doorbell="none", http={"body_limit": 1024})
    wire = Wire(furnished(app))
    pieces = [BODY[at : at + 100] for at in range(0, len(BODY), 100)]

    said = await wire.post("/v1/tasks", BODY)
    chunked = await wire.ask("POST", "/v1/tasks", chunks=pieces, content_type="application/json")
    lied = await wire.ask("POST", "/v1/tasks", chunks=pieces, content_type="application/json", content_length="10")
    absurd = await wire.ask("POST", "/v1/tasks", b"{}", content_length="9" * 400)
    formed = await wire.ask("POST", "/login", chunks=pieces, content_type="application/x-www-form-urlencoded")
    deaf = await wire.ask("POST", "/test/deaf", chunks=pieces)

    for answer in (said, chunked, lied, absurd, formed, deaf):
        assert (answer.status, answer.code) == (413, "BODY_TOO_LARGE")
    assert (await wire.post("/v1/tasks", GREET)).status == 201
    assert len(await app.tasks.list()) == 1


@pytest.mark.contract("S6", "R7")
async def test_who_is_not_known_yet_is_read_less_of(wire: Wire) -> None:
    kind = "application/x-www-form-urlencoded"

    said = await wire.ask("POST", "/login", b"&" * 100_000, content_type=kind)
    chunked = await wire.ask("POST", "/login", chunks=[b"&" * 1000] * 100, content_type=kind)
    known = await wire.post("/v1/tasks", GREET | {"payload": {"name": "x" * 100_000}})

    assert [(each.status, each.code) for each in (said, chunked)] == [(413, "BODY_TOO_LARGE")] * 2
    assert known.status == 201


@pytest.mark.contract("S6", "R6")
async def test_addresses_and_headers_are_bounded(wire: Wire) -> None:
    long = await wire.get("/v1/tasks?name=" + "x" * 9000)
    path = await wire.get("/v1/tasks/" + "x" * 9000)
    wide = await wire.get("/v1/tasks", x_big="x" * 40_000)
    many = await wire.ask("GET", "/v1/tasks", headers=[(f"x-{n}", "1") for n in range(150)])

    for answer in (long, path, wide, many):
        assert (answer.status, answer.code) == (431, "REQUEST_HEAD_TOO_LARGE")


@pytest.mark.contract("S6", "R6")
async def test_an_address_that_is_no_text_is_refused(wire: Wire) -> None:
    for target in ("/v1/tasks/%00", "/v1/tasks?name=a%00b", "/v1/%0d%0aX:1", "/v1/tasks/%7f", "/v1/tasks/%c2%85"):
        assert (await wire.get(target)).code == "REQUEST_INVALID"


@pytest.mark.contract("S6")
async def test_each_caller_has_its_own_rate(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    # In no time: however long the requests take, no bucket fills meanwhile.
    monkeypatch.setattr(defence, "Rates", partial(Rates, clock=lambda: 0.0))
    app = await make_app(doorbell="none", http={"rate": 1, "burst": 5})
    wire = Wire(make(app))
    one, other = [(await app.tokens.create(name)).text for name in ("one", "other")]

    said = [await wire.of(one).get("/v1/tasks") for _ in range(7)]
    probed = [(await wire.get("/healthz")).status for _ in range(7)]

    assert [each.status for each in said] == [200] * 5 + [429] * 2
    assert said[-1].code == "RATE_EXCEEDED"
    assert said[-1].header("retry-after") == "1"
    assert (await wire.of(other).get("/v1/tasks")).status == 200
    assert probed[-1] == 429


@pytest.mark.contract("S6")
async def test_a_request_ends_in_its_time(make_app: MakeApp) -> None:
    app = await make_app(doorbell="none", http={"request_time": "0.1s"})

    answer = await Wire(furnished(app)).get("/test/slow")

    assert (answer.status, answer.code) == (503, "REQUEST_TIMED_OUT")
    assert answer.header("retry-after") == "1"


@pytest.mark.contract("S6", "K20")
async def test_what_broke_is_told_without_its_words(app: Ferryman, caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(furnished(app))
    said: list[bytes] = []

    async def seen(message: object) -> None:
        said.append(repr(message).encode())

    with pytest.raises(RuntimeError):
        await wire.ask("GET", "/test/broken", seen=seen)

    assert b"FERRYMAN_ERROR" in b"".join(said)
    assert b"default-src" in said[0]
    assert b"secret words" not in b"".join(said)


@pytest.mark.contract("S6")
async def test_a_header_of_two_lines_goes_nowhere(app: Ferryman) -> None:
    said: list[object] = []

    async def seen(message: object) -> None:
        said.append(message)

    answer = await Wire(furnished(app)).ask("GET", "/test/split", seen=seen)

    assert "Set-Cookie" not in repr(said)
    assert answer.status == 500


@pytest.mark.contract("S6")
async def test_only_so_many_streams_are_open_at_once(make_app: MakeApp) -> None:
    app = await make_app(doorbell="none", http={"streams_of_one": 1})
    wire = Wire(furnished(app))
    begun, enough = asyncio.Event(), asyncio.Event()

    async def seen(_message: object) -> None:
        begun.set()
        if enough.is_set():
            raise ConnectionResetError

    async def listen() -> None:
        with pytest.raises(BaseException):  # noqa: B017, PT011 - however the framework says that the reader is gone
            await wire.ask("GET", "/test/stream", seen=seen)

    first = asyncio.create_task(listen())
    await begun.wait()
    second = await wire.get("/test/stream")
    assert (second.status, second.code, second.header("retry-after")) == (429, "RATE_EXCEEDED", "5")
    enough.set()
    await first
    begun.clear()
    third = asyncio.create_task(listen())
    await begun.wait()
    await third


@pytest.mark.contract("S6")
async def test_a_stream_ends_with_its_token(app: Ferryman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defence, "LOOK_SECONDS", 0.01)
    made = await app.tokens.create("ci")
    begun = asyncio.Event()

    async def seen(_message: object) -> None:
        begun.set()

    reading = asyncio.create_task(Wire(furnished(app), token=made.text).ask("GET", "/test/silence", seen=seen))
    await begun.wait()
    assert not reading.done()
    await app.tokens.revoke("ci")

    answer = await asyncio.wait_for(reading, PATIENCE_SECONDS)
    assert answer.status == 200
    assert answer.body.endswith(b"data: tick\n\n")


@pytest.mark.contract("S6")
async def test_a_stream_may_last_longer_than_a_request_and_not_for_ever(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defence, "STREAM_SECONDS", 2.5)
    app = await make_app(doorbell="none", http={"request_time": "2s"})
    wire = Wire(furnished(app))
    await wire.get("/v1/tasks")  # what is done once is done: a stream has to begin within the time of a request
    began = asyncio.get_running_loop().time()

    answer = await wire.ask("GET", "/test/silence", seen=nothing)

    assert answer.status == 200
    assert asyncio.get_running_loop().time() - began > 2.4


@pytest.mark.contract("S6")
async def test_there_are_no_websockets(app: Ferryman) -> None:
    said: list[object] = []

    async def send(message: object) -> None:
        said.append(message)

    async def receive() -> object:
        return {"type": "websocket.connect"}

    await make(app)({"type": "websocket", "path": "/", "headers": []}, receive, send)  # type: ignore[arg-type]

    assert "websocket.close" in repr(said)
