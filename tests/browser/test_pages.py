"""Every page, in a real browser: it loads, complains about nothing, fits a phone and can be read."""

import pytest

from tests.browser.conftest import House, Look
from tests.browser.sight import READABLE

PAGES = (
    "/", "/tasks", "/tasks?state=failed", "/tasks?name=nobody", "/tasks/{order}", "/tasks/{broken}", "/tasks/{report}",
    "/tasks/{unknown}", "/schedules", "/schedules/{ticking}", "/schedules/{resting}", "/queues", "/queues/images", "/workers",
    "/watchdog", "/log", "/docs", "/search?q=mail", "/login",
)  # fmt: skip


@pytest.mark.contract("S5")
async def test_every_page_loads_and_fits_a_phone(house: House, look: Look) -> None:
    await look.page.set_viewport_size({"width": 360, "height": 740})
    for path in PAGES:
        page = await look.go(path.format(**house.parts))
        assert await page.locator("h1").count() == 1, path
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.contract("S5")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_can_be_read_in_light_and_dark(house: House, look: Look, scheme: str) -> None:
    await look.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    for path in ("/", "/tasks", "/tasks/{order}", "/tasks/{broken}", "/queues", "/watchdog", "/docs"):
        page = await look.go(path.format(**house.parts))
        assert await page.evaluate(READABLE) == [], (path, scheme)


@pytest.mark.contract("S5")
async def test_a_page_has_landmarks_and_names_for_everything_that_can_be_used(house: House, look: Look) -> None:
    for path in ("/", "/tasks", "/tasks/{order}", "/schedules", "/queues", "/login"):
        page = await look.go(path.format(**house.parts))
        for landmark in ("main", "navigation", "banner", "search"):
            assert await page.get_by_role(landmark).count() >= 1, (path, landmark)
        nameless = await page.evaluate(
            """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea")].filter((each) =>
                each.checkVisibility() && !(each.innerText?.trim() || each.ariaLabel || each.labels?.length || each.title))
                .map((each) => each.outerHTML)"""
        )
        assert nameless == [], path


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
