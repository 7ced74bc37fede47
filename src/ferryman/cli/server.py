"""`ferryman server`."""

from __future__ import annotations

import asyncio
from typing import Annotated

from ferryman.app.ferryman import Ferryman
from ferryman.cli import apps, logs, signals
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command, says


async def server(
    *,
    app: Annotated[str | None, says("The app, as module:attribute; without one any name of a task is taken.")] = None,
    host: Annotated[str | None, says("The address to listen on; beyond 127.0.0.1 only with tokens.")] = None,
    port: Annotated[int | None, says("The port (8420); 0 takes a free one.")] = None,
    log: Annotated[logs.Form, says("Form of the logs on stderr.")] = "text",
    options: Options = PLAIN,
) -> None:
    """Serve HTTP and the dashboard, until told to stop. It runs no tasks: `ferryman worker` does."""
    from ferryman.http.serving import serving

    logs.begin(log, level="info")
    loaded = apps.load(app, options.overrides()) if app else Ferryman(settings=options.existing())
    stop = asyncio.Event()
    screen = options.screen
    with signals.draining(stop, lambda _name: screen.say("Stopping …")):
        async with loaded, serving(loaded, host=host, port=port) as served:
            if screen.json:
                screen.line({"url": served.url})
            else:
                screen.print(f"Serving {served.url}  (OpenAPI at {served.url}/openapi.json). Ctrl-C ends.")
            await stop.wait()


program = command("server", server)
