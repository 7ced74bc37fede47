"""`ferryman migrate`."""

from __future__ import annotations

from typing import Annotated

from ferryman.app import wiring
from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command, flag
from ferryman.kernel import migrate as migrations


async def migrate(
    *,
    plan: Annotated[bool, flag("Change nothing: print the SQL that would run, for psql -v ON_ERROR_STOP=1.")] = False,
    options: Options = PLAIN,
) -> None:
    """Bring the tables up to this version; many may do it at once."""
    settings = options.settings()
    screen = options.screen
    url = await wiring.address(settings)
    if plan:
        script = await migrations.plan(url, schema=settings.schema)
        if screen.json:
            missing = await migrations.pending(url, schema=settings.schema)
            screen.document({"pending": missing, "script": script})
        else:
            screen.out.print(script, end="", soft_wrap=True)
        return
    missing = await migrations.pending(url, schema=settings.schema)
    if missing and not screen.json:
        screen.say(f"Applying {len(missing)} to schema {settings.schema} …")
    applied = await migrations.migrate(url, schema=settings.schema)
    if screen.json:
        screen.document({"applied": applied})
        return
    for name in applied:
        screen.print(f"applied {name}")
    if not applied:
        screen.print("Nothing to do: the tables are those of this version.")


program = command("migrate", migrate)
