"""`ferryman dev`."""

from __future__ import annotations

import asyncio
from typing import Annotated

from ferryman.app import wiring
from ferryman.app.ferryman import Ferryman
from ferryman.cli import apps, logs, signals
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import command, says
from ferryman.kernel import setting
from ferryman.kernel.settings import Settings

EXAMPLE = """\
from ferryman import Ferryman

app = Ferryman()

@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"
"""


async def dev(
    *,
    app: Annotated[str | None, says("The app, as module:attribute; without one nothing can be run yet.")] = None,
    options: Options = PLAIN,
) -> None:
    """Run everything in one process: migrate, a worker and its watchdog. Ctrl-C drains.

    Without an address the embedded PostgreSQL of this directory is used; it keeps its data in .ferryman.
    """
    screen = options.screen
    logs.begin("text", level="warning")
    logs.hush()
    loaded = apps.load(app, options.overrides()) if app else Ferryman(settings=options.settings())
    settings = loaded.settings
    stop = asyncio.Event()
    with signals.draining(stop, lambda _name: screen.say("\nDraining … Ctrl-C again leaves at once.")):
        applied = await loaded.migrate()
        async with loaded:
            url = await wiring.address(settings)
            if screen.json:
                screen.line({"database_url": setting.show(url), "applied": applied, "handlers": loaded.handlers()})
            else:
                _welcome(screen, settings, url, loaded, applied=applied, named=app)
            await loaded.work(stop=stop)
    screen.say("All is stored; goodbye.")


def _welcome(
    screen: Screen, settings: Settings, url: str, loaded: Ferryman, *, applied: list[str], named: str | None
) -> None:
    handlers = loaded.handlers()
    served = loaded.served()
    home = "" if settings.database_url else f"  (embedded, in {wiring.EMBEDDED_FOLDER})"
    tables = f"applied {len(applied)} migrations" if applied else "up to date"
    screen.print(f"database   {setting.show(url)}{home}")
    screen.print(f"tables     {tables}, schema {settings.schema}")
    screen.print(f"worker     {', '.join(handlers) or 'no handlers'}; queues {', '.join(served)}")
    screen.print("")
    if named is None:
        screen.print("Try next: write this to first.py, then run `ferryman dev --app first:app`.\n")
        screen.print(EXAMPLE)
    else:
        first = handlers[0] if handlers else "NAME"
        screen.print("Try next, in this directory from another terminal:")
        screen.print(f"  ferryman task create {first} '{{}}' --wait")
        screen.print("  ferryman events --follow")
        screen.print("  ferryman doctor")
    screen.say("Running. Ctrl-C drains and ends.")


program = command("dev", dev)
