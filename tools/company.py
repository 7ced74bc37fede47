"""Agents, commands, sources and webhooks with a past: for pictures of the dashboard, and for tests of its pages.

What must last as long as somebody looks waits: for a person who never answers, for work that is done outside, for a page that
does not come. Some of what is said here is meant to break pages that take text for markup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from ferryman import Ferryman
from ferryman.agents.work.profiles import Budget
from ferryman.agents.work.steps import Spent
from ferryman.agents.work.turn import Turn
from ferryman.app.batches import BatchHandle
from ferryman.cli.demo import novel
from ferryman.commands.model import Command, Message
from ferryman.ingest.ports import Failure, FetchFailed, Item, Page, Request, Written
from ferryman.ingest.sinks.call import CallSink

HOSTILE = '<script>window.hurt = 1</script><img src=x onerror="window.hurt = 1"><svg onload="window.hurt = 1">'
RELAYS = {"webhook_key": "k" * 40, "attempts": 1, "private_networks": ("127.0.0.0/8",)}
HOUR = timedelta(hours=1)
DAWN = datetime(2026, 1, 5, tzinfo=UTC)
PATIENCE, LOOK = 30.0, 0.02
PAGE_ITEMS = 20

Answered = TypeVar("Answered")


def join(app: Ferryman) -> None:
    """Register everything."""
    _agents(app)
    _commands(app)
    _sources(app)


def _agents(app: Ferryman) -> None:
    @app.tool(timeout_seconds=10)
    async def search(topic: str) -> dict[str, Any]:
        return {"topic": topic, "found": f"what the library has on {topic}"}

    @app.tool(external=True, suspend_timeout_seconds=3600)
    def ask_editor(draft: str) -> None: ...

    async def think(topic: str, tokens: int) -> Spent[str]:
        await asyncio.sleep(0.02)
        return Spent(f"a paragraph on {topic}", input_tokens=tokens, output_tokens=tokens // 3, cost=tokens / 100_000)

    @app.agent(tools=["search", "ask_editor"], budget=Budget(tokens=2000, tool_calls=8))
    async def assistant(turn: Turn) -> dict[str, Any]:
        plan = await turn.step("plan", think, "ferries", 120)
        await turn.call_tools([("search", {"topic": each}) for each in ("ferries", "rivers", "ropes")])
        draft = await turn.step("draft", think, plan, 480)
        verdict = await turn.call_tool("ask_editor", draft=draft)
        return {"summary": f"printed: {verdict}", "text": draft}

    @app.agent
    async def shop(turn: Turn) -> dict[str, Any]:
        number = int(str(turn.instruction).rpartition(" ")[2])
        if number == 3:
            raise ValueError(f"sold out {HOSTILE}")
        await asyncio.sleep(0.01 * number)
        return {"summary": f"{90 + number} coins {HOSTILE if number == 2 else ''}"}

    @app.agent
    async def asker(turn: Turn) -> Any:
        return await turn.call_tool("ask_editor", draft=str(turn.instruction))

    @app.agent
    async def buyer(turn: Turn) -> Any:
        said = str(turn.instruction)
        if said == "everywhere":
            return (await turn.fork_join([_asks("buyer", f"town {n}") for n in range(2)], deadline_seconds=600))[
                "status"
            ]
        return (await turn.fork_join([_asks("shop", f"{said}, shop {n}") for n in range(5)]))["status"]


def _asks(profile: str, instruction: str) -> dict[str, str]:
    return {"target_strategy": "new", "target_ref": profile, "instruction": instruction}


def _commands(app: Ferryman) -> None:
    novel.write(app)

    @app.on_command("Cover.Request")
    async def cover(command: Command) -> list[Message]:
        return [Message("Cover.Draft.GenerationRequested"), Message("Cover.Print.Requested", outside=True)]

    @app.capability("Cover.Draft.Generation")
    async def draft() -> dict[str, str]:
        return {"cover": HOSTILE}

    @app.on_command("Title.Request")
    async def title(command: Command) -> list[Message]:
        return [Message("Title.Choice", max_retries=1)]

    @app.capability("Title.Choice", backoff=0.01)
    async def choose() -> str:
        raise ValueError("every title is taken")


def _sources(app: Ferryman) -> None:
    never = asyncio.Event()
    refusals = iter((429, 429))

    def records(request: Request, count: int) -> list[Item]:
        assert request.window is not None
        since = request.window.since
        return [
            {"id": f"{since:%m%dT%H}-{n}", "at": (since + n * timedelta(minutes=1)).isoformat()} for n in range(count)
        ]

    @app.source(name="orders", sink=CallSink(_taken), safety_lag=timedelta(0), rate="60/s", burst=2)
    async def orders(request: Request) -> Page:
        at = 0 if request.position == "start" else int(request.position.partition(":")[2])
        if at == 1:
            for status in refusals:
                raise FetchFailed("slow down", kind=Failure.SLOW_DOWN, status=status)
        more = at < 2
        return Page(records(request, PAGE_ITEMS), f"page:{at + 1}" if more else None, more, size=4096)

    @app.source(name="archive", sink=CallSink(_taken), safety_lag=timedelta(0), timeout=10 * HOUR)
    async def archive(request: Request) -> Page:
        assert request.window is not None
        if request.window.since >= DAWN + 3 * HOUR:
            await never.wait()
        if request.window.since == DAWN + HOUR:
            raise FetchFailed("this hour is gone", kind=Failure.BATCH, status=410)
        return Page(records(request, PAGE_ITEMS), None, False, size=2048)


async def _taken(items: Sequence[Item]) -> Written:
    bad = [({**item, "note": HOSTILE}, f"no customer {HOSTILE}") for item in items if str(item["id"]).endswith("02-7")]
    return Written(len(items) - len(bad), bad)


async def past(app: Ferryman) -> dict[str, UUID]:
    """Let all of it happen, and return some of it by the part it plays; a worker of the app runs."""
    parts = await asyncio.gather(_spoken(app), _commanded(app), _fetched(app), _called(app))
    return {name: id for part in parts for name, id in part.items()}


async def _spoken(app: Ferryman) -> dict[str, UUID]:
    for name, profile in (("ada", "assistant"), ("bea", "buyer"), ("cay", "asker"), ("eve", "asker")):
        await app.agents.ensure(name, profile)
    done = await app.agents.send("ada", f"How does a ferry cross a river? {HOSTILE}")
    await app.agents.report(await asked(app, done.id), result=f"print it {HOSTILE}")
    await done.result(timeout=PATIENCE)
    waits = await app.agents.send("ada", "And a bridge?")
    line = await app.agents.send("ada", "And a ford?")
    await asked(app, waits.id)
    joined = await app.agents.send("bea", "a rope")
    await joined.result(timeout=PATIENCE)
    nested = await app.agents.send("bea", "everywhere")
    await nested.result(timeout=PATIENCE)
    answers = await app.agents.send("eve", f"{HOSTILE}")
    await asked(app, answers.id)
    running = await app.batches.fork(
        [_asks("asker", "one"), _asks("shop", "rope, shop 1"), _asks("shop", "rope, shop 4")], deadline_seconds=1200
    )
    await _until(lambda: _ended(running, 2))
    [partial] = await app.batches.forked(joined.id, "bea")
    [tree] = await app.batches.forked(nested.id, "bea")
    return {
        "turn": done.id, "waits": waits.id, "line": line.id, "forker": nested.id, "answers": answers.id,
        "running": running.id, "partial": partial.id, "tree": tree.id,
    }  # fmt: skip


async def asked(app: Ferryman, turn: UUID) -> str:
    """Wait until a turn waits for its editor, and return the call."""

    async def call() -> str | None:
        waits = [each for each in await app.agents.waits(turn) if each.wait_status == "waiting"]
        return next((each.tool_call_id for each in waits if each.tool_name == "ask_editor"), None)

    return await _until(call) or ""


async def _ended(batch: BatchHandle, count: int) -> bool:
    return sum(each.finished_at is not None for each in await batch.tasks()) >= count


async def _until(ask: Callable[[], Awaitable[Answered]]) -> Answered:
    """Look now and again until there is an answer."""
    async with asyncio.timeout(PATIENCE):
        while not (answer := await ask()):  # noqa: ASYNC110 - of much of this nobody rings
            await asyncio.sleep(LOOK)
        return answer


async def _commanded(app: Ferryman) -> dict[str, UUID]:
    told = await app.commands.send(
        "Character.Request", {"character_type": "heroine", "existing": [HOSTILE]}, session_id="novel-1"
    )
    waits = await app.commands.send("Cover.Request", {"note": HOSTILE}, session_id="novel-1", deadline=3600)
    failed = await app.commands.send("Title.Request", {"words": 3})
    for each in (told, failed):
        await app.commands.wait(each.id, timeout=PATIENCE)

    async def begun() -> bool:
        return len((await app.commands.story(waits.id)).tasks) == 2

    await _until(begun)
    return {"told": told.id, "cover": waits.id, "title": failed.id}


async def _fetched(app: Ferryman) -> dict[str, UUID]:
    params = {"step_seconds": 3600}
    harvest = await app.ingest.plan("orders", since=DAWN, until=DAWN + 8 * HOUR, params=params)
    stuck = await app.ingest.plan("archive", since=DAWN, until=DAWN + 12 * HOUR, params=params)
    assert harvest.id is not None
    assert stuck.id is not None
    await app.ingest.wait(harvest.id, timeout=PATIENCE)

    async def begun() -> bool:
        return (await app.ingest.status(stuck.id))[0].slices_done == 2

    await _until(begun)
    return {"harvest": harvest.id, "stuck": stuck.id}


async def _called(app: Ferryman) -> dict[str, UUID]:
    dead = (await app.webhooks.add("http://127.0.0.1:9/hook", kinds="batch", name="ledger")).webhook
    resting = (await app.webhooks.add("http://127.0.0.1:9/rest", kinds="command", name="resting")).webhook
    await app.webhooks.pause(resting.id)
    forked = await app.batches.fork([_asks("shop", "rope, shop 0")])
    await forked.result(timeout=PATIENCE)
    await _until(lambda: app.webhooks.deliveries(dead.id, state="dead"))
    return {"ledger": dead.id, "hushed": resting.id}
