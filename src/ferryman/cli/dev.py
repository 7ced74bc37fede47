"""`ferryman dev`."""

from __future__ import annotations

import asyncio
from typing import Annotated

from ferryman.app import wiring
from ferryman.app.ferryman import Ferryman
from ferryman.cli import apps, logs, signals, web
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.words import command, flag, says
from ferryman.kernel import errors, setting

SHOWN = 6
MISSING = "not here: pip install 'ferryman[server]'"
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
    demo: Annotated[bool, flag("On the data that `ferryman demo` left, with its app.")] = False,
    port: Annotated[int | None, says("The port of HTTP and the dashboard (8420, or the next free one).")] = None,
    options: Options = PLAIN,
) -> None:
    """Run everything in one process: migrate, a worker with its watchdog, HTTP and the dashboard. Ctrl-C drains.

    Without an address the embedded PostgreSQL of this directory is used; it keeps its data in .ferryman.
    """
    screen = options.screen
    logs.begin("text", level="warning")
    logs.hush()
    loaded = await _loaded(app, options, demo=demo)
    stop = asyncio.Event()
    with signals.draining(stop, lambda _name: screen.say("\nDraining … Ctrl-C again leaves at once.")):
        applied = await loaded.migrate()
        async with loaded, web.beside(loaded, port=port) as served:
            at = await wiring.address(loaded.settings)
            url = None if served is None else served.url
            if screen.json:
                screen.line(
                    {"database_url": setting.show(at), "applied": applied, "handlers": loaded.handlers(), "url": url}
                )
            else:
                _tell(screen, loaded, database=at, url=url, applied=applied)
                _advise(screen, loaded, named=app, url=url, demo=demo)
            await loaded.work(stop=stop)
    screen.say("All is stored; goodbye.")


async def _loaded(app: str | None, options: Options, *, demo: bool) -> Ferryman:
    if not demo:
        return apps.load(app, options.overrides()) if app else Ferryman(settings=options.settings())
    from ferryman.cli.demo import ground

    if app is not None:
        raise errors.UsageInvalid("--demo brings an app of its own; leave --app out.")
    found = await ground.left(options.settings().database_url)
    return apps.load(ground.APP, options.overrides() | found.overrides)


def _tell(screen: Screen, loaded: Ferryman, *, database: str, url: str | None, applied: list[str]) -> None:
    settings = loaded.settings
    home = "" if settings.database_url else f"  (embedded, in {wiring.EMBEDDED_FOLDER})"
    tables = f"applied {len(applied)} migrations" if applied else "up to date"
    handlers = _plain(loaded)
    shown = ", ".join(handlers[:SHOWN]) + (f" and {len(handlers) - SHOWN} more" if len(handlers) > SHOWN else "")
    screen.print(f"database   {setting.show(database)}{home}")
    screen.print(f"tables     {tables}, schema {settings.schema}")
    screen.print(f"worker     {shown or 'no handlers'}; queues {', '.join(loaded.served())}")
    screen.print(f"dashboard  {url or MISSING}")
    screen.print("")


def _plain(loaded: Ferryman) -> list[str]:
    """Return the handlers, those first that people create tasks for: the names of others begin with whose they are."""
    return sorted(loaded.handlers(), key=lambda name: ":" in name)


def _advise(screen: Screen, loaded: Ferryman, *, named: str | None, url: str | None, demo: bool) -> None:
    if demo:
        screen.print(f"This is what the story left. Open {url or 'the dashboard'} and look around.")
    elif named is None:
        screen.print("Try next: write this to first.py, then run `ferryman dev --app first:app`.\n")
        screen.print(EXAMPLE)
    else:
        first = next(iter(_plain(loaded)), "NAME")
        screen.print("Try next, in this directory from another terminal:")
        screen.print(
            f"  ferryman task create {first} '{{}}' --app {named} --wait    # in the braces: its arguments, as JSON"
        )
        screen.print("  ferryman events --follow")
        screen.print("  ferryman top")
    screen.say("Running. Ctrl-C drains and ends.")


program = command("dev", dev)
