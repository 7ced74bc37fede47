"""What can be done on pages is done, with the script and without it; and what happens shows up by itself."""

import asyncio

import pytest

from ferryman import Ferryman
from ferryman.http.callers import TENANT_COOKIE
from ferryman.http.serving import serving
from ferryman.tasks.states import TaskState
from ferryman.testing import Cluster
from tests.browser.conftest import House, Look, watched
from tests.corpus.markup import MARKUP

SOON = 30_000


async def waiting(house: House) -> str:
    """Create a task that nobody takes."""
    made = await house.app.tasks.create("send_invoice", customer="Pauli", queue="nobody")
    return str(made.id)


@pytest.mark.contract("S5")
async def test_what_happens_shows_up_by_itself(house: House, look: Look) -> None:
    page = await look.go("/tasks?queue=nobody")
    await page.wait_for_selector("#pulse[data-state=on]", state="attached", timeout=SOON)
    id = await waiting(house)
    row = page.locator(f"tr[data-row='{id}']")
    await row.wait_for(timeout=SOON)
    await row.locator("input").check()
    await house.app.tasks.cancel(id)
    await row.locator("[data-state=cancelled]").wait_for(timeout=SOON)
    assert await row.locator("input").is_checked(), "a mark survives the swap"


@pytest.mark.contract("S5")
async def test_a_task_is_cancelled_after_a_question_and_tried_anew(house: House, look: Look) -> None:
    id = await waiting(house)
    page = await look.go(f"/tasks/{id}")
    await page.get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="No").click()
    assert (await house.app.tasks.record(id)).state is TaskState.READY
    await page.get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#said", has_text="Cancelled.").wait_for(timeout=SOON)
    await page.get_by_role("button", name="Retry").click()
    await page.wait_for_url(lambda url: url.startswith(f"{house.url}/tasks/") and id not in url, timeout=SOON)
    anew = await house.app.tasks.record(page.url.rsplit("/", 1)[1])
    assert str(anew.retry_of) == id


@pytest.mark.contract("S5")
async def test_an_event_that_a_task_waits_for_is_sent(house: House, look: Look) -> None:
    made = await house.app.tasks.create("fulfil_order", order="order-7")
    page = await look.go(f"/tasks/{made.id}")
    await page.locator("#steps [data-state=open]").wait_for(timeout=SOON)
    await page.get_by_label("With (JSON, or nothing)").fill("{oh}")
    await page.get_by_role("button", name="Approve").click()
    await page.locator("#said", has_text="JSON").wait_for(timeout=SOON)
    await page.get_by_label("With (JSON, or nothing)").fill('{"by": "Ada"}')
    await page.get_by_role("button", name="Approve").click()
    await page.locator("#said", has_text="The event released was sent.").wait_for(timeout=SOON)
    await page.locator("#result", has_text="order-7 released by Ada").wait_for(timeout=SOON)


@pytest.mark.contract("S5")
async def test_marked_tasks_are_cancelled_together(house: House, look: Look) -> None:
    ids = [await waiting(house) for _ in range(3)]
    page = await look.go("/tasks?queue=nobody&state=ready")
    for id in ids[:2]:
        await page.locator(f"tr[data-row='{id}'] input").check()
    assert await page.locator("[data-count]").inner_text() == "2 marked"
    await page.locator("[data-bulk]").get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#said", has_text="2 tasks cancelled.").wait_for(timeout=SOON)
    states = [(await house.app.tasks.record(id)).state.value for id in ids]
    assert states == ["cancelled", "cancelled", "ready"]


@pytest.mark.contract("S5")
async def test_a_refresh_keeps_the_focus_and_waits_for_who_marks_a_text(house: House, look: Look) -> None:
    first = await waiting(house)
    page = await look.go("/tasks?queue=nobody&state=ready")
    row = page.locator(f"tr[data-row='{first}']")
    await row.locator("a").nth(1).focus()
    await page.wait_for_selector("#pulse[data-state=on]", state="attached", timeout=SOON)
    second = await waiting(house)
    await page.locator(f"tr[data-row='{second}']").wait_for(timeout=SOON)
    at = "[document.activeElement.closest('tr')?.dataset.row, document.activeElement.getAttribute('href')]"
    assert await page.evaluate(at) == [first, "/queues/nobody"]

    await row.locator("td.first").evaluate("cell => getSelection().selectAllChildren(cell)")
    third = await waiting(house)
    for _ in range(2):  # the second is asked for because the first could not be shown
        async with page.expect_response(lambda answer: "ferryman-part" in answer.request.headers, timeout=SOON):
            pass
    assert await page.evaluate("String(getSelection()).trim()"), "what was marked is still there"
    assert await page.locator(f"tr[data-row='{third}']").count() == 0
    await page.evaluate("getSelection().removeAllRanges()")
    await page.locator(f"tr[data-row='{third}']").wait_for(timeout=SOON)

    page = await look.go(f"/tasks/{first}")
    await page.get_by_text("Send it an event").click()
    await page.locator("#send-panel input[name=name]").fill("approved")
    await page.keyboard.press("Escape")
    await page.locator("#send-panel").evaluate("part => part.classList.add('before')")
    await page.keyboard.press("r")
    await page.locator("#send-panel:not(.before)").wait_for(timeout=SOON)  # it was swapped
    assert await page.locator("#send-panel input[name=name]").is_visible(), "what was open stays open"
    assert await page.locator("#send-panel input[name=name]").input_value() == "approved", "what was typed stays"
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    # Looked for before it is there: it says so for a moment only.
    copied = asyncio.ensure_future(page.locator(".crumb").get_by_role("button", name="Copied").wait_for(timeout=SOON))
    await page.locator(".crumb").get_by_role("button", name="Copy").click()
    await copied
    assert await page.evaluate("navigator.clipboard.readText()") == first


@pytest.mark.contract("S5")
async def test_schedules_and_queues_are_paused_and_go_on(house: House, look: Look) -> None:
    made = await house.app.schedules.create("send_invoice", every="1h", customer="Bohr")
    page = await look.go(f"/schedules/{made.id}")
    for button, state in (("Pause", "paused"), ("Resume", "active")):
        await page.get_by_role("button", name=button).click()
        await page.locator(f"#state [data-state={state}]").wait_for(timeout=SOON)
    await page.get_by_role("button", name="Trigger now").click()
    await page.wait_for_url("**/tasks/*", timeout=SOON)
    await house.app.queues.set("fresh", new=True, concurrency=2)
    page = await look.go("/queues/fresh")
    await page.get_by_role("button", name="Pause").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#state [data-state=paused]").wait_for(timeout=SOON)
    await page.get_by_role("button", name="Resume").click()
    await page.locator("#state [data-state=active]").wait_for(timeout=SOON)


@pytest.mark.contract("S5")
async def test_actions_work_without_the_script(house: House) -> None:
    id = await waiting(house)
    context = await house.browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{house.url}/tasks/{id}")
    await page.get_by_role("button", name="Cancel").click()
    assert page.url == f"{house.url}/tasks/{id}"
    assert await page.locator("#said").inner_text() == "Cancelled."
    await page.reload()
    assert await page.locator("#said").count() == 0, "it is told once"
    await context.close()


@pytest.mark.contract("S5", "S6")
async def test_with_tokens_one_signs_in_first_and_out_at_the_end(house: House, cluster: Cluster) -> None:
    async with cluster.database() as url, Ferryman(url) as app, serving(app, port=0) as served:
        task = await app.tasks.create("anything", task_id="mine")
        secret = (await app.tokens.create("desk", scopes=["write"])).text
        context = await house.browser.new_context()
        look = await watched(context, served.url)
        page = await look.go("/tasks/mine")
        assert "/login" in page.url
        await page.get_by_label("Token").fill("fm_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("alert").wait_for(timeout=SOON)
        await page.get_by_label("Token").fill(secret)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/tasks/mine")
        await page.get_by_role("button", name="Cancel").click()
        await page.locator("#ask").get_by_role("button", name="Yes").click()
        await page.locator("#said", has_text="Cancelled.").wait_for(timeout=SOON)
        assert (await app.tasks.record(task.id)).state is TaskState.CANCELLED
        assert await page.get_by_role("link", name="Watchdog").count() == 0, (
            "what concerns all tenants is for operators"
        )
        assert look.wrong == []
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url("**/login*")
        await context.close()
        # What the page asked for after its session had ended, and before it was left, was refused.
        assert [each for each in look.wrong if "401 (Unauthorized)" not in each] == []


@pytest.mark.contract("S5", "K12")
async def test_a_page_stays_with_its_tenant_when_another_tab_chooses_another(house: House) -> None:
    context = await house.browser.new_context()
    page = await context.new_page()
    asked: list[tuple[str, dict[str, str]]] = []
    page.on("request", lambda request: asked.append((request.url, request.headers)))
    first = await waiting(house)
    await page.goto(f"{house.url}/tasks?queue=nobody&state=ready")
    await page.wait_for_selector("#pulse[data-state=on]", state="attached", timeout=SOON)
    await context.add_cookies([{"name": TENANT_COOKIE, "value": "rival", "url": house.url}])  # as another tab does

    await house.app.of("rival").tasks.create("send_invoice", {"customer": "Rival"}, queue="nobody")
    second = await waiting(house)
    await page.locator(f"tr[data-row='{second}']").wait_for(timeout=SOON)
    shown = await page.locator("tr[data-row]").evaluate_all("rows => rows.map((row) => row.dataset.row)")
    assert {first, second} <= set(shown)
    mine = [(await house.app.tasks.record(id)).tenant for id in shown]
    assert set(mine) == {"default"}, "it still shows its own tenant, fresh"
    parts = [headers.get("ferryman-tenant") for _, headers in asked if "ferryman-part" in headers]
    assert set(parts) == {"default"}
    assert [url for url, _ in asked if "/live" in url] == [f"{house.url}/live?tenant=default"]

    await page.locator(f"tr[data-row='{first}'] input").check()
    await page.locator("[data-bulk]").get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.get_by_text("TENANT_CHANGED").wait_for(timeout=SOON)
    assert (await house.app.tasks.record(first)).state is TaskState.READY
    await context.close()


@pytest.mark.contract("S5", "S6")
async def test_whatever_is_stored_stays_text(house: House, look: Look) -> None:
    made = await house.app.tasks.create("hurt", texts=list(MARKUP))
    await house.app.tasks.end(made.id)
    page = await look.go(f"/tasks/{made.id}")
    shown = await page.locator("main").inner_text()
    for text in MARKUP:
        assert " ".join(text.split()[:1]) in shown, text
    for path in (
        f"/tasks/{made.id}",
        "/tasks?name=hurt",
        "/log",
        "/",
        "/search?q=%3Cscript%3Ewindow.hurt%3D1%3C/script%3E",
    ):
        page = await look.go(path)
        assert await page.evaluate("window.hurt") is None, path
        odd = "main :is(script, iframe, img, style, link, math, [onload], [onerror], [style], a[href^=javascript])"
        assert await page.locator(odd).count() == 0, path
