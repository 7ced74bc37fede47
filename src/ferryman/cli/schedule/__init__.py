"""`ferryman schedule`: create schedules, ask about them, pause and trigger them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.schedule import create, look, move

program = App(
    name="schedule", help="Create schedules, ask about them, pause and trigger them.", help_format="plaintext"
)

_COMMANDS: dict[str, Callable[..., Any]] = {
    "create": create.create,
    "list": look.list_page,
    "show": look.show,
    "next": look.upcoming,
    "pause": move.pause,
    "resume": move.resume,
    "trigger": move.trigger,
    "delete": move.delete,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
