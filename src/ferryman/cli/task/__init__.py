"""`ferryman task`: create tasks, ask about them, stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cyclopts import App

from ferryman.cli.task import cancel, create, event, look, retry, wait

program = App(name="task", help="Create tasks, ask about them, stop them.", help_format="plaintext")

_COMMANDS: dict[str, Callable[..., Any]] = {
    "create": create.create,
    "list": look.list_page,
    "show": look.show,
    "wait": wait.wait,
    "result": wait.result,
    "logs": look.logs,
    "event": event.event,
    "cancel": cancel.cancel,
    "retry": retry.retry,
}

for _order, (_name, _function) in enumerate(_COMMANDS.items()):
    program.command(_function, name=_name, sort_key=_order)
