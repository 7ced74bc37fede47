"""Every route with every caller who must not be let in, and with everything that is another tenant's (S6, R7).

The routes are read from the OpenAPI document, and what is another tenant's from the tables: a new route and a new table are
tried without a change here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from ferryman import Ferryman
from ferryman.access.model import Scope, allows
from ferryman.app import wiring
from ferryman.app.tokens import ALL
from ferryman.http import defence, streams
from ferryman.http.server import make
from ferryman.kernel import invariants
from ferryman.testing import travel
from tests.access import atlas, town
from tests.access.atlas import Operation
from tests.access.wire import Reply, Wire

WORD, OWN_WORD = "kilimanjaro", "moshi"
OURS, THEIRS = "acme", "rival"
# What takes only numbers and words of its own: no id can be right there.
IDLESS = {"PATCH /v1/queues/{name}"}


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    # Nobody here is to be told to come more slowly.
    http = {"rate": 1_000_000, "burst": 1_000_000}
    made = Ferryman(database_url, doorbell="none", relays={"webhook_key": town.KEY}, http=http, tenant=OURS)
    async with town.furnish(made) as opened:
        yield opened


@pytest.fixture
def web(app: Ferryman) -> FastAPI:
    return make(app)


def guarded(web: FastAPI) -> list[Operation]:
    found = [each for each in atlas.operations(web.openapi()) if each.scope is not None]
    assert len(found) > 10
    return found


async def tried(wire: Wire, operation: Operation, target: str | None = None, body: Any = None, **headers: Any) -> Reply:
    given = operation.example() if body is None else body
    return await wire.ask(operation.method, target or operation.target(), given, **headers)


@pytest.mark.contract("S6")
def test_every_route_says_what_it_needs_or_is_open_to_all_on_purpose(web: FastAPI) -> None:
    found = _routes(web)
    unsaid = {
        path for path, route in found.items() if not any(hasattr(each, "scope") for each in _calls(route.dependant))
    }

    assert len(found) > 10
    assert unsaid - defence.PUBLIC == set()


@pytest.mark.contract("S6", "R7")
async def test_no_page_and_nothing_else_is_shown_to_strangers(app: Ferryman, web: FastAPI) -> None:
    await app.tokens.create("root", scopes="admin", tenant=ALL)
    for path, route in _routes(web).items():
        for method in (route.methods or set()) if path not in defence.PUBLIC else ():
            answer = await Wire(web).ask(method, re.sub(r"{[^}]*}", "x", path), accept="text/html")
            assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/login"), path


def _routes(web: FastAPI) -> dict[str, APIRoute]:
    """Return all routes by their paths, those of pages too."""
    routes = [(each.path, each.original_route) for each in iter_route_contexts(web.routes)]
    return {str(path): route for path, route in routes if isinstance(route, APIRoute)}


def _calls(dependant: Any) -> list[Any]:
    return [dependant.call, *(call for each in dependant.dependencies for call in _calls(each))]


@pytest.mark.contract("S6", "R7")
async def test_nobody_is_let_in_without_a_token_that_is_good_now(app: Ferryman, web: FastAPI) -> None:
    good = (await app.tokens.create("good", scopes="admin", tenant=ALL)).text
    revoked = await app.tokens.create("revoked", scopes="admin", tenant=ALL)
    expired = await app.tokens.create("expired", scopes="admin", tenant=ALL, lasts=60)
    await town.settle(app, OURS, WORD)
    ids = await town.ids_of(app, OURS)
    await app.tokens.revoke(revoked.token.id)
    async with app.database.session() as tx:
        await travel(tx, timedelta(seconds=61))
    forged = good[:-1] + ("0" if good[-1] != "0" else "1")
    callers = {"none": None, "no token": "letmein", "forged": forged, "revoked": revoked.text, "expired": expired.text}
    before = await town.state(app)

    for operation in guarded(web):
        for kind, token in callers.items():
            # From an address of its own: who brings many wrong tokens is slowed down.
            wire = Wire(web, token=token, client=f"{kind} {operation.name}")
            answer = await tried(wire, operation, town.home(operation, ids))
            assert (answer.status, answer.code) == (401, "UNAUTHENTICATED"), (operation.name, kind)
            assert answer.header("www-authenticate") == "Bearer"
        # Not even a body is looked at.
        answer = await Wire(web).ask(operation.method, town.home(operation, ids), b"{", content_type="application/json")
        assert answer.status == 401, operation.name

    assert await town.state(app) == before


@pytest.mark.contract("S6", "R7")
async def test_a_token_with_too_little_scope_is_refused_and_one_with_enough_is_not(app: Ferryman, web: FastAPI) -> None:
    wires = {scope: Wire(web, token=(await app.tokens.create(scope, scopes=[scope])).text) for scope in Scope}
    root = Wire(web, token=(await app.tokens.create("root", scopes="admin", tenant=ALL)).text)
    await town.settle(app, OURS, WORD)
    await town.settle(app, THEIRS, WORD)
    ids, foreign = await town.ids_of(app, OURS), await town.ids_of(app, THEIRS)
    before = await town.state(app)
    enough: list[tuple[Wire, Operation]] = []

    for operation in guarded(web):
        assert operation.scope is not None
        for scope, wire in wires.items():
            if operation.operator or not allows([scope], Scope(operation.scope)):
                answer = await tried(wire, operation, town.home(operation, ids))
                assert (answer.status, answer.code) == (403, "FORBIDDEN"), (operation.name, scope)
        strayed = await tried(wires[Scope.ADMIN], operation, town.home(operation, foreign), ferryman_tenant=THEIRS)
        assert (strayed.status, strayed.code) == (403, "FORBIDDEN"), operation.name
        enough.append((root if operation.operator else wires[Scope(operation.scope)], operation))
    assert await town.state(app) == before

    for wire, operation in enough:
        answer = await tried(wire, operation)
        assert answer.status not in {401, 403}, (operation.name, answer.body)
        assert answer.status < 500, (operation.name, answer.body)


@pytest.mark.contract("S6", "R7", "K12")
async def test_nothing_of_another_tenant_is_read_or_moved_by_its_ids(
    app: Ferryman, web: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    await town.settle(app, OURS, OWN_WORD)
    await town.settle(app, THEIRS, WORD)
    token = (await app.tokens.create("ours", scopes=list(Scope), tenant=OURS)).text
    wire = Wire(web, token=token, listens=True)
    foreign = await town.ids_of(app, THEIRS)
    own = await town.ids_of(app, OURS)
    before = await town.state(app, tenant=THEIRS)
    assert len(set(foreign.values())) > 15
    assert WORD not in str(foreign)
    # What hangs on their tasks is looked at too.
    assert not any(
        before[table].startswith("0 ") for table in ("task_signals", "task_logs", "task_progress", "task_steps")
    )
    operations = [each for each in guarded(web) if not each.operator]
    told = await wire.get("/v1/events/stream?after=0")
    assert OWN_WORD.encode() in told.body
    assert WORD.encode() not in told.body
    # What a stream has to tell it tells at once; with the second heartbeat it is taken to have nothing.
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.3)

    # Paths before bodies: what is made of ours under a name of theirs would be there.
    for operation in operations:
        for id in sorted(set(foreign.values())) if operation.path_names else ():
            await _name(wire, operation, id)
    silent = await wire.get(f"/v1/events/stream?after=0&subject={foreign['tasks.id']}")
    assert (silent.status, b"data:" in silent.body) == (200, False)
    rights = await _rights(wire)
    heard = {
        each.name: await _nest(wire, each, foreign, target=town.home(each, own), right=rights.get(each.name))
        for each in operations
    }
    # It is the foreign id that was judged, and not something else that is wrong with the body.
    assert {name for name, statuses in heard.items() if statuses == {422}} == IDLESS
    # Something of ours may have their id for a name by now; nothing of theirs is told with it.
    named = await wire.get(f"/v1/events/stream?after=0&subject={foreign['tasks.id']}")
    assert (named.status, WORD.encode() in named.body) == (200, False)

    after = await town.state(app, tenant=THEIRS)
    assert {table for table in before if before[table] != after[table]} == set()
    async with app.database.session() as tx:
        # But one: nobody works here, so what is late stays late.
        lasting = [each for each in wiring.invariants() if each.name != "nothing_is_overdue"]
        assert await invariants.check(tx, lasting) == []


async def _name(wire: Wire, operation: Operation, id: str) -> None:
    """Put a foreign id into a path: the answer is the same as for one that does not exist."""
    answer = await tried(wire, operation, operation.target(lambda _each: id))
    _look(answer, operation, id)
    if (nobody := _twin(id)) != id:
        missing = await tried(wire, operation, operation.target(lambda _each: nobody))
        assert (answer.status, answer.code) == (missing.status, missing.code), (operation.name, id)


def _twin(id: str) -> str:
    """Return what looks like this id and names nothing; the id itself if it is a word that all tenants use."""
    try:
        return str(UUID(int=UUID(id).int ^ 0xDEAD))
    except ValueError:
        return id.replace(THEIRS, "nomad")


async def _rights(wire: Wire) -> dict[str, Any]:
    """Return bodies that are right: as the town would ask, and as a remote worker of ours would speak."""
    hand = (await wire.post("/v1/worker", {"handlers": ["greet"]})).json["worker"]
    word = {"worker": hand, "id": str(atlas.NOBODY), "epoch": 1}
    return town.RIGHT | {
        "POST /v1/ingest/schedules": {"source": "shop", "every": "1h"},
        "POST /v1/worker": {"handlers": ["greet"]},
        "POST /v1/worker/claim": {"worker": hand},
        "POST /v1/worker/complete": word,
        "POST /v1/worker/fail": word | {"reason": "tired"},
        "POST /v1/worker/goodbye": {"worker": hand},
        "POST /v1/worker/heartbeat": {"worker": hand},
        "POST /v1/worker/progress": word,
        "POST /v1/worker/release": word,
    }


async def _nest(
    wire: Wire, operation: Operation, foreign: dict[str, str], *, target: str, right: Any = None
) -> set[int]:
    """Put foreign ids at each place of a body and into each parameter of a query: all of a name like it, and some others.

    Return what bodies were answered with that are right but for the id.
    """
    turns = itertools.cycle(sorted(set(foreign.values())))

    def ids(name: object) -> set[str]:
        stem = str(name).removesuffix("_id").rstrip("s")
        same = {id for place, id in foreign.items() if stem and stem in place}
        return {*same, next(turns), next(turns), next(turns)}

    for each in operation.parameters:
        if each["in"] == "query":
            for id in ids(each["name"]):
                answer = await tried(wire, operation, f"{target.partition('?')[0]}?{each['name']}={quote(id)}")
                _look(answer, operation, each["name"])
    heard: set[int] = set()
    if operation.body is not None:
        whole, right = atlas.example(operation.body, whole=True), right or operation.example()
        for at in atlas.texts(whole):
            for id in ids(at[-1] if at else ""):
                _look(await tried(wire, operation, target, atlas.put(whole, at, id)), operation, at)
                answer = await tried(wire, operation, target, atlas.put(right, at, id))
                _look(answer, operation, at)
                heard.add(answer.status)
    return heard


def _look(answer: Reply, operation: Operation, place: object) -> None:
    assert WORD.encode() not in answer.body, (operation.name, place)
    assert answer.status < 500, (operation.name, place, answer.body)
    assert answer.status != 429, (operation.name, place)
