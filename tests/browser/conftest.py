"""One browser, and one server with an app that has a past, for all tests of pages (see tools/scenery.py).

Tests and fixtures share one event loop, in which the server runs too. What a test changes it makes itself, so that the order of
tests does not matter.
"""

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Request, async_playwright

from ferryman import Context, Ferryman
from ferryman.http.serving import serving
from ferryman.testing import Cluster
from tools import browser as browsers
from tools import scenery

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder on one loop (the scheduler keeps them in one process); leave them out without a browser."""
    ours = [item for item in items if HERE in item.path.parents]
    missing = bool(ours) and browsers.find() is None
    for item in ours:
        item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    if missing and not os.environ.get("CI"):
        items[:] = [item for item in items if item not in ours]


@dataclass
class House:
    """A server with an app behind it, and a browser that looks at it."""

    url: str
    app: Ferryman
    parts: dict[str, Any]
    browser: Browser


@dataclass
class Look:
    """A page in a browser of its own, and everything that went wrong in it."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def go(self, path: str) -> Page:
        """Open a page of the dashboard."""
        answer = await self.page.goto(self.url + path, wait_until="load")
        assert answer is not None
        assert answer.status < 400, (path, answer.status)
        return self.page


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def house(cluster: Cluster) -> AsyncIterator[House]:
    """The server and the browser."""
    found = browsers.find()
    assert found is not None, "There is no browser: run `python -m tools.browser`."
    async with (
        cluster.database() as url,
        scenery.playing(url, also=_hurt) as scene,
        serving(scene.app, guard=None, port=0) as served,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=found, args=list(browsers.ARGUMENTS))
        yield House(served.url, scene.app, dict(scene.parts), browser)
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def look(house: House) -> AsyncIterator[Look]:
    """A fresh window; whatever the page complains about, or asks of others, fails the test."""
    context = await house.browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    made = await watched(context, house.url)
    yield made
    await context.close()
    assert made.wrong == []
    assert [each for each in made.asked if not each.startswith(house.url + "/")] == []


async def watched(context: BrowserContext, url: str) -> Look:
    """Return a window whose complaints are noted."""
    made = Look(await context.new_page(), url)
    note: Callable[[str], None] = made.wrong.append
    made.page.on("console", lambda said: note(said.text) if said.type in {"error", "warning"} else None)
    made.page.on("pageerror", lambda error: note(str(error)))
    made.page.on("request", lambda request: made.asked.append(_address(request)))
    return made


def _hurt(app: Ferryman) -> None:
    """Add a handler that says and fails with whatever it is given."""

    @app.task(name="hurt", max_retries=0)
    async def hurt(ctx: Context, texts: list[str]) -> None:
        for text in texts:
            ctx.log(text)
        ctx.progress(50, texts[0])
        await ctx.step("say", _said, texts)
        raise ValueError(" ".join(texts))


async def _said(texts: list[str]) -> list[str]:
    return texts


def _address(request: Request) -> str:
    return str(request.url)
