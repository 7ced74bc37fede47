"""How many are asked for at once: more than the document says, none, less than none, or what is no number, is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from fastapi import FastAPI

from ferryman import Ferryman
from ferryman.app.tokens import ALL
from ferryman.http.server import make
from tests.access import atlas, town
from tests.access.wire import Wire

WRONG = ("0", "-1", "1000000000", "9" * 400, "x", "", " ", "1.5", "1e3", "0x10", "null")
# Pages, and what else may be counted in a query.
COUNTS = frozenset({"limit", "count", "last"})


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[Ferryman]:
    async with town.furnish(Ferryman(database_url, doorbell="none", relays={"webhook_key": town.KEY})) as opened:
        yield opened


@pytest.fixture
def web(app: Ferryman) -> FastAPI:
    return make(app)


@pytest.mark.contract("S4", "R6")
async def test_every_count_of_every_list_has_a_bound_and_what_is_beyond_it_is_refused(
    app: Ferryman, web: FastAPI
) -> None:
    await town.settle(app, "default", "word")
    ids = await town.ids_of(app, "default")
    wire = Wire(web, token=(await app.tokens.create("root", scopes="admin", tenant=ALL)).text)
    tried = set()
    for operation in atlas.operations(web.openapi()):
        for each in operation.parameters:
            if each["in"] != "query" or each["name"] not in COUNTS:
                continue
            least, most = each["schema"]["minimum"], each["schema"]["maximum"]
            assert most <= 10_000, (operation.name, each)
            home = town.home(operation, ids).replace("source=greet", "source=shop")
            target = f"{home}{'&' if '?' in home else '?'}{each['name']}="
            for wrong in {*WRONG, str(least - 1), str(most + 1)} - {str(least)}:
                answer = await wire.get(target + quote(wrong))
                assert (answer.status, answer.code) == (422, "REQUEST_INVALID"), (operation.name, wrong, answer.body)
                assert answer.json["details"]["field"] == each["name"], (operation.name, wrong, answer.body)
            for right in (least, most):
                answer = await wire.get(f"{target}{right}")
                assert answer.status == 200, (operation.name, right, answer.body)
            tried.add(operation.path)

    assert {"/v1/tasks", "/v1/events", "/v1/schedules/{schedule_id}/next", "/v1/tasks/{task_id}/logs"} <= tried


@pytest.mark.contract("S4", "R6")
async def test_a_page_has_no_more_than_was_asked_for(app: Ferryman, web: FastAPI) -> None:
    await app.tasks.create_many("greet", [{"n": n} for n in range(60)])
    wire = Wire(web, token=(await app.tokens.create("root", scopes="admin", tenant=ALL)).text)

    found = {limit: len((await wire.get(f"/v1/tasks?limit={limit}")).json["items"]) for limit in (1, 7, 50, 1000)}

    assert found == {1: 1, 7: 7, 50: 50, 1000: 60}
    assert len((await wire.get("/v1/tasks")).json["items"]) == 50
