"""`ferryman relay webhook add`, `list`, `secret` and `rotate`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ferryman.app.relays import Added
from ferryman.cli import choices
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.relay.look import before_id
from ferryman.cli.words import says

Named = Annotated[str, says("Its id or name.")]


async def add(
    url: Annotated[str, says("Where events are posted to, such as https://example.com/hook.")],
    /,
    *,
    kind: Annotated[
        list[str] | None,
        Parameter(name="--kind", negative="", help="Only these: task, task.failed … (else everything)."),
    ] = None,
    name: Annotated[str | None, says("A name of your own; the same again answers with what is there.")] = None,
    options: Options = PLAIN,
) -> None:
    """Add a webhook that is told of what happens from now on, and show the secret that its calls are signed with.

    Example: ferryman relay webhook add https://example.com/hook --kind task.failed --name alarms
    """
    async with options.app() as app:
        told(await app.webhooks.add(url, kinds=kind, name=name), options)


def told(added: Added, options: Options) -> None:
    """Show a webhook with its secret."""
    screen = options.screen
    if screen.json:
        document = {"webhook": added.webhook.as_json(), "secret": added.secret, "idempotent_hit": added.idempotent_hit}
        screen.document(document)
        return
    there = "  (it was there already)" if added.idempotent_hit else ""
    screen.print(f"{added.webhook.id}  {added.webhook.state.value}{there}")
    screen.print(f"secret  {added.secret}")
    screen.say("The receiver checks calls with it; see docs/guide/relays.md.", style="dim")


async def list_page(
    *,
    state: Annotated[choices.WebhookState | None, says("In this state only.")] = None,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List webhooks, newest first, a page at a time."""
    async with options.app() as app:
        page = await app.webhooks.list(state=state, before=before_id(before), limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"webhooks": [each.as_json() for each in page], "next_before": more})
        return
    screen.table(
        ("id", "name", "url", "kinds", "state", "since"),
        (
            (each.id, each.name, each.url, "everything" if each.kinds is None else ", ".join(each.kinds), each.state.value,
             each.created_at)
            for each in page
        ),
    )  # fmt: skip
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none.")


async def secret(id: Named, /, *, options: Options = PLAIN) -> None:
    """Show the secret of a webhook."""
    async with options.app() as app:
        found = await app.webhooks.get(id)
        told(Added(found, await app.webhooks.secret(found.id)), options)


async def rotate(id: Named, /, *, options: Options = PLAIN) -> None:
    """Give a webhook a new secret; for a day its calls carry two signatures, of the new one and of the old."""
    async with options.app() as app:
        told(await app.webhooks.rotate(id), options)
