"""`ferryman config`."""

from __future__ import annotations

from ferryman.cli.options import PLAIN, Options
from ferryman.cli.words import command


def config(*, options: Options = PLAIN) -> None:
    """Show every setting, its value and where it came from; passwords are masked."""
    sources = options.settings().sources()
    screen = options.screen
    if screen.json:
        screen.document({key: {"value": value, "from": origin} for key, (value, origin) in sources.items()})
        return
    screen.table(("setting", "value", "from"), ((key, value, origin) for key, (value, origin) in sources.items()))


program = command("config", config)
