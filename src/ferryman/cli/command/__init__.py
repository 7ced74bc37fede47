"""`ferryman command`: send commands, ask about them, follow their stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.command import look, send

program = App(name="command", help="Send commands, ask about them, cancel them.", help_format="plaintext")

_COMMANDS: dict[str, Callable[..., Any]] = {
    "send": send.send,
    "show": look.show,
    "list": look.list_page,
    "story": look.story,
    "cancel": send.cancel,
    "complete": send.complete,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
