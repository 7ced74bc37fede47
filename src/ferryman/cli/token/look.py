"""`ferryman token list`."""

from __future__ import annotations

from typing import Annotated

from ferryman.access.model import ALL, Token
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.relay.look import before_id
from ferryman.cli.words import flag, says


async def list_page(
    *,
    all: Annotated[bool, flag("Of every tenant, and those that serve all.")] = False,
    revoked: Annotated[bool, flag("Those that were revoked too.")] = False,
    limit: Annotated[int, says("How many, 1 to 1000.")] = 50,
    before: Annotated[str | None, says("Go on before this id: the last one of the page before.")] = None,
    options: Options = PLAIN,
) -> None:
    """List tokens, newest first, a page at a time. Their secrets are kept nowhere."""
    async with options.app() as app:
        tenant = None if all else app.settings.tenant
        page = await app.tokens.list(tenant=tenant, revoked=revoked, before=before_id(before), limit=limit)
    screen = options.screen
    if screen.json:
        more = str(page[-1].id) if len(page) == limit else None
        screen.document({"tokens": [each.as_json() for each in page], "next_before": more})
        return
    screen.table(
        ("id", "name", "tenant", "scopes", "made", "last used", "ends"),
        (
            (each.id, each.name, "all" if each.tenant == ALL else each.tenant, ", ".join(each.scopes), each.created_at,
             each.last_used_at, _end(each))
            for each in page
        ),
    )  # fmt: skip
    if len(page) == limit:
        screen.say(f"There may be more: --before {page[-1].id}", style="dim")
    elif not page:
        screen.say("There are none: on this machine the server is open, beyond it none starts.")


def _end(token: Token) -> object:
    return token.expires_at if token.revoked_at is None else "revoked"
