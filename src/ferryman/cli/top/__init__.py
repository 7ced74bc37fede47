"""`ferryman top`: what happens now, on one screen."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

from ferryman.app.ferryman import Ferryman
from ferryman.cli import signals
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.screen import Screen
from ferryman.cli.top import view
from ferryman.cli.top.keys import Keys
from ferryman.cli.top.snapshot import Snapshot, take
from ferryman.cli.words import command, flag, says
from ferryman.kernel import duration, errors

# Who asks once wants the whole answer.
FIRST_SECONDS = 60.0
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(minutes=1)


async def top(
    *,
    every: Annotated[str, says("How often to look anew, from 1s to 1m.")] = "1s",
    once: Annotated[bool, flag("Show what is now, and leave; so it also is where nobody looks, as in a pipe.")] = False,
    options: Options = PLAIN,
) -> None:
    """Watch throughput, queues, what runs, workers and alarms on one screen.

    q leaves, p holds the picture still, + and - change how often it is drawn. With --json one snapshot is written.
    """
    rhythm = _read(every)
    screen = options.screen
    async with options.app() as app:
        first = await take(app, patience=FIRST_SECONDS)
        if screen.json:
            screen.document(first.as_json())
        elif once or not (screen.out.is_terminal and not screen.out.is_dumb_terminal):
            screen.out.print(view.draw(first))
        else:
            await _watch(app, screen, first, rhythm)


def _read(every: str) -> timedelta:
    try:
        read = duration.parse(every)
    except ValueError:
        read = timedelta(0)
    if not SHORTEST <= read <= LONGEST:
        raise errors.UsageInvalid(f"--every: expected a time from 1s to 1m, such as 5s, got {every!r}.")
    return read


async def _watch(app: Ferryman, screen: Screen, first: Snapshot, rhythm: timedelta) -> None:
    """Draw until somebody leaves; a database that is away is told, and looked for again."""
    from rich.live import Live

    stop = asyncio.Event()
    keys = Keys(stop, every=rhythm, shortest=SHORTEST, longest=LONGEST)
    shown, trouble = first, ""
    with (
        signals.draining(stop, lambda _name: None),
        keys.reading(),
        Live(console=screen.out, screen=True, auto_refresh=False) as live,
    ):
        while not stop.is_set():
            size = screen.out.size
            drawn = view.draw(shown, keys=keys, trouble=trouble, height=size.height, width=size.width)
            live.update(drawn, refresh=True)
            await keys.wait()
            if keys.still:
                continue
            try:
                shown, trouble = await take(app), ""
            except errors.DatabaseUnavailable as error:
                trouble = error.message


program = command("top", top)
