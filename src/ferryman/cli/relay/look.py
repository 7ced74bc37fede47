"""`ferryman relay status`, `forget` and `ferryman relay webhook deliveries`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from ferryman.cli import choices, exits, spelling
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import says
from ferryman.kernel import errors
from ferryman.relays.intake import as_uuid


async def status(*, options: Options = PLAIN) -> None:
    """Show how far each reader of the log is from its end, and who holds it."""
    async with options.app() as app:
        standings = await app.relays.status()
    screen = options.screen
    if screen.json:
        screen.document({"consumers": [each.as_json() for each in standings]})
        return
    screen.table(
        ("consumer", "read up to", "behind", "by", "held by", "until"),
        (
            (each.name, f"evt_{each.last_id}", each.behind, _late(each.behind_seconds, each.behind), each.lease_owner,
             each.leased_until)
            for each in standings
        ),
    )  # fmt: skip
    if not standings:
        screen.say("Nobody reads the log: set relays.nats or relays.webhook_key, and start a worker.")


def _late(seconds: float, behind: int) -> str | None:
    return spelling.seconds(seconds) if behind else None


async def forget(
    consumer: Annotated[str, says("Its name, as `ferryman relay status` shows it.")], /, *, options: Options = PLAIN
) -> int:
    """Remove a reader of the log that is gone for good, so that old days of the log can be dropped.

    A worker that still relays under this name begins anew: to NATS with the oldest event, to webhooks with the next.
    """
    async with options.app() as app:
        forgotten = await app.relays.forget(consumer)
    screen = options.screen
    if screen.json:
        screen.document({"forgotten": forgotten})
    else:
        screen.print(f"{consumer}  {'forgotten' if forgotten else 'is no reader of the log'}")
    return exits.OK if forgotten else exits.NOT_FOUND


async def deliveries(
    id: Annotated[str, says("The webhook: its id or name.")],
    /,
    *,
    state: Annotated[choices.DeliveryState | None, says("In this state only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List what a webhook was sent and is owed, newest first, a page at a time."""
    async with options.app() as app:
        page = await app.webhooks.deliveries(id, state=state, before=before_id(before), limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"deliveries": [each.as_json() for each in page], "next_before": more})
        return
    screen.table(
        ("id", "event", "kind", "state", "tries", "next", "ended", "why"),
        (
            (each.id, each.event_id, each.kind, each.state.value, each.attempts,
             each.next_at if each.finished_at is None else None, each.finished_at, each.last_error)
            for each in page
        ),
    )  # fmt: skip
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none.")


def before_id(before: str | None) -> UUID | None:
    """Read where a page goes on."""
    last = None if before is None else as_uuid(before)
    if before is not None and last is None:
        raise errors.UsageInvalid(f"--before: expected an id, got {before!r}.")
    return last
