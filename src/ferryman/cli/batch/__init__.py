"""`ferryman batch`: fork batches of agents' turns, watch them fill in, end them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.batch import look, move

program = App(
    name="batch", help="Fork batches of agents' turns, watch them fill in, end them.", help_format="plaintext"
)

_COMMANDS: dict[str, Callable[..., Any]] = {
    "fork": move.fork,
    "show": look.show,
    "list": look.list_page,
    "cancel": move.cancel,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
