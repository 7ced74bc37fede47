"""`ferryman agent`: ask about agents and their turns, send them messages, stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.agent import look, move

program = App(
    name="agent", help="Ask about agents and their turns, send them messages, stop them.", help_format="plaintext"
)

_COMMANDS: dict[str, Callable[..., Any]] = {
    "list": look.list_page,
    "show": look.show,
    "create": move.create,
    "send": move.send,
    "turns": look.turns,
    "timeline": look.timeline,
    "cards": look.cards,
    "report": move.report,
    "stop": move.stop,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
