"""`ferryman relay webhook pause`, `resume`, `remove` and `retry`."""

from __future__ import annotations

from typing import Annotated

from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import says
from ferryman.relays.model import Webhook

Named = Annotated[str, says("Its id or name.")]
Why = Annotated[str | None, says("Why; it is kept in the log.")]


async def pause(id: Named, /, *, reason: Why = None, options: Options = PLAIN) -> None:
    """Send nothing to a webhook for now; what it is owed waits, not past its end."""
    async with options.app() as app:
        moved = await app.webhooks.pause(id, reason=reason)
        _say(options, await app.webhooks.get(id), moved)


async def resume(id: Named, /, *, reason: Why = None, options: Options = PLAIN) -> None:
    """Send to a paused webhook again."""
    async with options.app() as app:
        moved = await app.webhooks.resume(id, reason=reason)
        _say(options, await app.webhooks.get(id), moved)


async def remove(id: Named, /, *, reason: Why = None, options: Options = PLAIN) -> None:
    """End a webhook for good; what it is owed is dead."""
    async with options.app() as app:
        found = await app.webhooks.get(id)
        moved = await app.webhooks.remove(found.id, reason=reason)
        _say(options, await app.webhooks.get(found.id), moved)


async def retry(delivery: Annotated[str, says("The id of a dead delivery.")], /, *, options: Options = PLAIN) -> None:
    """Try a dead delivery anew, as a new one."""
    async with options.app() as app:
        tried = await app.webhooks.retry(delivery)
    screen = options.screen
    if screen.json:
        screen.document({"delivery": tried.as_json()})
    else:
        screen.print(f"{tried.id}  {tried.state.value}")


def _say(options: Options, webhook: Webhook, moved: bool) -> None:
    screen = options.screen
    if screen.json:
        screen.document({"moved": moved, "webhook": webhook.as_json()})
    else:
        screen.print(f"{webhook.name or webhook.id}  {webhook.state.value}{'' if moved else '  (nothing has changed)'}")
