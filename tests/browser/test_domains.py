"""The pages of agents, batches, commands, ingestion and webhooks, in a real browser."""

from uuid import UUID

import pytest

from ferryman.kernel import ids
from tests.browser.conftest import House, Look
from tests.browser.sight import READABLE
from tests.corpus.markup import MARKUP
from tests.patience import PATIENCE_SECONDS
from tools import company
from tools.company import DAWN, HOUR

SOON = 30_000
PAGES = (
    "/agents", "/agents?profile=nobody", "/agents/ada", "/turns/{turn}", "/turns/{waits}", "/turns/{line}",
    "/turns/{forker}", "/batches", "/batches/{running}", "/batches/{partial}", "/batches/{tree}", "/commands",
    "/commands/statistics", "/commands/{told}", "/commands/{title}", "/ingest", "/ingest/sources/orders",
    "/ingest/plans/{harvest}", "/ingest/plans/{stuck}", "/ingest/tasks/{harvest}", "/webhooks", "/webhooks/{ledger}",
)  # fmt: skip
ODD = "main :is(script, iframe, img, style, link, math, [onload], [onerror], [style], a[href^=javascript])"
NAMELESS = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea")].filter((each) =>
    each.checkVisibility() && !(each.textContent?.trim() || each.ariaLabel || each.labels?.length || each.title))
    .map((each) => each.outerHTML)"""


@pytest.mark.contract("S5", "S6")
async def test_every_page_fits_a_phone_can_be_read_and_shows_what_is_stored_as_text(house: House, look: Look) -> None:
    await look.page.set_viewport_size({"width": 360, "height": 740})
    await look.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    for path in PAGES:
        page = await look.go(path.format(**house.parts))
        assert await page.locator("h1").count() == 1, path
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert await page.evaluate("window.hurt") is None, path
        assert await page.locator(ODD).count() == 0, path
        assert await page.evaluate(READABLE) == [], path
        assert await page.evaluate(NAMELESS) == [], path


@pytest.mark.contract("S5", "S6")
async def test_cards_commands_and_answers_of_others_stay_text(house: House, look: Look) -> None:
    hurt = list(MARKUP)
    turn = await house.app.agents.send("eve", {"texts": hurt})
    sent = await house.app.commands.send("Cover.Request", {"texts": hurt}, session_id=MARKUP[0])
    for path in (f"/turns/{turn.id}", f"/commands/{sent.id}", "/agents/eve", "/commands", "/log"):
        page = await look.go(path)
        for each in await page.locator("details").all():
            await each.evaluate("each => { each.open = true; }")
        assert await page.evaluate("window.hurt") is None, path
        assert await page.locator(ODD).count() == 0, path
    page = await look.go(f"/turns/{turn.id}")
    assert MARKUP[0] in str(await page.locator("#cards pre").first.text_content())
    await house.app.agents.stop(turn.id)


@pytest.mark.contract("S5")
async def test_an_agent_is_asked_answered_and_stopped(house: House, look: Look) -> None:
    await house.app.agents.ensure("dot", "asker")
    page = await look.go("/agents/dot")
    await page.get_by_label("Instruction").fill("May I?")
    await page.get_by_role("button", name="Send").click()
    await page.wait_for_url("**/turns/*", timeout=SOON)
    answer = page.get_by_label("Answer", exact=True)
    await answer.wait_for(timeout=SOON)
    await page.locator("svg.lanes text", has_text="ask_editor").wait_for(timeout=SOON)
    await answer.fill('{"yes": true}')
    await page.get_by_role("button", name="Answer").click()
    await page.locator("#state [data-state=success]").wait_for(timeout=SOON)
    assert "yes" in str(await page.locator("#cards").text_content())
    assert await page.get_by_role("button", name="Stop").count() == 0

    turn = await house.app.agents.send("dot", "again")
    await company.asked(house.app, turn.id)
    page = await look.go(f"/turns/{turn.id}")
    await page.get_by_role("button", name="Stop").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#state [data-state=failed]").wait_for(timeout=SOON)
    assert (await house.app.agents.turn(turn.id)).error_code == "stopped"


@pytest.mark.contract("S5")
async def test_a_call_is_answered_without_the_script_and_only_once(house: House) -> None:
    await house.app.agents.ensure("fay", "asker")
    turn = await house.app.agents.send("fay", "May I?")
    call = await company.asked(house.app, turn.id)
    context = await house.browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{house.url}/turns/{turn.id}")
    word = await page.locator("[name=csrf]").first.input_value()
    await page.get_by_label("Answer", exact=True).fill("you may")
    await page.get_by_role("button", name="Answer").click()
    assert await page.locator("#said").inner_text() == "The answer was given."
    assert await turn.result(timeout=PATIENCE_SECONDS) == "you may"
    form: dict[str, str | float | bool] = {
        "csrf": word,
        "call": call,
        "result": "no",
        "status": "success",
        "back": f"/turns/{turn.id}",
    }
    again = await page.request.post(f"{house.url}/turns/{turn.id}/answer", form=form)
    assert "does not wait for an answer" in await again.text()
    await context.close()


@pytest.mark.contract("S5", "B8")
async def test_a_batch_fills_in_by_itself_and_is_cancelled(house: House, look: Look) -> None:
    asks = [{"target_strategy": "new", "target_ref": "asker", "instruction": f"question {n}"} for n in range(2)]
    batch = await house.app.batches.fork(asks)
    page = await look.go(f"/batches/{batch.id}")
    await page.locator("svg.lanes text", has_text="dispatched").nth(1).wait_for(timeout=SOON)
    turn = (await batch.tasks())[0].current_agent_turn_id
    assert turn is not None
    await house.app.agents.report(await company.asked(house.app, turn), result={"summary": "forty-two"})
    await page.locator("svg.lanes text", has_text="success").wait_for(timeout=SOON)
    await page.locator("#results", has_text="forty-two").wait_for(timeout=SOON)
    await page.get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#state [data-state=failed]").wait_for(timeout=SOON)
    assert [each.status for each in await batch.tasks()] == ["success", "canceled"]


@pytest.mark.contract("S5", "C10")
async def test_a_command_and_one_of_its_async_tasks_are_cancelled(house: House, look: Look) -> None:
    sent = await house.app.commands.send("Cover.Request", {"note": "draw"})
    page = await look.go(f"/commands/{sent.id}")
    await page.locator("svg.lanes text", has_text="Cover.Print").first.wait_for(timeout=SOON)
    outside = page.locator("#tasks tr", has_text="Cover.Print")
    await outside.get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#state [data-state=failed]").wait_for(timeout=SOON)
    assert (await house.app.commands.get(sent.id)).failed == 1

    other = await house.app.commands.send("Cover.Request", {"note": "draw"})
    page = await look.go(f"/commands/{other.id}")
    await page.locator("#actions").get_by_role("button", name="Cancel").click()
    await page.locator("#ask").get_by_role("button", name="Yes").click()
    await page.locator("#failed", has_text="cancelled on the dashboard").wait_for(timeout=SOON)


@pytest.mark.contract("S5", "I2", "I11")
async def test_a_window_is_backfilled_and_a_cursor_taken_back_only_when_its_source_is_typed(
    house: House, look: Look
) -> None:
    page = await look.go("/ingest/sources/orders")
    await page.locator("[name=since]").fill("2026-01-04T20:00:00")
    await page.locator("[name=until]").fill("2026-01-05T00:00:00")
    await page.get_by_role("button", name="Plan").click()
    await page.wait_for_url("**/ingest/plans/*", timeout=SOON)
    await page.locator("#figures", has_text="4 of 4 slices").wait_for(timeout=SOON)
    assert await page.locator("svg.coverage rect.fill-green").count() == 4
    made = UUID(page.url.rsplit("/", 1)[1])
    [plan] = await house.app.ingest.status(made)
    assert (plan.operation, plan.since, plan.until) == ("BACKFILL", DAWN - 4 * HOUR, DAWN)

    page = await look.go("/ingest/sources/orders")
    before = [each.position for each in await house.app.ingest.cursors("orders")]
    for typed, said in (("order", "type the name of the source"), ("orders", "was taken back")):
        form = page.locator("form[action$=rewind]")
        await form.locator("[name=cursor]").select_option(label="default harvest")
        await form.locator("[name=at]").fill("2026-01-05T06:00")
        await form.locator("[name=reason]").fill("the last hours were wrong")
        await form.locator("[name=sure]").fill(typed)
        await form.get_by_role("button").click()
        await page.locator("#ask").get_by_role("button", name="Yes").click()
        await page.locator("#said", has_text=said).wait_for(timeout=SOON)
        after = [each.position for each in await house.app.ingest.cursors("orders")]
        assert (after == before) is (typed != "orders")
    assert DAWN + 6 * HOUR in [each.at for each in await house.app.ingest.cursors("orders")]


@pytest.mark.contract("S5")
async def test_a_webhook_is_paused_and_goes_on_and_a_dead_letter_is_tried_anew(house: House, look: Look) -> None:
    made = (
        await house.app.webhooks.add("http://127.0.0.1:9/hook", kinds="batch", name=f"w-{ids.new_id().hex}")
    ).webhook
    page = await look.go(f"/webhooks/{made.id}")
    for button, state in (("Pause", "paused"), ("Resume", "active")):
        await page.locator("#actions").get_by_role("button", name=button).click()
        if button == "Pause":
            await page.locator("#ask").get_by_role("button", name="Yes").click()
        await page.locator(f"#state [data-state={state}]").wait_for(timeout=SOON)
    page = await look.go(f"/webhooks/{house.parts['ledger']}?state=dead")
    dead = await page.locator("#deliveries tr[data-row]").first.get_attribute("data-row")
    assert dead is not None
    await page.locator(f"tr[data-row='{dead}']").get_by_role("button", name="Retry").click()
    await page.locator("#said", has_text="tried anew").wait_for(timeout=SOON)
    assert UUID(dead) in {each.retry_of for each in await house.app.webhooks.deliveries(house.parts["ledger"])}
