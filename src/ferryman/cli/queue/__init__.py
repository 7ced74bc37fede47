"""`ferryman queue`: ask about queues, agree on their limits, pause and resume them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.queue import agree, look

program = App(
    name="queue", help="Ask about queues, agree on their limits, pause and resume them.", help_format="plaintext"
)

_COMMANDS: dict[str, Callable[..., Any]] = {
    "list": look.list_all,
    "show": look.show,
    "set": agree.set_terms,
    "pause": agree.pause,
    "resume": agree.resume,
    "declare": agree.declare,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
