"""`ferryman token create` and `revoke`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ferryman.access.model import ALL
from ferryman.cli import exits
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import flag, says

Everywhere = Annotated[bool, flag("For all tenants: an operator's.")]


async def create(
    name: Annotated[str, says("A name to know it by, such as ci or ada.")],
    /,
    *,
    scope: Annotated[
        list[str] | None,
        Parameter(name="--scope", negative="", help="read, write (and read), worker, admin (everything); else read."),
    ] = None,
    all_tenants: Everywhere = False,
    lasts: Annotated[str | None, says("After which time it expires, such as 90d; else never.")] = None,
    options: Options = PLAIN,
) -> None:
    """Make a token, and show it: this once, it is kept nowhere.

    Example: ferryman token create ada --scope admin --all-tenants --lasts 90d
    """
    async with options.app() as app:
        made = await app.tokens.create(name, scopes=scope or ["read"], tenant=ALL if all_tenants else None, lasts=lasts)
    screen = options.screen
    if screen.json:
        screen.document({"token": made.token.as_json(), "text": made.text})
        return
    screen.print(made.text)
    whose = "all tenants" if made.token.operator else f"tenant {made.token.tenant}"
    screen.say(f"{made.token.name}: {', '.join(made.token.scopes)}, for {whose}. It is shown this once.", style="dim")


async def revoke(
    id: Annotated[str, says("Its id or name.")],
    /,
    *,
    all_tenants: Everywhere = False,
    reason: Annotated[str | None, says("Why; it is kept in the log.")] = None,
    options: Options = PLAIN,
) -> int:
    """Revoke a token, and end the sessions of who signed in with it. Servers refuse it within seconds."""
    async with options.app() as app:
        done = await app.tokens.revoke(id, tenant=ALL if all_tenants else None, reason=reason)
    screen = options.screen
    if screen.json:
        screen.document({"revoked": done})
    else:
        screen.print(f"{id}  {'revoked' if done else 'had been revoked'}")
    return exits.OK
