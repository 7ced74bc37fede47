"""The dashboard over plain HTTP: who is let in, what pages allow a browser, and the stream of changes."""

import asyncio
import re
from collections.abc import AsyncIterator

import aiohttp
import pytest
from starlette.requests import HTTPConnection

from ferryman import Ferryman
from ferryman.access.model import Scope
from ferryman.dashboard import live
from ferryman.http.callers import Caller
from ferryman.http.serving import serving
from ferryman.kernel import errors
from tests.http.conftest import Client
from tests.patience import PATIENCE_SECONDS

PAGES = ("/", "/tasks", "/schedules", "/queues", "/workers", "/watchdog", "/tenants", "/log", "/docs", "/search?q=a")


class Door:
    """A guard that lets in whom it is told to."""

    def __init__(self) -> None:
        self.caller_now: Caller | None = None

    async def caller(self, request: HTTPConnection) -> Caller:
        """Return who is let in now."""
        if self.caller_now is None:
            raise errors.Unauthenticated
        return self.caller_now


@pytest.fixture
def door() -> Door:
    """A guard."""
    return Door()


@pytest.fixture
async def guarded(app: Ferryman, door: Door) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A server with that guard."""
    jar = aiohttp.CookieJar(unsafe=True)  # a number for a name
    async with serving(app, guard=door, port=0) as served, aiohttp.ClientSession(cookie_jar=jar) as session:
        yield session, served.url


@pytest.mark.contract("S6")
async def test_who_is_not_let_in_is_sent_to_the_login_and_back(guarded: tuple[aiohttp.ClientSession, str]) -> None:
    session, url = guarded
    html = {"Accept": "text/html"}
    for path in PAGES:
        async with session.get(url + path, headers=html, allow_redirects=False) as answer:
            assert answer.status == 303, path
            assert answer.headers["Location"].startswith("/login"), path
    async with session.get(f"{url}/tasks?state=failed", headers=html, allow_redirects=False) as answer:
        assert answer.headers["Location"] == "/login?to=%2Ftasks%3Fstate%3Dfailed"
    async with session.get(f"{url}/tasks", headers={**html, "Ferryman-Part": "live"}) as answer:
        assert answer.status == 401
    async with session.get(f"{url}/login?to=https://elsewhere.example/") as answer:
        assert 'name="to" value="/"' in await answer.text()


@pytest.mark.contract("S6", "K12")
async def test_a_tenant_sees_and_does_what_it_may_and_nothing_of_others(
    app: Ferryman, door: Door, guarded: tuple[aiohttp.ClientSession, str]
) -> None:
    session, url = guarded
    theirs = await app.of("other").tasks.create("greet", name="secret")
    door.caller_now = Caller("reader", "default", frozenset({Scope.READ}))
    mine = await app.tasks.create("greet", name="mine")
    expected = {"/workers": 403, "/watchdog": 403, f"/tasks/{theirs.id}": 404, f"/tasks/{mine.id}": 200, "/tasks": 200}
    for path, status in expected.items():
        async with session.get(url + path) as answer:
            assert (path, answer.status) == (path, status)
            text = await answer.text()
            assert "secret" not in text
            assert "<html" in text, "a refusal is a page too"
            assert 'value="cancel"' not in text, "who may only read is offered no actions"
    async with session.post(f"{url}/tasks/{mine.id}/cancel", data={}) as answer:
        assert answer.status == 403
    door.caller_now = Caller("writer", "default", frozenset({Scope.WRITE}))
    async with session.post(f"{url}/queues/default/pause", data={"tenant": "*"}) as answer:
        assert answer.status == 403
    async with session.post(
        f"{url}/tasks", data={"action": "cancel", "id": str(theirs.id), "back": "/tasks"}
    ) as answer:
        assert "0 tasks cancelled" in await answer.text()


@pytest.mark.contract("S6")
async def test_pages_allow_no_script_but_ours(client: Client) -> None:
    for path in PAGES:
        answer = await client.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for odd in ("<style", " style=", "javascript:", "<script>", "http://", "https://", " onclick"):
            assert odd not in answer.json, (path, odd)


@pytest.mark.contract("S5")
async def test_a_part_of_a_page_comes_without_its_frame(client: Client) -> None:
    whole, part = await client.get("/tasks"), await client.get("/tasks", Ferryman_Part="live")
    assert "<nav id=" in whole.json
    assert "<nav id=" not in part.json
    assert 'id="rows"' in part.json


@pytest.mark.contract("K20")
async def test_a_wrong_request_is_told_on_a_page_or_where_the_form_stood(
    door: Door, guarded: tuple[aiohttp.ClientSession, str]
) -> None:
    session, url = guarded
    door.caller_now = Caller("writer", "default", frozenset({Scope.WRITE}))
    for path, status in (
        ("/tasks?state=asleep", 422),
        ("/tasks?before=x", 422),
        ("/tasks/nobody", 404),
        ("/log?kind=a'", 422),
        ("/nowhere", 404),
    ):
        async with session.get(url + path, headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
            assert (answer.status, "<h1>" in text, "openapi.json" in text) == (status, True, False), path
    # What is for programs answers as to one, also to a browser.
    for path, accept in (("/nowhere", "*/*"), ("/v1/nowhere", "text/html"), ("/v1/tasks/a/b", "text/html,*/*")):
        async with session.get(url + path, headers={"Accept": accept}) as answer:
            assert (answer.status, (await answer.json(content_type=None))["code"]) == (404, "ROUTE_UNKNOWN")
    sent = {"action": "burn", "id": "01a1e337-f3f7-764b-8b65-57ba1bd4bece", "back": "/tasks"}
    async with session.post(f"{url}/tasks", data=sent) as answer:
        assert (answer.status, str(answer.url)) == (200, f"{url}/tasks")
        assert "action: expected cancel or retry." in await answer.text()


@pytest.mark.contract("S5")
async def test_the_stream_tells_of_this_tenant_alone_and_ends_with_the_server(app: Ferryman) -> None:
    async with aiohttp.ClientSession() as session:
        async with serving(app, guard=None, port=0) as served:
            stream = await session.get(f"{served.url}/live")
            assert await _word(stream) == ("hello", "{}")
            await app.of("other").tasks.create("greet", name="x")
            made = await app.tasks.create("greet", name="y")
            assert await _word(stream) == ("changed", f'{{"kinds":["task"],"subjects":["{made.id}"]}}')
        assert (await stream.content.read()).strip() == b"", "it ended, and without a fault"


@pytest.mark.contract("S5")
async def test_viewers_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "VIEWERS_MAX", 1)
    stream = await client.session.get(f"{client.url}/live")
    assert await _word(stream) == ("hello", "{}")
    assert (await client.get("/live")).status == 429
    stream.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (again := await client.session.get(f"{client.url}/live")).status != 200:
            again.close()
    again.close()


async def _word(stream: aiohttp.ClientResponse) -> tuple[str, str]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        told: dict[str, str] = {}
        while not ({"event", "data"} <= set(told)):
            name, _, value = (await stream.content.readline()).decode().strip().partition(": ")
            told[name] = value
        return told["event"], told["data"]


@pytest.mark.contract("S5", "S6", "K12")
async def test_an_operator_chooses_whose_work_is_shown_and_stays_who_they_are(
    app: Ferryman, door: Door, guarded: tuple[aiohttp.ClientSession, str], caplog: pytest.LogCaptureFixture
) -> None:
    session, url = guarded
    theirs = await app.of("other").tasks.create("greet", name="theirs")
    mine = await app.tasks.create("greet", name="mine")
    door.caller_now = Caller("ops", "default", frozenset({Scope.ADMIN}), operator=True, csrf="word")

    async def read(path: str) -> str:
        async with session.get(url + path) as answer:
            return await answer.text()

    async def choose(tenant: str, csrf: str = "word") -> aiohttp.ClientResponse:
        form = {"tenant": tenant, "csrf": csrf, "back": "/tasks"}
        return await session.post(f"{url}/tenants", data=form)

    assert "data-away" not in await read("/tasks")
    assert 'value="other"' in await read("/tenants"), "who had something happen is offered"
    async with await choose("other", csrf="wrong") as refused:
        assert refused.url.path == "/tasks"
        assert str(mine.id) in await refused.text(), "nothing was changed by a page of another site"
    async with await choose("other") as chosen:
        text = await chosen.text()
        assert (str(chosen.url), str(theirs.id) in text, str(mine.id) in text) == (f"{url}/tasks", True, False)
        assert '<header class="bar" data-away>' in text
        assert "· other · Ferryman</title>" in text
    with caplog.at_level("INFO", logger="ferryman.http.access"):
        await session.post(f"{url}/tasks/{theirs.id}/cancel", data={"csrf": "word"})
    assert (await app.of("other").tasks.record(theirs.id)).state == "cancelled"
    told = [each.__dict__["http"] for each in caplog.records if each.name == "ferryman.http.access"]
    assert ("POST", "ops", "other") in [(each["method"], each["caller"], each["tenant"]) for each in told]

    door.caller_now = Caller("reader", "default", frozenset({Scope.READ}), csrf="word")
    assert str(theirs.id) not in await read("/tasks"), "the cookie counts for operators alone"
    async with await choose("other") as refused:
        assert "needs a token for all of them" in await refused.text()
    door.caller_now = Caller("ops", "default", frozenset({Scope.ADMIN}), operator=True)
    async with session.get(f"{url}/v1/tasks") as answer:
        assert [each["id"] for each in (await answer.json())["items"]] == [str(mine.id)], "a token names it by header"


@pytest.mark.contract("S5")
async def test_a_tenant_that_cannot_be_one_is_refused_and_a_spoiled_cookie_counts_for_nothing(
    app: Ferryman, client: Client
) -> None:
    page = await client.get("/tenants")
    [csrf] = set(re.findall(r'name="csrf" value="([0-9a-f]+)"', page.json))
    form = {"tenant": "no tenant", "csrf": csrf, "back": "/tenants"}
    async with client.session.post(f"{client.url}/tenants", data=form, allow_redirects=False) as answer:
        assert "tenant%3A%20expected" in answer.headers["Set-Cookie"]
        assert "ferryman_tenant" not in answer.headers["Set-Cookie"]
    spoiled = await client.get("/tasks", Cookie="ferryman_tenant=no%20tenant")
    assert (spoiled.status, "data-away" in spoiled.json) == (200, False)
