"""Bad input over HTTP: no 5xx, and nothing is stored on a refusal (R6)."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http import defence
from ferryman.http.server import make
from ferryman.http.serving import serving
from tests.access import aftermath, atlas, luck, town
from tests.access.atlas import Operation
from tests.access.wire import Reply, Wire
from tests.corpus.bad_payloads import TEXTS
from tests.corpus.bad_requests import NASTY_HEADERS, NASTY_TEXTS, NASTY_VALUES, TRICKS
from tests.patience import PATIENCE_SECONDS

# So many in the usual run; BAD_INPUTS=20000 tries that many.
BAD_INPUTS = int(os.environ.get("BAD_INPUTS", "300"))
EACH = 1


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    settings = {"rate": 1_000_000, "burst": 1_000_000, "request_time": "20s"}
    made = Ferryman(database_url, doorbell="none", relays={"webhook_key": town.KEY}, http=settings, tenant="acme")
    async with town.furnish(made) as opened:
        yield opened


@pytest.fixture
def web(app: Ferryman) -> FastAPI:
    return make(app)


@pytest.fixture
async def wire(app: Ferryman, web: FastAPI) -> Wire:
    return Wire(web, token=(await app.tokens.create("root", scopes="admin", tenant=ALL)).text)


def sound(answer: Reply, *what: object) -> Reply:
    assert answer.status < 500, (*what, answer.status, answer.body[:500])
    if answer.status >= 400:
        assert answer.header("content-type") == "application/problem+json", (*what, answer.status, answer.body[:500])
        told = answer.json
        assert told["code"], what
        assert told["message"], what
        assert told["advice"], what
        assert told["status"] == answer.status, what
    return answer


@pytest.mark.contract("R6", "K13")
async def test_a_body_that_is_no_json_which_can_be_stored_is_refused_by_every_route(
    app: Ferryman, web: FastAPI, wire: Wire
) -> None:
    await town.settle(app, "acme", "word")
    ids = await town.ids_of(app, "acme")
    before = await town.state(app)
    turns = itertools.cycle(TEXTS)
    for operation in atlas.operations(web.openapi()):
        if operation.body is None:
            continue
        few = TEXTS if operation.name == "POST /v1/tasks" else itertools.islice(turns, EACH)
        for name, text, _path in few:
            raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            if not raw:
                continue  # no body at all may be what a route takes
            answer = sound(await wire.ask(operation.method, town.home(operation, ids), raw), operation.name, name)
            # Whom it is addressed to is there: it is the body that is refused.
            there = town.ABSENT.isdisjoint(operation.path_names)
            assert answer.status in ({400, 413, 422} if there else {400, 404, 413, 422}), (operation.name, name)

    assert await town.state(app) == before


@pytest.mark.contract("R6")
async def test_headers_and_addresses_that_are_wrong_are_told_so(web: FastAPI, wire: Wire) -> None:
    turns = itertools.cycle(NASTY_HEADERS)
    texts = itertools.cycle(NASTY_TEXTS)
    for operation in atlas.operations(web.openapi()):
        target = operation.target().partition("?")[0]
        for header in itertools.islice(turns, EACH):
            answer = await wire.ask(operation.method, operation.target(), operation.example(), headers=[header])
            sound(answer, operation.name, header)
        for text in itertools.islice(texts, EACH):
            spelled = quote(text, safe="", errors="surrogatepass")
            readable = text.encode("utf-8", "replace").decode()
            sound(await wire.ask(operation.method, operation.target(lambda _each, it=readable: it)), text)  # type: ignore[misc]
            for each in operation.parameters:
                if each["in"] == "query":
                    query = f"{target}?{each['name']}={spelled}&{each['name']}={spelled}"
                    sound(
                        await wire.ask(operation.method, query, operation.example()), operation.name, each["name"], text
                    )


@pytest.mark.contract("S6", "R7")
async def test_no_spelling_of_an_address_leads_past_the_guard(web: FastAPI, wire: Wire) -> None:
    stranger = wire.of(None)
    for target in TRICKS:
        for method in ("GET", "POST", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get"):
            answer = await stranger.ask(
                method, target, x_http_method_override="GET", x_original_url="/metrics", x_rewrite_url="/metrics"
            )
            path = target.partition("?")[0]
            open_to_all = path in defence.PUBLIC or path.startswith(defence.PUBLIC_FILES)
            assert answer.status in ({200, 303, 401, 404, 405, 422} if open_to_all else {401, 422}), (method, target)
            assert b"ferryman_" not in answer.body, (method, target)
            assert b"root:" not in answer.body, (method, target)


@pytest.mark.contract("R6")
@pytest.mark.timeout(240 + BAD_INPUTS // 10)
async def test_thousands_of_bad_inputs_break_nothing(
    app: Ferryman, web: FastAPI, wire: Wire, database_url: str
) -> None:
    await town.settle(app, "acme", "word")
    ids = await town.ids_of(app, "acme")
    operations = atlas.operations(web.openapi())
    creating = [each for each in operations if each.name in town.RIGHT]
    chance = luck.dice()
    statuses: Counter[int] = Counter()

    async with aftermath.noted(app) as noted:
        for number in range(BAD_INPUTS):
            operation = chance.choice(creating if chance.random() < 0.2 else operations)
            spoil = spoiled if chance.random() < 0.5 else odd
            target, body, headers = spoil(operation, chance, ids)
            answer = await wire.ask(operation.method, target, body, headers=headers)
            sound(answer, number, operation.method, target, body, headers)
            statuses[answer.status] += 1
            stored = await noted.since()
            assert answer.status < 400 or not stored, (number, operation.name, target, body, answer.body, stored)

    assert sum(statuses[status] for status in statuses if status >= 400) > BAD_INPUTS / 2, statuses
    assert sum(statuses[status] for status in (201, 202)) > BAD_INPUTS / 30, statuses
    await aftermath.read(app, web.openapi(), wire)
    await aftermath.resumed(app, wire)
    await aftermath.fired(app, wire)
    await aftermath.worked(app, database_url, seconds=60 + BAD_INPUTS / 50)
    await aftermath.read(app, web.openapi(), wire)


Spoiled = tuple[str, Any, list[tuple[str, str]]]


def spoiled(operation: Operation, chance: random.Random, ids: dict[str, str]) -> Spoiled:
    """Return a request with something wrong in it, at one place or several."""
    known = sorted({*ids.values()})

    def text(_each: object = None) -> str:
        given = chance.choice(known) if chance.random() < 0.5 else chance.choice(NASTY_TEXTS)
        return given.encode("utf-8", "replace").decode()[:4000]

    target = operation.target(text)
    queries = [each["name"] for each in operation.parameters if each["in"] == "query"]
    chosen = [name for name in queries if chance.random() < 0.4]
    if chosen:
        asked = "&".join(f"{name}={quote(text(), safe='')[:2000]}" for name in chosen)
        target = f"{target.partition('?')[0]}?{asked}"
    body: Any = None
    if operation.body is not None:
        body = atlas.example(operation.body, whole=chance.random() < 0.5)
        places = [at for at in atlas.places(body) if at]
        for at in chance.sample(places, min(len(places), chance.randint(1, 2))):
            body = atlas.put(body, at, chance.choice(NASTY_VALUES))
        if chance.random() < 0.1:
            body = chance.choice(NASTY_VALUES)
        body = json.dumps(body).encode()
    headers = [chance.choice(NASTY_HEADERS)] if chance.random() < 0.2 else []
    return target, body, headers


def odd(operation: Operation, chance: random.Random, ids: dict[str, str]) -> Spoiled:
    """Return a request to somebody who is there, with one value that is odd, and mostly of the kind that is asked for."""
    body: Any = None
    if operation.body is not None:
        body = dict(town.RIGHT.get(operation.name) or operation.example())
        whole = atlas.example(operation.body, whole=True)
        free = [field for field in whole if whole[field] is None]
        field = chance.choice(free if free and chance.random() < 0.5 else sorted(whole))
        alike = [value for value in NASTY_VALUES if whole[field] is None or type(value) is type(whole[field])]
        body = json.dumps(body | {field: chance.choice(alike or NASTY_VALUES)}).encode()
    return town.home(operation, ids), body, []


@pytest.mark.contract("R6", "S6")
async def test_what_is_no_http_is_refused_and_the_server_goes_on(app: Ferryman) -> None:
    raw = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n Folded: x\r\n\r\n",
        b"GET /v1/tasks HTTP/9.9\r\n\r\n",
        b"GET /v1/tasks\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50,
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/tasks HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ]
    token = (await app.tokens.create("root", scopes="admin", tenant=ALL)).text
    async with serving(app, port=0) as served:
        for sent in raw:
            said = await _speak(served.port, sent)
            assert not said or said.split()[1][:1] in {b"4"}, (sent[:60], said[:80])
        fine = (
            f"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        assert (await _speak(served.port, fine.encode())).startswith(b"HTTP/1.1 200")


async def _speak(port: int, sent: bytes) -> bytes:
    """Send bytes, and return what is answered first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, family=socket.AF_INET)
    try:
        writer.write(sent)
        await writer.drain()
        return await asyncio.wait_for(reader.read(65536), PATIENCE_SECONDS)
    except ConnectionError:
        return b""
    finally:
        writer.close()
