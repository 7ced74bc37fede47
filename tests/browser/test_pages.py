"""Every page, in a real browser: it loads, complains about nothing, fits a phone and can be read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
import pytest_asyncio

from tests.browser.conftest import House, Look, watched
from tests.browser.sight import READABLE

PAGES = (
    "/", "/tasks", "/tasks?state=failed", "/tasks?name=nobody", "/tasks/{order}", "/tasks/{broken}", "/tasks/{report}",
    "/tasks/{unknown}", "/schedules", "/schedules/{ticking}", "/schedules/{resting}", "/queues", "/queues/images", "/workers",
    "/watchdog", "/tenants", "/log", "/docs", "/search?q=mail", "/login",
)  # fmt: skip


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LANDMARKS: tuple[Literal["main", "banner", "search"], ...] = ("main", "banner", "search")
NAMELESS = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea")].filter((each) =>
    each.checkVisibility() && !(each.innerText?.trim() || each.ariaLabel || each.labels?.length || each.title))
    .map((each) => each.outerHTML)"""


@dataclass
class Seen:
    """What one visit of a page showed."""

    headings: int
    landmarks: list[int]
    nameless: list[str]
    width: int
    faint: dict[str, list[Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def survey(house: House) -> dict[str, Seen]:
    """Every page, visited once: on a phone, in light and in dark; nothing may go wrong on the way."""
    context = await house.browser.new_context(viewport={"width": 360, "height": 740}, reduced_motion="reduce")
    look = await watched(context, house.url)
    seen = {}
    for path in PAGES:
        page = await look.go(path.format(**house.parts))
        faint = {}
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            faint[str(scheme)] = await page.evaluate(READABLE)
        seen[path] = Seen(
            await page.locator("h1").count(),
            [await page.get_by_role(landmark).count() for landmark in LANDMARKS],
            await page.evaluate(NAMELESS),
            await page.evaluate("document.documentElement.scrollWidth"),
            faint,
        )
    await context.close()
    assert look.wrong == []
    return seen


@pytest.mark.contract("S5")
async def test_every_page_loads_and_fits_a_phone(survey: dict[str, Seen]) -> None:
    assert {path: seen.headings for path, seen in survey.items()} == dict.fromkeys(PAGES, 1)
    assert {path: seen.width for path, seen in survey.items() if seen.width > 360} == {}


@pytest.mark.contract("S5")
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_text_can_be_read_in_light_and_dark(survey: dict[str, Seen], scheme: str) -> None:
    assert {path: seen.faint[scheme] for path, seen in survey.items() if seen.faint[scheme]} == {}


@pytest.mark.contract("S5")
async def test_a_page_has_landmarks_and_names_for_everything_that_can_be_used(survey: dict[str, Seen]) -> None:
    without = {path: seen.landmarks for path, seen in survey.items() if 0 in seen.landmarks}
    assert without == {"/login": [1, 1, 0]}, "who is not signed in has nothing to search in"
    assert {path: seen.nameless for path, seen in survey.items() if seen.nameless} == {}


@pytest.mark.contract("S5")
async def test_the_theme_is_chosen_and_remembered(look: Look) -> None:
    page = await look.go("/tasks")
    await page.get_by_role("button", name="Dark").click()
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    await page.wait_for_function("document.cookie.includes('theme=dark')")
    page = await look.go("/queues")
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    await page.get_by_role("button", name="Auto").click()
    await page.wait_for_function("!document.cookie.includes('theme=')")


@pytest.mark.contract("S5")
async def test_keys_lead_everywhere(house: House, look: Look) -> None:
    await look.page.clock.set_fixed_time(datetime.now(UTC))  # two keys are one word if little time lies between them
    page = await look.go("/")
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await page.wait_for_url("**/tasks")
    await page.keyboard.press("?")
    assert await page.get_by_role("dialog", name="Keys").is_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await page.keyboard.press("x")
    first = page.locator("tr[data-row]").first
    assert await first.locator("input").is_checked()
    where = await first.locator("a").first.get_attribute("href")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**{where}")
    await page.keyboard.press("/")
    await page.keyboard.type("order-1042")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/tasks/{house.parts['order']}")
    assert await page.locator("h1").inner_text() == "fulfil_order"
