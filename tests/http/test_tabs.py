"""Two tabs of one browser: the tenant that one of them chooses, and what the other still shows and may do."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import aiohttp
import pytest

from ferryman import Ferryman
from ferryman.access.model import ALL
from ferryman.http.serving import serving
from tests.patience import PATIENCE_SECONDS

TEMPLATES = Path(__file__).resolve().parent.parent.parent / "src" / "ferryman" / "dashboard" / "templates"


class Browser:
    """A browser with its cookies; a tab is what it was given last."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def read(self, path: str, **headers: str) -> tuple[int, str]:
        """Load a page, or what its script asks for; names of headers are written with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(self.url + path, headers=named) as answer:
            return answer.status, await answer.text()

    async def send(self, path: str, form: dict[str, str], **headers: str) -> tuple[int, str]:
        """Send a form, and follow where it leads."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(self.url + path, data=form, headers=named) as answer:
            return answer.status, await answer.text()

    async def choose(self, tenant: str) -> None:
        """Choose a tenant, as a tab of its own does."""
        _, page = await self.read("/tenants")
        status, shown = await self.send("/tenants", {**fields(page, "/tenants"), "tenant": tenant})
        assert (status, f'data-tenant="{tenant}"' in shown) == (200, True)


def fields(page: str, action: str, holding: str = "") -> dict[str, str]:
    """Return the fields of the first form of a page that leads somewhere, and holds some text."""
    forms = re.findall(rf'<form [^>]*action="{re.escape(action)}".*?</form>', page, re.S)
    form = next(each for each in forms if holding in each)
    return {unescape(name): unescape(value) for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', form)}


@pytest.fixture
async def browser(app: Ferryman) -> AsyncIterator[Browser]:
    """A browser whose operator has signed in."""
    token = (await app.tokens.create("root", scopes="admin", tenant=ALL)).text
    jar = aiohttp.CookieJar(unsafe=True)  # a number for a name
    async with serving(app, guard=None, port=0) as served, aiohttp.ClientSession(cookie_jar=jar) as session:
        made = Browser(session, served.url)
        assert (await made.send("/login", {"token": token}))[0] == 200
        yield made


async def paused(app: Ferryman) -> set[str]:
    """Name the tenants whose part of the queue stands still."""
    return {each.tenant for each in await app.queues.rows("default") if each.paused_at}


@pytest.mark.contract("S5", "K12")
async def test_a_form_of_one_tenant_is_refused_once_another_tab_chose_another(app: Ferryman, browser: Browser) -> None:
    for tenant in ("acme", "rival"):
        await app.of(tenant).tasks.create("greet", name="x")
        await app.queues.resume("default", tenant=tenant)
    await browser.choose("acme")
    _, first = await browser.read("/queues")
    form = fields(first, "/queues/default/pause", 'name="tenant" value="acme"')
    await browser.choose("rival")

    for headers in ({}, {"Ferryman_Tenant": "acme", "Ferryman_Part": "whole"}):  # without the script, and with it
        status, told = await browser.send("/queues/default/pause", form, **headers)
        assert (status, "TENANT_CHANGED" in told) == (409, True)
        assert "The tenant was changed in another tab; load the page again." in told
        assert '<a href="/queues">Load the page again</a>' in told
    assert await paused(app) == set()

    forged = {**form, "page_tenant": "rival"}
    status, _ = await browser.send("/queues/default/pause", forged, Ferryman_Tenant="acme")
    assert (status, await paused(app)) == (409, set()), "a page shows one tenant, and its script names that one"

    await browser.choose("acme")
    status, told = await browser.send("/queues/default/pause", form)
    assert (status, "default is paused" in told, await paused(app)) == (200, True, {"acme"})


@pytest.mark.contract("S5")
async def test_a_tab_that_is_behind_may_still_choose_a_tenant(app: Ferryman, browser: Browser) -> None:
    await app.of("acme").tasks.create("greet", name="x")
    _, first = await browser.read("/tenants")
    await browser.choose("rival")
    status, shown = await browser.send("/tenants", fields(first, "/tenants", 'name="tenant" value="acme"'))
    assert (status, 'data-tenant="acme"' in shown) == (200, True)


@pytest.mark.contract("S5", "K12")
async def test_what_a_page_asks_for_is_of_the_tenant_it_shows(app: Ferryman, browser: Browser) -> None:
    ours = await app.of("acme").tasks.create("greet", name="x")
    theirs = await app.of("rival").tasks.create("greet", name="y")
    await browser.choose("rival")
    _, part = await browser.read("/tasks", Ferryman_Part="live", Ferryman_Tenant="acme")
    assert (str(ours.id) in part, str(theirs.id) in part) == (True, False)
    assert fields(part, "/tasks", "csrf")["page_tenant"] == "acme"

    async with browser.session.get(f"{browser.url}/live?tenant=acme") as stream, asyncio.timeout(PATIENCE_SECONDS):
        await stream.content.readuntil(b"event: hello")
        await app.of("rival").tasks.create("greet", name="z")
        made = await app.of("acme").tasks.create("greet", name="z")
        told = await stream.content.readuntil(b"]}")
        assert f'"subjects":["{made.id}"]'.encode() in told


@pytest.mark.contract("S6", "K12")
async def test_a_page_names_no_tenant_that_its_reader_may_not_see(app: Ferryman, browser: Browser) -> None:
    reader = (await app.tokens.create("reader", scopes="read", tenant="acme")).text
    await browser.send("/login", {"token": reader})
    async with browser.session.get(f"{browser.url}/live?tenant=rival") as stream:  # not read: a stream has no end
        assert stream.status == 403
    assert (await browser.read("/tasks", Ferryman_Part="live", Ferryman_Tenant="rival"))[0] == 403
    assert (await browser.read("/tasks", Ferryman_Part="live", Ferryman_Tenant="acme"))[0] == 200


@pytest.mark.contract("S6")
async def test_signing_out_forgets_the_chosen_tenant(browser: Browser) -> None:
    def kept() -> set[str]:
        return {each.key for each in browser.session.cookie_jar}

    await browser.choose("acme")
    assert {"ferryman_tenant", "ferryman_session"} <= kept()
    _, page = await browser.read("/")
    assert (await browser.send("/logout", fields(page, "/logout")))[0] == 200
    assert kept().isdisjoint({"ferryman_tenant", "ferryman_session"})


@pytest.mark.contract("S5")
def test_forms_that_act_carry_the_tenant_of_their_page() -> None:
    elsewhere = {"/login", "/logout", "/theme"}  # done for no tenant
    found = 0
    for path in sorted(TEMPLATES.glob("*.html")):
        for form in re.findall(r'<form [^>]*method="post".*?</form>', path.read_text(), re.S):
            [action] = re.findall(r'action="([^"]*)"', form.partition(">")[0])
            if action not in elsewhere:
                found += 1
                assert re.search(r"\{\{ (parts\.)?hidden\(", form), f"{path.name}: {action}"
    assert found >= 9


@pytest.mark.contract("S5")
async def test_a_row_of_the_queues_that_an_operator_pauses_is_the_one_that_stands_still(
    app: Ferryman, browser: Browser
) -> None:
    for tenant in ("acme", "rival"):
        await app.of(tenant).tasks.create("greet", name="x")
        await app.queues.resume("default", tenant=tenant)
    await browser.choose("acme")
    _, page = await browser.read("/queues")

    status, _ = await browser.send(
        "/queues/default/pause", fields(page, "/queues/default/pause", 'name="tenant" value="rival"')
    )

    assert (status, await paused(app)) == (200, {"rival"})
